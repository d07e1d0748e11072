// SPDX-License-Identifier: MIT
// GET /slots and the states that POST /slots/{id} saves, restores and erases: the answer after a
// restore in another server is the one without it, and every wrong request is told what is wrong.
#include "tests/server/fixture.h"

#include <thread>

#include <gmock/gmock.h>
#include <unistd.h>

namespace nib::test {
namespace {

using testing::HasSubstr;

TinyServer::Setup with_states(const TempDir& dir, const char* arch = "llama") {
    TinyServer::Setup setup;
    setup.arch = arch;
    setup.options.slot_save_path = dir.path();
    setup.engine.state_folder = dir.path();
    setup.engine.build = "test";
    return setup;
}

std::string long_text(int seed = 0) {
    std::string text;
    for (int i = 0; i < 200; i++)
        text += static_cast<char>('a' + (i * 7 + i * i / 11 + seed) % 26);
    return text;
}

Json completion(const std::string& prompt) {
    return {{"prompt", prompt},   {"n_predict", 20}, {"temperature", 0},
            {"ignore_eos", true}, {"n_probs", 3},    {"return_tokens", true}};
}

// The answer without what depends on the clock.
struct Reply {
    Json content, tokens, scores;
    int computed = 0, cached = 0;
    bool operator==(const Reply& other) const {
        return content == other.content && tokens == other.tokens && scores == other.scores;
    }
};

Reply reply_of(const HttpAnswer& answer) {
    EXPECT_EQ(answer.status, 200) << answer.body;
    const Json json = answer.json();
    return {json["content"], json["tokens"], json["completion_probabilities"],
            json["timings"]["prompt_n"].get<int>(), json["timings"]["cache_n"].get<int>()};
}

HttpAnswer act(const TinyServer& server,
               const char* action,
               const Json& name = "x.bin",
               const std::string& slot = "0") {
    return server.post("/slots/" + slot + "?action=" + action, {{"filename", name}});
}

void expect_refused(const HttpAnswer& answer, int status, const char* param, const char* words) {
    EXPECT_EQ(answer.status, status) << answer.body;
    const Json error = answer.json()["error"];
    EXPECT_EQ(error["param"], param) << answer.body;
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(words));
}

TEST(Slots, ARestoredStateGivesTheSameAnswerInAnotherServer) {
    for (const char* arch : {"llama", "gemma3"}) {
        for (const char* type : {"f16", "q8_0"}) {
            const TempDir dir;
            auto setup = with_states(dir, arch);
            setup.engine.cache_type_k = setup.engine.cache_type_v = type;
            Reply before;
            {
                TinyServer server(setup);
                before = reply_of(server.post("/completion", completion(long_text())));
                EXPECT_EQ(before.cached, 0);
                const Json saved = act(server, "save").json();
                EXPECT_EQ(saved["id_slot"], 0);
                EXPECT_EQ(saved["filename"], "x.bin");
                EXPECT_EQ(saved["n_saved"], before.computed + 19);  // all but the last token
                EXPECT_EQ(saved["n_written"], read_file(dir.file("x.bin")).size());
                EXPECT_GE(saved["timings"]["save_ms"], 0);
            }
            TinyServer server(setup);
            const Json restored = act(server, "restore", "x.bin", "3").json();
            EXPECT_EQ(restored["id_slot"], 3);
            EXPECT_EQ(restored["n_restored"], before.computed + 19);
            EXPECT_EQ(restored["n_read"], read_file(dir.file("x.bin")).size());
            EXPECT_GE(restored["timings"]["restore_ms"], 0);
            const Reply after = reply_of(server.post("/completion", completion(long_text())));
            EXPECT_EQ(after, before) << arch << " " << type;
            EXPECT_EQ(after.computed, 1) << arch << " " << type;
            EXPECT_EQ(after.cached, before.computed - 1);
            // A slot that was restored can be saved again.
            EXPECT_EQ(act(server, "save", "y.bin", "3").json()["n_saved"], restored["n_restored"]);
            EXPECT_EQ(read_file(dir.file("y.bin")), read_file(dir.file("x.bin")));
        }
    }
}

TEST(Slots, ARequestMayNameTheSlotThatItsStateIsSavedFrom) {
    const TempDir dir;
    TinyServer server(with_states(dir));
    Json body = completion(long_text());
    body["id_slot"] = 2;
    const Reply first = reply_of(server.post("/completion", body));
    EXPECT_EQ(act(server, "save", "x.bin", "2").json()["n_saved"], first.computed + 19);
    expect_refused(act(server, "save", "y.bin", "0"), 400, "id_slot", "nothing");
}

TEST(Slots, EraseForgets) {
    const TempDir dir;
    TinyServer server(with_states(dir));
    const Reply first = reply_of(server.post("/completion", completion(long_text())));
    EXPECT_EQ(reply_of(server.post("/completion", completion(long_text()))).computed, 1);
    const auto erased = server.send(post_text("/slots/0?action=erase", ""));  // needs no body
    EXPECT_EQ(erased.status, 200) << erased.body;
    EXPECT_EQ(erased.json()["id_slot"], 0);
    EXPECT_EQ(erased.json()["n_erased"], first.computed + 19);
    EXPECT_EQ(reply_of(server.post("/completion", completion(long_text()))), first);
    EXPECT_EQ(server.engine().stats().cached_tokens, uint64_t(first.computed - 1));
    EXPECT_EQ(act(server, "erase", "x.bin", "2").json()["n_erased"], 0);
}

TEST(Slots, NamesThatAreNoneAreRefused) {
    const TempDir dir;
    TinyServer server(with_states(dir));
    reply_of(server.post("/completion", completion("abc")));
    for (const Json& name : {Json("../x"), Json(".."), Json("/etc/x"), Json("a/b"),
                             Json(std::string("a\0b", 3)), Json(std::string(256, 'a')), Json("CON"),
                             Json("a\xE2\x88\x95"
                                  "b"),
                             Json(5), Json(nullptr), Json(""), Json(Json::array())}) {
        for (const char* action : {"save", "restore"})
            expect_refused(act(server, action, name), 400, "filename", "filename");
    }
    expect_refused(server.post("/slots/0?action=save", Json::object()), 400, "filename", "name");
    expect_refused(act(server, "restore", "absent"), 400, "filename", "no such state");
    ASSERT_EQ(symlink("/etc/passwd", dir.file("link").c_str()), 0);
    expect_refused(act(server, "save", "link"), 400, "filename", "not a regular file");
    expect_refused(act(server, "restore", "link"), 400, "filename", "is a link");
    write_file(dir.file("other"), "something else");
    const auto other = act(server, "restore", "other");
    expect_refused(other, 400, "filename", "expected a saved state");
    EXPECT_EQ(other.json()["error"]["code"], "state_invalid");
    EXPECT_EQ(server.post("/slots/0?action=save", Json::array({1})).status, 400);
    EXPECT_EQ(server.send(post_text("/slots/0?action=save", "{")).status, 400);
}

TEST(Slots, OnlyWhatIsThereCanBeMeant) {
    const TempDir dir;
    TinyServer server(with_states(dir));
    for (const char* slot : {"4", "99", "-1", "-7", "x", "1x", "+1", "0x1", "99999999999", "%30"})
        expect_refused(act(server, "save", "x.bin", slot), 400, "id_slot", "expected 0 to 3");
    expect_refused(act(server, "save", "x.bin", "1"), 400, "id_slot", "holds nothing");
    for (const char* path : {"/slots/0", "/slots/0?action=", "/slots/0?action=drop",
                             "/slots/0?xaction=save", "/slots/0?action=save%20"})
        expect_refused(server.post(path, {{"filename", "x"}}), 400, "action", "save, restore");
    EXPECT_EQ(server.post("/slots/0?a=b&action=erase&c", Json::object()).status, 200);
    for (const char* path : {"/slots/", "/slots/0/", "/slots/0/1", "/slots//0", "//slots/0"})
        EXPECT_EQ(server.post(path, Json::object()).status, 404) << path;
    EXPECT_EQ(server.get("/slots/0").status, 405);
    EXPECT_EQ(server.get("/slots/0").header("allow"), "POST");
}

TEST(Slots, WithoutAFolderTheyAreNotThere) {
    TinyServer server;
    for (const char* action : {"save", "restore", "erase"}) {
        const auto answer = act(server, action);
        EXPECT_EQ(answer.status, 501);
        EXPECT_THAT(answer.body, HasSubstr("--slot-save-path"));
    }
    EXPECT_EQ(server.engine().save_state(0, "x").error().status, Status::Unsupported);
}

TEST(Slots, AnotherModelOrTypeOrBuildIsNamed) {
    const TempDir dir;
    {
        TinyServer server(with_states(dir));
        reply_of(server.post("/completion", completion(long_text())));
        EXPECT_EQ(act(server, "save").status, 200);
    }
    const auto refused = [&](const TinyServer::Setup& setup, const char* words) {
        TinyServer server(setup);
        const auto answer = act(server, "restore");
        expect_refused(answer, 409, "filename", words);
        EXPECT_EQ(answer.json()["error"]["code"], "state_mismatch");
        EXPECT_EQ(server.engine().stats().blocks_cached, 0);
    };
    refused(with_states(dir, "qwen2"), "model: expected");
    auto setup = with_states(dir);
    setup.chat_template = "{{ 'another' }}";
    refused(setup, "model: expected");
    setup = with_states(dir);
    setup.engine.build = "other";
    refused(setup, "build of nib: expected other, the state has test");
    setup = with_states(dir);
    setup.engine.cache_type_k = "q8_0";
    refused(setup, "KV type of keys: expected q8_0, the state has f16");
    setup = with_states(dir);
    setup.engine.context = 128;
    TinyServer small(setup);
    expect_refused(act(small, "restore"), 400, "filename", "the context holds 128");
}

TEST(Slots, DamagedFilesAreRefused) {
    const TempDir dir;
    TinyServer server(with_states(dir));
    reply_of(server.post("/completion", completion("abc")));
    ASSERT_EQ(act(server, "save").status, 200);
    const std::string good = read_file(dir.file("x.bin"));
    for (size_t i = 0; i < good.size(); i += 1 + good.size() / 300) {
        write_file(dir.file("x.bin"), good.substr(0, i));
        EXPECT_EQ(act(server, "restore").status, 400) << i;
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ 0x10);
        write_file(dir.file("x.bin"), bad);
        const int status = act(server, "restore").status;
        EXPECT_TRUE(status == 400 || status == 409) << i << " " << status;
    }
}

