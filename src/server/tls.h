// SPDX-License-Identifier: MIT
// TLS 1.2 and 1.3 for the server's connections, and the one door to OpenSSL.
#pragma once
#include "ggml-like/result.h"
#include "src/server/transport.h"

#include <memory>
#include <string>

namespace nib {

// The certificate with its chain and the key, PEM files both. Errors: BadRequest naming the flag
// and the file: not readable, no certificate, a key with a password or of another certificate;
// Unsupported if the program was built without OpenSSL.
Result<std::shared_ptr<const TransportMaker>> open_tls(const std::string& cert_file,
                                                       const std::string& key_file);

}  // namespace nib
