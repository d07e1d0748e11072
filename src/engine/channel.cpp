// SPDX-License-Identifier: MIT
#include "src/engine/channel.h"

#include <utility>

namespace nib {
namespace {

size_t size_of(const GeneratedToken& token) {
    return sizeof token + token.top.size() * sizeof(TokenScore);
}

}  // namespace

void Channel::push(std::string text, GeneratedToken token, const Timings& timings) {
    {
        const std::lock_guard lock(mutex_);
        unread_ += text.size() + size_of(token);
        event_.text += text;
        event_.tokens.push_back(std::move(token));
        event_.timings = timings;
        fresh_ = true;
    }
    changed_.notify_one();
}

void Channel::set_prompt_done(int32_t tokens, const Timings& timings) {
    {
        const std::lock_guard lock(mutex_);
        event_.prompt_done = tokens;
        event_.timings = timings;
        fresh_ = true;
    }
    changed_.notify_one();
}

void Channel::finish(StreamEvent end) {
    {
        const std::lock_guard lock(mutex_);
        end.text = event_.text + end.text;
        event_.tokens.insert(event_.tokens.end(), std::make_move_iterator(end.tokens.begin()),
                             std::make_move_iterator(end.tokens.end()));
        end.tokens = std::move(event_.tokens);
        end.prompt_done = event_.prompt_done;
        end.done = true;
        event_ = std::move(end);
        fresh_ = true;
    }
    changed_.notify_one();
}

std::optional<StreamEvent> Channel::next(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    if (taken_) {
        StreamEvent over;
        over.done = true;
        return over;
    }
    if (!changed_.wait_for(lock, timeout, [this] { return fresh_; })) return std::nullopt;
    StreamEvent out = std::exchange(event_, {});
    event_.prompt_done = out.prompt_done;
    fresh_ = false;
    taken_ = out.done;
    // A paused sequence goes on when its reader has caught up.
    if (unread_.exchange(0) > kPauseBytes / 2 && !out.done) wakeup_->notify();
    return out;
}

}  // namespace nib
