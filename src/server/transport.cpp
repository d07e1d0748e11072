// SPDX-License-Identifier: MIT
#include "src/server/transport.h"

#include <cerrno>

#include <poll.h>
#include <sys/socket.h>

namespace nib {
namespace {

class PlainTransport final : public Transport {
  public:
    explicit PlainTransport(int fd) : fd_(fd) {}
    ssize_t receive(char* bytes, size_t size, short& events) override {
        events = POLLIN;
        return outcome(recv(fd_, bytes, size, MSG_DONTWAIT));
    }
    ssize_t send(const char* bytes, size_t size, short& events) override {
        events = POLLOUT;
        return outcome(::send(fd_, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT));
    }
    void finish() override {}

  private:
    static ssize_t outcome(ssize_t n) {
        if (n >= 0) return n;
        return errno == EAGAIN || errno == EINTR ? -1 : 0;
    }
    const int fd_;
};

}  // namespace

std::unique_ptr<Transport> plain_transport(int fd) {
    return std::make_unique<PlainTransport>(fd);
}

}  // namespace nib
