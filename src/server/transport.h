// SPDX-License-Identifier: MIT
// How the bytes of a connection travel over its socket: as they are, or through TLS (tls.h).
// Nothing here waits: a call moves what it can and else says what to poll for. The descriptor
// belongs to the connection. Threads: one per Transport; a maker is used by all.
#pragma once
#include <cstddef>
#include <memory>

#include <sys/types.h>

namespace nib {

class Transport {
  public:
    virtual ~Transport() = default;
    // Bytes moved, at least one. 0: the other side has ended or broke the protocol. -1: none can
    // move before poll() reports `events`.
    virtual ssize_t receive(char* bytes, size_t size, short& events) = 0;
    virtual ssize_t send(const char* bytes, size_t size, short& events) = 0;
    // Tells the other side that nothing more comes, if the protocol has a word for it.
    virtual void finish() = 0;
};

class TransportMaker {
  public:
    virtual ~TransportMaker() = default;
    virtual std::unique_ptr<Transport> open(int fd) const = 0;
};

std::unique_ptr<Transport> plain_transport(int fd);

}  // namespace nib
