// SPDX-License-Identifier: MIT
// The way from the engine thread to the reader of one stream: what is new is collected in one event
// until the reader takes it, so the engine never waits and a slow reader gets longer pieces.
//
// Threads: the engine thread pushes; one reader calls next(); cancel() from any thread.
#pragma once
#include "src/engine.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

namespace nib {

// A sequence whose reader leaves so much unread is paused; 30 s later it is cancelled.
inline constexpr size_t kPauseBytes = 256u << 10;
inline constexpr std::chrono::seconds kPauseLimit{30};

// Wakes the engine thread. Outlives the engine where a stream still holds it.
class Wakeup {
  public:
    void notify() {
        {
            const std::lock_guard lock(mutex_);
            woken_ = true;
        }
        changed_.notify_one();
    }
    // True if somebody notified since the last call; waits for it at most `timeout`.
    bool wait(std::chrono::milliseconds timeout) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, timeout, [this] { return woken_; });
        return std::exchange(woken_, false);
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool woken_ = false;
};

class Channel {
  public:
    explicit Channel(std::shared_ptr<Wakeup> wakeup) : wakeup_(std::move(wakeup)) {}

    // The engine's side.
    void push(std::string text, GeneratedToken token, const Timings& timings);
    void set_prompt_done(int32_t tokens, const Timings& timings);
    // The last event: what is in `end` beside text and tokens, which are added to what is unread.
    void finish(StreamEvent end);
    size_t unread_bytes() const { return unread_; }
    bool cancelled() const { return cancelled_; }

    // The reader's side.
    std::optional<StreamEvent> next(std::chrono::milliseconds timeout);
    void cancel() noexcept {
        if (!cancelled_.exchange(true)) wakeup_->notify();
    }

  private:
    std::shared_ptr<Wakeup> wakeup_;
    std::atomic<bool> cancelled_{false};
    std::atomic<size_t> unread_{0};
    std::mutex mutex_;
    std::condition_variable changed_;
    StreamEvent event_;
    bool fresh_ = false, taken_ = false;  // something is unread; the last event was read
};

// What submit() returns.
class ChannelStream : public Stream {
  public:
    explicit ChannelStream(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}
    ~ChannelStream() override { channel_->cancel(); }
    std::optional<StreamEvent> next(std::chrono::milliseconds timeout) override {
        return channel_->next(timeout);
    }
    void cancel() noexcept override { channel_->cancel(); }

  private:
    std::shared_ptr<Channel> channel_;
};

}  // namespace nib
