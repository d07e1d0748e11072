// SPDX-License-Identifier: MIT
// The handshake happens inside the first reads, under the deadline of a connection that waits for
// its request. OpenSSL reaches the socket through a BIO of ours, because its own raises SIGPIPE.
#include "src/server/tls.h"

#ifdef NIB_TLS
    #include <cerrno>
    #include <climits>

    #include <openssl/bio.h>
    #include <openssl/err.h>
    #include <openssl/ssl.h>
    #include <openssl/x509err.h>
    #include <poll.h>
    #include <sys/socket.h>
#endif

namespace nib {

#ifdef NIB_TLS

namespace {

int clamped(size_t size) {
    return static_cast<int>(size < INT_MAX ? size : INT_MAX);
}

int socket_of(BIO* bio) {
    return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio)));
}

int bio_read(BIO* bio, char* bytes, int size) {
    BIO_clear_retry_flags(bio);
    const ssize_t n = recv(socket_of(bio), bytes, static_cast<size_t>(size), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
    return static_cast<int>(n);
}

int bio_write(BIO* bio, const char* bytes, int size) {
    BIO_clear_retry_flags(bio);
    const ssize_t n =
        send(socket_of(bio), bytes, static_cast<size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
    return static_cast<int>(n);
}

long bio_control(BIO*, int command, long, void*) {
    return command == BIO_CTRL_FLUSH;
}

struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    void operator()(BIO_METHOD* method) const { BIO_meth_free(method); }
};

class TlsTransport final : public Transport {
  public:
    // ssl: with its BIO; null: there was no memory, and the connection ends at its first read.
    explicit TlsTransport(std::unique_ptr<SSL, Free> ssl) : ssl_(std::move(ssl)) {}

    ssize_t receive(char* bytes, size_t size, short& events) override {
        if (broken_ || !ssl_) return 0;
        ERR_clear_error();
        return outcome(SSL_read(ssl_.get(), bytes, clamped(size)), events);
    }
    ssize_t send(const char* bytes, size_t size, short& events) override {
        if (broken_ || !ssl_) return 0;
        ERR_clear_error();
        return outcome(SSL_write(ssl_.get(), bytes, clamped(size)), events);
    }
    void finish() override {
        if (broken_ || !ssl_ || !SSL_is_init_finished(ssl_.get())) return;
        ERR_clear_error();
        SSL_shutdown(ssl_.get());
    }

  private:
    ssize_t outcome(int n, short& events) {
        if (n > 0) return n;
        const int error = SSL_get_error(ssl_.get(), n);
        events = error == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
        if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return -1;
        // After these the session must not be used, not even to say goodbye.
        broken_ = error == SSL_ERROR_SSL || error == SSL_ERROR_SYSCALL;
        ERR_clear_error();
        return 0;
    }

    std::unique_ptr<SSL, Free> ssl_;
    bool broken_ = false;
};

class TlsMaker final : public TransportMaker {
  public:
    TlsMaker(std::unique_ptr<SSL_CTX, Free> context, std::unique_ptr<BIO_METHOD, Free> method)
        : method_(std::move(method)), context_(std::move(context)) {}

    std::unique_ptr<Transport> open(int fd) const override {
        std::unique_ptr<SSL, Free> ssl(SSL_new(context_.get()));
        BIO* bio = ssl ? BIO_new(method_.get()) : nullptr;
        if (!bio) return std::make_unique<TlsTransport>(nullptr);
        BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
        BIO_set_init(bio, 1);
        SSL_set_bio(ssl.get(), bio, bio);  // owns it
        SSL_set_accept_state(ssl.get());
        return std::make_unique<TlsTransport>(std::move(ssl));
    }

  private:
    std::unique_ptr<BIO_METHOD, Free> method_;
    std::unique_ptr<SSL_CTX, Free> context_;
};

Error tls_error(const std::string& what) {
    const unsigned long code = ERR_get_error();
    const char* reason = code ? ERR_reason_error_string(code) : nullptr;
    ERR_clear_error();
    return {Status::BadRequest, what + (reason ? std::string(": ") + reason : "")};
}

std::unique_ptr<BIO_METHOD, Free> socket_method() {
    std::unique_ptr<BIO_METHOD, Free> method(
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "nib connection"));
    if (!method) return nullptr;
    BIO_meth_set_read(method.get(), bio_read);
    BIO_meth_set_write(method.get(), bio_write);
    BIO_meth_set_ctrl(method.get(), bio_control);
    return method;
}

}  // namespace

Result<std::shared_ptr<const TransportMaker>> open_tls(const std::string& cert_file,
                                                       const std::string& key_file) {
    ERR_clear_error();
    std::unique_ptr<SSL_CTX, Free> context(SSL_CTX_new(TLS_server_method()));
    std::unique_ptr<BIO_METHOD, Free> method = socket_method();
    if (!context || !method) return tls_error("TLS cannot start");
    SSL_CTX* c = context.get();
    SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
    SSL_CTX_set_options(
        c, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
    // A key with a password is an error; without this the library asks for it on the terminal.
    SSL_CTX_set_default_passwd_cb(c, [](char*, int, int, void*) { return -1; });
    if (SSL_CTX_use_certificate_chain_file(c, cert_file.c_str()) != 1) {
        return tls_error("--ssl-cert-file: no certificate in PEM form in " + cert_file);
    }
    const bool read = SSL_CTX_use_PrivateKey_file(c, key_file.c_str(), SSL_FILETYPE_PEM) == 1;
    const bool other = ERR_GET_REASON(ERR_peek_error()) == X509_R_KEY_VALUES_MISMATCH;
    if (!read && !other) {
        return tls_error("--ssl-key-file: no key in PEM form without a password in " + key_file);
    }
    // A key of another kind is noticed only here.
    if (!read || SSL_CTX_check_private_key(c) != 1) {
        return tls_error("--ssl-key-file: " + key_file + " is not the key of " + cert_file);
    }
    return std::shared_ptr<const TransportMaker>(
        std::make_shared<TlsMaker>(std::move(context), std::move(method)));
}

#else

Result<std::shared_ptr<const TransportMaker>> open_tls(const std::string&, const std::string&) {
    return Error{Status::Unsupported, "--ssl-cert-file: this nib was built without OpenSSL"};
}

#endif

}  // namespace nib