TEST(Slots, TenantsHaveTheirOwn) {
    const TempDir dir;
    auto setup = with_states(dir);
    setup.options.api_keys = {"one", "two"};
    TinyServer server(setup);
    const std::string one = "Authorization: Bearer one\r\n", two = "Authorization: Bearer two\r\n";
    const Json name = {{"filename", "x.bin"}};
    EXPECT_EQ(server.post("/slots/0?action=save", name).status, 401);
    reply_of(server.post("/completion", completion(long_text()), one));
    expect_refused(server.post("/slots/0?action=save", name, two), 400, "id_slot", "holds nothing");
    EXPECT_EQ(server.post("/slots/0?action=erase", name, two).json()["n_erased"], 0);
    EXPECT_EQ(server.post("/slots/0?action=save", name, one).status, 200);
    expect_refused(server.post("/slots/0?action=restore", name, two), 400, "filename", "no such");
    EXPECT_EQ(server.post("/slots/0?action=restore", name, one).status, 200);
}

TEST(Slots, OthersGoOnMeanwhile) {
    const TempDir dir;
    auto setup = with_states(dir);
    setup.engine.context = 16384;
    setup.engine.cpu_level = "scalar";
    TinyServer server(setup);
    const Reply before = reply_of(server.post("/completion", completion(long_text())));
    RawClient client(server.port());
    client.send(post_text("/v1/completions",
                          R"({"prompt": "q", "ignore_eos": true, "max_tokens": 16000})"));
    ASSERT_TRUE(server.wait_for([](const EngineStats& s) { return s.running == 1; }));
    // It runs in the slot that the first one left; what is saved is what the first one held.
    const Json slots = server.get("/slots").json();
    ASSERT_EQ(slots.size(), 4u);
    EXPECT_EQ(slots[0]["is_processing"], true);
    EXPECT_EQ(slots[1]["is_processing"], false);
    EXPECT_EQ(act(server, "save").json()["n_saved"], before.computed + 19);
    EXPECT_EQ(act(server, "erase").json()["n_erased"], before.computed + 19);
    EXPECT_EQ(act(server, "restore").json()["n_restored"], before.computed + 19);
    EXPECT_EQ(server.engine().stats().running, 1);
    const Reply after = reply_of(server.post("/completion", completion(long_text())));
    EXPECT_EQ(after, before);
    EXPECT_EQ(after.computed, 1);
    client.close();
    EXPECT_TRUE(server.comes_to_rest());
}

