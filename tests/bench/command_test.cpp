// SPDX-License-Identifier: MIT
// nib bench as a person runs it: every form prints valid JSON and a table, wrong flags are refused.
#include "src/json/json.h"
#include "tests/bench/fixtures.h"

#include <gmock/gmock.h>

namespace nib::bench {
namespace {

using testing::HasSubstr;

class BenchCommand : public TinyModelTest {
  protected:
    test::ProcessResult run(std::vector<std::string> args) {
        args.insert(args.begin(), {test::nib_path(), "bench"});
        return test::run_process(args);
    }
    std::vector<std::string> with_model(std::vector<std::string> args) {
        args.insert(args.end(), {"-m", write(), "-t", "2"});
        return args;
    }
    Json json_of(std::vector<std::string> args) {
        args.emplace_back("--json");
        const test::ProcessResult result = run(args);
        EXPECT_EQ(result.exit_code, 0) << result.err;
        auto json = parse_json(result.out);
        EXPECT_TRUE(json.ok()) << result.out;
        return json.ok() ? *json : Json();
    }
};

void expect_row(const Json& row, const char* test) {
    EXPECT_EQ(row.value("test", ""), test);
    for (const char* key : {"median", "min", "max"})
        EXPECT_GT(row["tokens_per_s"][key].get<double>(), 0) << test;
    EXPECT_GT(row["bytes_per_token"].get<double>(), 0) << test;
    EXPECT_THAT(row["backend"].get<std::string>(), HasSubstr("cpu"));
    EXPECT_GT(row["load_ms"].get<double>(), 0) << test;
    EXPECT_GT(row["peak_memory_bytes"].get<uint64_t>(), 0u) << test;
}

TEST_F(BenchCommand, SpeedRowsHaveTheirForm) {
    const Json rows =
        json_of(with_model({"-p", "8", "-n", "4", "-b", "1,2", "-d", "0,70", "--verify", "3",
                            "--batch-prompt", "5", "-r", "1", "--no-roofline"}));
    ASSERT_EQ(rows.size(), 7u);
    const char* names[] = {"pp8", "pp8@d70", "tg4", "tg4@d70", "tg64@b1", "tg64@b2", "verify3"};
    for (size_t i = 0; i < 7; i++) {
        expect_row(rows[i], names[i]);
        EXPECT_TRUE(rows[i]["limit_share"].is_null());
    }
    EXPECT_GT(rows[0]["first_token_ms"]["median"].get<double>(), 0);
    EXPECT_GT(rows[6]["step_ratio"]["median"].get<double>(), 0);
    EXPECT_FALSE(rows[2].contains("step_ratio"));
}

TEST_F(BenchCommand, LimitsAreMeasuredInTheSameRun) {
    const Json rows = json_of(with_model({"-p", "8", "-n", "0", "-r", "1"}));
    ASSERT_EQ(rows.size(), 1u);
    expect_row(rows[0], "pp8");
    EXPECT_GT(rows[0]["limit_share"].get<double>(), 0);
}

TEST_F(BenchCommand, TablesNameTheirTests) {
    const test::ProcessResult speed =
        run(with_model({"-p", "8", "-n", "4", "--verify", "2", "-r", "1", "--no-roofline"}));
    EXPECT_EQ(speed.exit_code, 0) << speed.err;
    for (const char* word : {"pp8", "tg4", "verify2", "tokens/s", "times a step of one row"})
        EXPECT_THAT(speed.out, HasSubstr(word));
    const test::ProcessResult load = run(with_model({"load", "-r", "1", "-p", "4"}));
    EXPECT_THAT(load.out, HasSubstr("tokenizer"));
}

TEST_F(BenchCommand, RooflineNeedsNoModel) {
    const Json json = json_of({"roofline", "-t", "1"});
    for (const char* key : {"read_bytes_per_s", "int8_macs_per_s", "float_macs_per_s", "sync_ns"})
        EXPECT_GT(json[key].get<double>(), 0) << key;
    EXPECT_FALSE(json["rows"].empty());
}

TEST_F(BenchCommand, OpsTellsWhereAStepSpendsItsTime) {
    const Json json = json_of(
        with_model({"ops", "-p", "8", "-n", "2", "-b", "1,3", "--batch-prompt", "5", "-r", "1"}));
    ASSERT_EQ(json["phases"].size(), 3u);
    EXPECT_EQ(json["phases"][0]["rows"].get<int>(), 1);
    EXPECT_EQ(json["phases"][1]["rows"].get<int>(), 3);
    EXPECT_EQ(json["phases"][2]["rows"].get<int>(), 8);
    for (const Json& phase : json["phases"]) {
        EXPECT_GT(phase["step_us"].get<double>(), 0);
        double share = 0;
        bool has_matmul = false;
        for (const Json& op : phase["ops"]) {
            share += op["share"].get<double>();
            has_matmul = has_matmul || op["op"].get<std::string>().starts_with("matmul");
        }
        EXPECT_TRUE(has_matmul);
        EXPECT_GT(share, 0);
        EXPECT_LE(share, 1.0001);
    }
}

TEST_F(BenchCommand, LoadTellsItsPhases) {
    const Json json = json_of(with_model({"load", "-r", "2", "-p", "4"}));
    ASSERT_EQ(json.size(), 1u);
    EXPECT_EQ(json[0]["test"].get<std::string>(), "load");
    const Json& phases = json[0]["phases_ms"];
    double sum = 0;
    for (const char* key : {"startup", "open", "model", "tokenizer", "weights", "first_token"}) {
        ASSERT_TRUE(phases.contains(key)) << key;
        sum += phases[key]["min"].get<double>();
    }
    EXPECT_LE(sum, phases["total"]["min"].get<double>() + 1e-6);
    EXPECT_EQ(json[0]["runs_ms"].size(), 2u);
}

TEST_F(BenchCommand, WrongFlagsAreRefused) {
    test::expect_error(run({"nothing"}), 2, "roofline, ops or load");
    test::expect_error(run({"-p", "8,x"}), 2, "--n-prompt");
    test::expect_error(run({"-b", "257"}), 2, "--batch");
    test::expect_error(run({"-d", "-1"}), 2, "--n-depth");
    test::expect_error(run({"--verify", "1.5"}), 2, "--verify");
    test::expect_error(run({"--synthetic", "llama-9000b"}), 2, "llama-9000b");
    test::expect_error(run({"--synthetic", "llama-1b", "--type", "q9"}), 2, "q9");
    test::expect_error(run({"--synthetic", "llama-1b", "-m", "x.gguf"}), 2, "--model");
    test::expect_error(run({"--write", folder_.file("x.gguf")}), 2, "--synthetic");
    test::expect_error(run({"load", "--synthetic", "llama-1b"}), 2, "expected a file");
    test::expect_error(run({"-m", folder_.file("absent.gguf")}), 2, "absent.gguf");
    std::string many = "1";
    for (int i = 0; i < 70; i++)
        many += ",1";
    test::expect_error(run({"-p", many}), 2, "at most 64");
}

}  // namespace
}  // namespace nib::bench
