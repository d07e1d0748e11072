// SPDX-License-Identifier: MIT
// How much of the machine each client had: rows of its requests. Who had least goes first. Who was
// away does not come back with a credit: it starts where the least served of the present ones is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace nib {

class FairShare {
  public:
    // A request of the client comes or goes.
    void enter(uint64_t client) {
        Client& c = clients_[client];
        if (c.requests++ == 0) c.rows = clients_.size() > 1 ? least(client) : 0;
    }
    void leave(uint64_t client) {
        const auto found = clients_.find(client);
        if (found != clients_.end() && --found->second.requests == 0) clients_.erase(found);
    }
    void add_rows(uint64_t client, int32_t rows) {
        const auto found = clients_.find(client);
        if (found != clients_.end()) found->second.rows += static_cast<uint64_t>(rows);
    }
    uint64_t rows(uint64_t client) const {
        const auto found = clients_.find(client);
        return found == clients_.end() ? 0 : found->second.rows;
    }
    size_t size() const { return clients_.size(); }

  private:
    struct Client {
        uint64_t rows = 0;
        int32_t requests = 0;
    };
    uint64_t least(uint64_t without) const {
        uint64_t rows = UINT64_MAX;
        for (const auto& [id, c] : clients_) {
            if (id != without && c.rows < rows) rows = c.rows;
        }
        return rows;
    }
    std::unordered_map<uint64_t, Client> clients_;
};

}  // namespace nib
