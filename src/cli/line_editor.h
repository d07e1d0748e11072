// SPDX-License-Identifier: MIT
// Lines from the person at the terminal, with editing and history (libedit, whose one door is
// line_editor.cpp), or plain lines from a pipe.
//
// At a terminal: a bracketed paste is inserted as it is, its newlines included; Alt-Enter inserts a
// newline; Tab completes chat commands; the history is kept in a file that only its owner can read.
#pragma once
#include "ggml-like/result.h"

#include <memory>
#include <span>
#include <string>

namespace nib {

enum class LineEnd {
    Line,         // a line was read
    EndOfInput,   // Ctrl-D or the end of the pipe
    Interrupted,  // Ctrl-C
};

struct Line {
    LineEnd end = LineEnd::EndOfInput;
    std::string text;  // without the final newline
};

struct LineEditorOptions {
    std::string history_path;  // empty: no history
    std::span<const char* const>
        commands;  // what Tab completes at the start of a line; outlives the editor
    bool color = false;
};

class LineEditor {
  public:
    static Result<std::unique_ptr<LineEditor>> create(LineEditorOptions options);
    ~LineEditor();

    // Whether a person types: standard input and output are terminals.
    bool interactive() const;
    // `continued`: the line goes on with a message, which the prompt shows. Io if the system
    // refuses.
    Result<Line> read(bool continued);
    // A whole message for the history.
    void remember(const std::string& message);

  private:
    LineEditor();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace nib