TEST(SlotsProgram, AStateOutlivesItsProcess) {
    const TempDir dir;
    const TinyFile model("llama", {.type = "q8_0", .chat_template = kTinyTemplate});
    const std::vector<std::string> args = {
        "-m", model.path(), "--port", "0", "-c", "512", "-np", "2", "--slot-save-path", dir.path()};
    const auto post = [](int port, std::string_view path, const Json& body) {
        return TinyServer::send_to(port, post_text(path, dump_json(body)));
    };
    Reply before;
    {
        Program first(args);
        const int port = first.port();
        before = reply_of(post(port, "/completion", completion(long_text())));
        const auto saved = post(port, "/slots/0?action=save", {{"filename", "x.bin"}});
        EXPECT_EQ(saved.status, 200) << saved.body;
    }
    Program second(args);
    const int port = second.port();
    const auto restored = post(port, "/slots/0?action=restore", {{"filename", "x.bin"}});
    EXPECT_EQ(restored.status, 200) << restored.body;
    const Reply after = reply_of(post(port, "/completion", completion(long_text())));
    EXPECT_EQ(after, before);
    EXPECT_EQ(after.cached, before.computed - 1);
}

TEST(SlotsProgram, AFolderThatIsNoneIsToldAtTheStart) {
    const TinyFile model("llama");
    const auto run = run_process(
        {nib_path(), "serve", "-m", model.path(), "--port", "0", "--slot-save-path", model.path()});
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err, HasSubstr("expected a folder for states"));
}

}  // namespace
}  // namespace nib::test
