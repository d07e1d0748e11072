// SPDX-License-Identifier: MIT
// What is under HTTP: TLS as curl speaks it, Unix sockets, and what many clients hold together.
#include "src/server/tls.h"
#include "tests/server/fixture.h"

#include <filesystem>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace nib::test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr const char* kSkip = "skipped: this build has no OpenSSL, or the machine no openssl";

// A certificate for localhost, its key, and a key with a password.
class Certificate {
  public:
    Certificate() {
        const auto made =
            openssl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                     "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                     "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert});
        const auto locked =
            openssl({"ec", "-in", key, "-aes256", "-passout", "pass:secret", "-out", locked_key});
        const auto other = openssl({"genpkey", "-algorithm", "EC", "-pkeyopt",
                                    "ec_paramgen_curve:P-256", "-out", other_key});
        ready_ =
            made.exit_code + locked.exit_code + other.exit_code == 0 && open_tls(cert, key).ok();
    }
    bool ready() const { return ready_; }

  private:
    static ProcessResult openssl(std::vector<std::string> args) {
        args.insert(args.begin(), {"/usr/bin/env", "openssl"});
        return run_process(args);
    }
    TempDir dir_;
    bool ready_ = false;

  public:
    const std::string cert = dir_.file("cert.pem"), key = dir_.file("key.pem"),
                      locked_key = dir_.file("locked.pem"), other_key = dir_.file("other.pem");
};

class Tls : public testing::Test {
  protected:
    void SetUp() override {
        if (!certificate_.ready()) GTEST_SKIP() << kSkip;
        TinyServer::Setup setup;
        setup.options.ssl_cert_file = certificate_.cert;
        setup.options.ssl_key_file = certificate_.key;
        setup.engine.context = 16384;
        server_.emplace(std::move(setup));
    }
    ProcessResult curl(std::vector<std::string> args, std::string_view input = {}) const {
        args.insert(args.begin(), {"/usr/bin/env", "curl", "-sS", "--max-time", "20", "--noproxy",
                                   "*", "--cacert", certificate_.cert});
        return run_process(args, input);
    }
    std::string url(const std::string& path, const char* scheme = "https") const {
        return std::string(scheme) + "://localhost:" + std::to_string(server_->port()) + path;
    }

    Certificate certificate_;
    std::optional<TinyServer> server_;
};

