// SPDX-License-Identifier: MIT
// What OpenAI's two forms of an answer have in common: an object with choices, usage and timings,
// or chunks of it that join to the same, a last chunk with the usage if it is wanted, and [DONE].
#pragma once
#include "src/server/answer.h"

namespace nib {

class OpenAiFormat : public AnswerFormat {
  public:
    Json whole(const AnswerContext& context, const std::vector<Choice>& choices) final;
    void news(const AnswerContext& context, const ChoiceNews& news, std::string& out) final;
    void progress(const AnswerContext& context,
                  const Choice& choice,
                  Json progress,
                  std::string& out) final;
    void end(const AnswerContext& context,
             const std::vector<Choice>& choices,
             std::string& out) final;

  protected:
    OpenAiFormat(const char* object, const char* chunk_object)
        : object_(object), chunk_object_(chunk_object) {}

    // The member of a choice that holds its whole text.
    virtual Json message(const AnswerContext& context, const Choice& choice) = 0;
    // The member of a chunk's choice that holds new text; null: there is none any more.
    virtual Json piece(const std::string* text) = 0;
    // Before the first news of a choice: may write a chunk; what it returns comes before the text.
    virtual std::string open(const AnswerContext& context,
                             const Choice& choice,
                             std::string& out) = 0;
    virtual Json scores(const AnswerContext& context,
                        const Choice& choice,
                        std::span<const GeneratedToken> tokens) = 0;

    Json chunk(const AnswerContext& context, int index, const Json& piece) const;

  private:
    const char *object_, *chunk_object_;
};

}  // namespace nib