TEST_F(Tls, AnswersStreamsAndKeepsConnections) {
    EXPECT_THAT(server_->server().address(), HasSubstr("https://"));
    const auto twice =
        curl({"-w", "%{num_connects} %{ssl_verify_result}\n", url("/health"), url("/health")});
    EXPECT_EQ(twice.exit_code, 0) << twice.err;
    EXPECT_THAT(twice.out, HasSubstr("1 0\n"));
    EXPECT_THAT(twice.out, HasSubstr("0 0\n"));  // the second request opened none
    const Json body = {{"prompt", "abc"}, {"max_tokens", 30}, {"temperature", 0}};
    const std::vector<std::string> post = {"-H", "Content-Type: application/json", "--data-binary",
                                           "@-", url("/v1/completions")};
    const auto whole = curl(post, dump_json(body));
    EXPECT_THAT(whole.out, HasSubstr("\"finish_reason\":\"length\""));
    Json streamed = body;
    streamed["stream"] = true;
    const auto stream = curl(post, dump_json(streamed));
    EXPECT_EQ(stream.exit_code, 0) << stream.err;
    EXPECT_THAT(stream.out, testing::EndsWith("data: [DONE]\n\n"));
    // More than a record in both directions.
    const std::string text(300'000, 'a');
    const auto large =
        curl({"-H", "Content-Type: application/json", "--data-binary", "@-", url("/tokenize")},
             dump_json({{"content", text}}));
    ASSERT_TRUE(parse_json(large.out).ok()) << large.err;
    EXPECT_EQ((*parse_json(large.out))["tokens"].size(), text.size());
}

TEST_F(Tls, WhoSpeaksPlainlyOrOldGetsNoAnswer) {
    RawClient plain(server_->port());
    plain.send(get_text("/health"));
    EXPECT_EQ(plain.read().status, 0);
    EXPECT_NE(curl({"--tls-max", "1.1", url("/health")}).exit_code, 0);
    EXPECT_NE(curl({url("/health", "http")}).exit_code, 0);
    EXPECT_EQ(curl({"--tls-max", "1.2", url("/health")}).exit_code, 0);
}

TEST_F(Tls, ClientsThatSayNothingOrLeaveHoldUpNobody) {
    std::vector<std::unique_ptr<RawClient>> silent;
    for (int i = 0; i < 64; i++) {
        silent.push_back(std::make_unique<RawClient>(server_->port()));
        if (i % 2) silent.back()->send(std::string("\x16\x03\x01\x02\x00\x01", 6));
    }
    EXPECT_EQ(curl({url("/health")}).exit_code, 0);
    // A stream whose reader is killed ends on the server too.
    const auto gone = curl({"--max-time", "0.5", "-H", "Content-Type: application/json", "-d",
                            R"({"prompt": "a", "max_tokens": 16000, "ignore_eos": true,)"
                            R"( "stream": true})",
                            url("/v1/completions")});
    EXPECT_TRUE(gone.exit_code == 28 || gone.exit_code == 0) << gone.exit_code;
    EXPECT_TRUE(server_->comes_to_rest());
}

TEST_F(Tls, WhatIsWrongWithTheFilesIsSaid) {
    const auto reason = [](const std::string& cert, const std::string& key) {
        const auto opened = open_tls(cert, key);
        return opened.ok() ? std::string("fine") : opened.error().message;
    };
    EXPECT_EQ(reason(certificate_.cert, certificate_.key), "fine");
    EXPECT_THAT(reason("/nowhere.pem", certificate_.key), HasSubstr("--ssl-cert-file"));
    EXPECT_THAT(reason(certificate_.key, certificate_.key), HasSubstr("--ssl-cert-file"));
    EXPECT_THAT(reason(certificate_.cert, "/nowhere.pem"), HasSubstr("--ssl-key-file"));
    EXPECT_THAT(reason(certificate_.cert, certificate_.cert), HasSubstr("--ssl-key-file"));
    EXPECT_THAT(reason(certificate_.cert, certificate_.locked_key), HasSubstr("password"));
    EXPECT_THAT(reason(certificate_.cert, certificate_.other_key), HasSubstr("is not the key of"));
    const TinyFile model("llama");
    const auto run = [&](std::vector<std::string> args) {
        args.insert(args.begin(), {nib_path(), "serve", "-m", model.path(), "--port", "0"});
        return run_process(args, {}, {}, 20);
    };
    expect_error(run({"--ssl-cert-file", certificate_.cert}), 2, "--ssl-key-file");
    expect_error(run({"--ssl-key-file", certificate_.key}), 2, "--ssl-cert-file");
    expect_error(
        run({"--ssl-cert-file", certificate_.cert, "--ssl-key-file", certificate_.locked_key}), 2,
        "password");
}

class UnixSocket : public testing::Test {
  protected:
    std::unique_ptr<Server> open() const {
        Options options;
        options.model = "tiny.gguf";
        options.hosts = {path_};
        auto server = Server::open(options, HttpOptions{.hosts = options.hosts});
        EXPECT_TRUE(server.ok()) << server.error().message;
        return server.ok() ? std::move(*server) : nullptr;
    }
    int status() const {
        const auto result =
            run_process({"/usr/bin/env", "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}",
                         "--unix-socket", path_, "http://localhost/health"});
        return result.out.empty() ? 0 : std::stoi(result.out);
    }

    TempDir dir_;
    const std::string path_ = dir_.file("nib.sock");
};

TEST_F(UnixSocket, ServesAndGoesWithTheServer) {
    {
        const auto server = open();
        ASSERT_TRUE(server);
        EXPECT_EQ(server->address(), "unix:" + path_);
        EXPECT_EQ(status(), 503);  // no model yet
        Options options;
        const auto second = Server::open(options, HttpOptions{.hosts = {path_}});
        ASSERT_FALSE(second.ok());
        EXPECT_THAT(second.error().message, HasSubstr(path_));
        EXPECT_EQ(status(), 503);  // and the first one has kept its socket
    }
    EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(UnixSocket, ReplacesWhatNobodyListensOnAndNothingElse) {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    close(fd);  // the file stays
    ASSERT_TRUE(std::filesystem::exists(path_));
    { EXPECT_TRUE(open()); }
    write_file(path_, "a file of somebody");
    EXPECT_FALSE(Server::open({}, HttpOptions{.hosts = {path_}}).ok());
    EXPECT_EQ(read_file(path_), "a file of somebody");
}

TEST(Bodies, TogetherHaveALimitAndGiveItBack) {
    TinyServer::Setup setup;
    setup.http.bodies_max = 100'000;
    const TinyServer server(std::move(setup));
    const std::string body = dump_json({{"content", std::string(60'000, 'a')}});
    const std::string all = post_text("/tokenize", body);
    RawClient first(server.port());
    first.send(all.substr(0, all.size() - 1));
    HttpAnswer refused;
    // The first one's bytes arrive in their own time.
    for (int i = 0; i < 1000 && refused.status != 503; i++) {
        refused = server.send(all);
        std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_EQ(refused.status, 503);
    EXPECT_FALSE(refused.header("retry-after").empty());
    first.send(all.substr(all.size() - 1));
    EXPECT_EQ(first.read().status, 200);
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(server.send(all).status, 200);
}

}  // namespace
}  // namespace nib::test
