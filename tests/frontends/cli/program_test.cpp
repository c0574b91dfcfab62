// SPDX-License-Identifier: Apache-2.0
//
// The program as its users meet it: a process with arguments, streams and an exit code.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/frontends/cli/device_chain.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct ProgramOutcome {
  int code = -1;
  std::string out{};
  std::string err{};
};

constexpr const char* kFigureOne = R"({"format": "remora-graph", "version": 1, "name": "figure-1",
 "tensors": [{"name": "a", "size": 1}, {"name": "b", "size": 1}, {"name": "c", "size": 1},
             {"name": "d", "size": 1}, {"name": "e", "size": 1, "keep": true}],
 "ops": [{"name": "A", "duration": 1, "inputs": [], "outputs": ["a"]},
         {"name": "B", "duration": 1, "inputs": ["a"], "outputs": ["b"]},
         {"name": "C", "duration": 1, "inputs": ["a"], "outputs": ["c"]},
         {"name": "D", "duration": 1, "inputs": ["b", "c"], "outputs": ["d"]},
         {"name": "E", "duration": 1, "inputs": ["a", "d"], "outputs": ["e"]}]})";

class Program : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    write("graph.json", kFigureOne);
  }

  /// Runs `remora` with these shell words, `prefix` before it.
  [[nodiscard]] ProgramOutcome run(const std::string& words, const std::string& prefix = "") const {
    const std::string command =
        "cd '" + folder() + "' && " + prefix + " '" REMORA_PROGRAM "' " + words + " > out.txt 2> err.txt < /dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("out.txt"), read("err.txt")};
  }
};

long lines(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

TEST_F(Program, SaysWhoSolvedIntegerPrograms) {
  if (run("--version").out.find("with COIN-OR CBC") == std::string::npos) GTEST_SKIP() << "a build without COIN-OR CBC";
  ASSERT_EQ(run("generate layered --ops 60 --edges 140 -o layered.json").code, 0);
  const std::string solve = "solve layered.json --budget 90% --work-limit 2000 -o schedule.json";
  const auto by_cbc = run(solve);
  EXPECT_EQ(by_cbc.code, 0) << by_cbc.err;
  EXPECT_NE(by_cbc.err.find("\nsolver      COIN-OR CBC\n"), std::string::npos) << by_cbc.err;
  EXPECT_NE(read("schedule.json").find(R"("integer_solver": "COIN-OR CBC")"), std::string::npos);
  const auto by_none = run(solve + " --mip off");
  EXPECT_EQ(by_none.err.find("\nsolver "), std::string::npos) << by_none.err;
  EXPECT_NE(read("schedule.json").find(R"("integer_solver": "none")"), std::string::npos);
}

TEST_F(Program, SaysWhichSolversItHasAndThatALibraryOfHighsIsMissed) {
  const std::string solve = "solve graph.json --budget 100%";
  EXPECT_NE(run("--version", "REMORA_HIGHS=off").out.find("without HiGHS (REMORA_HIGHS is off)"), std::string::npos);
  EXPECT_EQ(run(solve, "REMORA_HIGHS=off").err.find("HiGHS"), std::string::npos);
  EXPECT_NE(run("--version", "REMORA_HIGHS=./nowhere.so").out.find("without HiGHS (./nowhere.so: "), std::string::npos);
  const auto missed = run(solve, "REMORA_HIGHS=./nowhere.so");
  EXPECT_EQ(missed.code, 0);
  EXPECT_NE(missed.err.find("remora: REMORA_HIGHS: ./nowhere.so: "), std::string::npos);
  // A library, but not this one.
  const auto other = run(solve, "REMORA_HIGHS=libm.so.6");
  EXPECT_EQ(other.code, 0);
  EXPECT_NE(other.err.find("lacks a function of HiGHS"), std::string::npos);
}

TEST_F(Program, HelpOfEachCommandListsItsOptions) {
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_NE(run("--version").out.find("remora "), std::string::npos);
  EXPECT_NE(run("--version").out.find(" (commit "), std::string::npos);
  const auto solve = run("solve --help");
  EXPECT_EQ(solve.code, 0);
  for (const char* option :
       {"--budget", "--time-limit", "--threads", "--seed", "--order", "--max-computes", "--strategy", "--work-limit",
        "--progress", "--help-all", "--training", "--dim", "--cost", "--device", "--output"}) {
    EXPECT_NE(solve.out.find(option), std::string::npos) << option;
  }
  const auto all = run("solve --help-all");
  EXPECT_EQ(all.code, 0);
  for (const char* option : {"--covering", "--group-size", "--grouping", "--without"}) {
    EXPECT_EQ(solve.out.find(option), std::string::npos) << option;
    EXPECT_NE(all.out.find(option), std::string::npos) << option;
  }
  EXPECT_NE(all.out.find("--budget"), std::string::npos);
  const auto renamed = run("solve graph.json -b 80% --nogoods off");
  EXPECT_EQ(renamed.code, 64);
  EXPECT_EQ(renamed.err, "remora: --nogoods: was renamed: use without=nogoods\n");
  for (const char* command : {"verify", "info", "convert"}) {
    const auto help = run(std::string(command) + " --help");
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.out.find("usage: remora " + std::string(command)), std::string::npos);
  }
}

TEST_F(Program, HelpsWithCommandsOptionsAndTheirNames) {
  EXPECT_EQ(run("help solve").out, run("solve --help").out);
  EXPECT_EQ(run("-V").out, run("--version").out);
  EXPECT_NE(run("slove graph.json").err.find("did you mean solve?"), std::string::npos);
  EXPECT_NE(run("--verison").err.find("did you mean --version?"), std::string::npos);
  EXPECT_NE(run("graph.json").err.find("'graph.json' is a file, not a command; for example: remora solve graph.json"),
            std::string::npos);
  EXPECT_NE(
      run("sweep graph.json --budgets 50%-90%").err.find("neither a budget nor a range FROM:TO:STEP (90%:50%:10%)"),
      std::string::npos);
  EXPECT_NE(run("solve graph.json --bugdet 3").err.find("did you mean --budget?"), std::string::npos);
  EXPECT_EQ(run("solve graph.json --xyzzy 3").err.find("did you mean"), std::string::npos);
  EXPECT_NE(run("generate layerd").err.find("'remora generate layered'"), std::string::npos);
  EXPECT_EQ(run("help help").out, run("--help").out);
  EXPECT_NE(run("solve --help-words").out.find("--budget=\t"), std::string::npos);
  EXPECT_NE(run("solve --help-man").out.find(".TH REMORA"), std::string::npos);
  EXPECT_NE(run("--help-man").out.find("remora\\-solve"), std::string::npos);
  EXPECT_EQ(run("generate --help-man").out, run("generate layered --help-man").out);
  EXPECT_NE(run("generate layered --help-man").out.find(".TH REMORA\\-generate\\-layered"), std::string::npos);
}

TEST_F(Program, FiguresFitSixtyColumns) {
  ASSERT_EQ(run("generate layered --ops 300 -o layered.json").code, 0);
  write("tasks.jsonl", R"({"id": "a", "graph": "graph.json", "budget": "75%"})");
  for (const char* words :
       {"--help", "generate --help", "info layered.json --partition", "order layered.json --work-limit 100",
        "solve graph.json -b 2 -o s.json", "sweep graph.json --budgets 100%:50%:25% -o c.json",
        "batch tasks.jsonl --out b", "merge b", "convert layered.json --help", "place --help"}) {
    const auto narrow = run(words, "COLUMNS=60");
    std::istringstream text(narrow.out + narrow.err);
    for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), 60U) << words << "\n" << line;
  }
}

TEST_F(Program, CompletesCommandsFamiliesAndOptions) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const auto script = run(std::string("completions ") + shell);
    EXPECT_EQ(script.code, 0);
    EXPECT_NE(script.out.find("--help-words"), std::string::npos);
  }
  EXPECT_EQ(run("completions tcsh").code, 64);
  EXPECT_EQ(run("completions --help").code, 0);
  write("type.sh", "remora() { '" REMORA_PROGRAM
                   "' \"$@\"; }\ncompopt() { :; }\nsource <(remora completions bash)\n"
                   "COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _remora; echo \"${COMPREPLY[*]}\"\n");
  const auto typed = [&](const std::string& words) { return run("--version > /dev/null; bash type.sh " + words).out; };
  EXPECT_EQ(typed("remora s"), "solve sweep\n");
  EXPECT_EQ(typed("remora help so"), "solve\n");
  EXPECT_EQ(typed("remora generate la"), "layered\n");
  EXPECT_EQ(typed("remora generate layered --op"), "--ops=\n");
  EXPECT_EQ(typed("remora solve --bud"), "--budget=\n");
  EXPECT_EQ(typed("remora solve graph"), "graph.json\n");
  EXPECT_EQ(typed("remora completions z"), "zsh\n");
}

TEST_F(Program, ProgressAsJsonIsALineAnEvent) {
  const auto solve = run("solve graph.json --budget 3 --json-progress -o schedule.json");
  ASSERT_EQ(solve.code, 0) << solve.err;
  std::istringstream text(solve.err);
  Json last;
  for (std::string line; std::getline(text, line);) last = Json::parse(line);
  EXPECT_EQ(last["event"], "end");
  EXPECT_EQ(last["status"], "optimal");
  EXPECT_EQ(last["stopped"], "optimum");
  EXPECT_EQ(last["duration"], 6);
}

TEST_F(Program, VerifySaysWhereThereIsNoSchedule) {
  ASSERT_EQ(run("solve graph.json --budget 3 --time-limit 0 -o unknown.json").code, 21);
  const auto verdict = run("verify graph.json unknown.json");
  EXPECT_NE(verdict.err.find("no schedule to verify: its status is unknown"), std::string::npos);
  EXPECT_EQ(Json::parse(verdict.out)["errors"], Json::array({"there is no schedule"}))
      << "and not that no op is computed";
}

TEST_F(Program, HelpSpeaksPlainly) {
  for (const char* command :
       {"solve", "sweep", "order", "verify", "info", "convert", "rewrite", "report", "batch", "merge", "place"}) {
    const std::string words =
        run(std::string(command) + (command == std::string("solve") ? " --help-all" : " --help")).out;
    for (const char* odd : {"the order as it is", "most computes", "is none of", "told by", "a line a ", "a line an ",
                            "one a line", "has come to", "anew", "that nothing has", "goes on where", "so often"}) {
      EXPECT_EQ(words.find(odd), std::string::npos) << command << ": " << odd;
    }
  }
}

TEST_F(Program, DevicesAreFoundByName) {
  const auto none = run("solve graph.json --budget 3 --device gpu9000");
  EXPECT_EQ(none.code, 64);
  EXPECT_NE(none.err.find("'gpu9000' is neither a file nor one of a100-sxm4-40gb,"), std::string::npos) << none.err;
  EXPECT_NE(run("solve graph.json --budget 3 --device rtx-390").err.find("did you mean rtx-3090?"), std::string::npos);
  // An installed one: the next thing that is wrong is that there is no model.
  EXPECT_NE(run("solve graph.json --budget 3 --device rtx-3090").err.find("--device is for ONNX models"),
            std::string::npos);
}

TEST_F(Program, AGraphForSeveralDevicesIsConvertedAndOtherCommandsSayWhoSupportsIt) {
  write("devices.json", test::device_chain(3));
  ASSERT_EQ(run("convert devices.json -o again.json").code, 0) << read("err.txt");
  ASSERT_EQ(run("convert again.json -o third.json").code, 0) << read("err.txt");
  EXPECT_EQ(read("again.json"), read("third.json"));
  EXPECT_EQ(run("info devices.json").out, run("info again.json").out);
  ASSERT_EQ(run("solve devices.json --budget gpu=15 --work-limit 100 -q -o s.json").code, 0) << read("err.txt");
  EXPECT_EQ(run("verify again.json s.json").code, 0) << read("err.txt");
  for (const std::string words : {"order devices.json", "convert devices.json --schedule s.json --to rs"}) {
    const auto outcome = run(words);
    EXPECT_EQ(outcome.code, 65) << words;
    EXPECT_NE(outcome.err.find("$.devices: the graph is for several devices, which are not supported here; "
                               "docs/guide/devices.md lists what supports them"),
              std::string::npos)
        << outcome.err;
  }
}

TEST_F(Program, AScheduleRemembersHowItsModelWasRead) {
  const std::string model = "'" REMORA_SOURCE_DIR "/tests/data/onnx/transformer_tiny.onnx'";
  ASSERT_EQ(
      run("solve " + model + " --training --cost flops -b 80% --work-limit 500 --without period-bound -q -o s.json")
          .code,
      0);
  EXPECT_EQ(Json::parse(read("s.json"))["reading"], Json({"--training", "--cost=flops"}));
  EXPECT_EQ(run("verify " + model + " s.json").code, 0);
  EXPECT_EQ(run("report " + model + " s.json --text").code, 0);
  EXPECT_EQ(run("convert " + model + " --schedule s.json --to rs -o rs.csv").code, 0);
  EXPECT_EQ(run("rewrite " + model + " --schedule s.json -o runtime.json").code, 0);
  EXPECT_EQ(run("place s.json --graph " + model + " -o placed.csv").code, 0) << read("err.txt");
  const auto other = run("verify " + model + " s.json --cost unit");
  EXPECT_EQ(other.code, 65);
  EXPECT_NE(other.err.find("--cost=unit is not how the model was read for s.json: --training --cost=flops"),
            std::string::npos)
      << other.err;
  // On the graph that was made of the model as well.
  ASSERT_EQ(run("convert " + model + " --training --cost flops -o made.json").code, 0);
  EXPECT_EQ(run("verify made.json s.json").code, 0) << read("err.txt");
  // A file of before says nothing of it.
  Json old = Json::parse(read("s.json"));
  old.erase("reading");
  write("old.json", old.dump());
  EXPECT_NE(run("verify " + model + " old.json").err.find("read with other options: --training, --dim?"),
            std::string::npos);
}

TEST_F(Program, ReadsAFileOnceSoThatItMayBeAPipe) {
  const std::string piped = "mkfifo pipe; cat graph.json > pipe & ";
  ASSERT_EQ(run("solve pipe --budget 3 -o schedule.json", piped).code, 0) << read("err.txt");
  std::filesystem::remove(path("pipe"));
  EXPECT_EQ(run("verify graph.json pipe", "mkfifo pipe; cat schedule.json > pipe & ").code, 0) << read("err.txt");
  std::filesystem::remove(path("pipe"));
  EXPECT_EQ(run("report graph.json pipe --text", "mkfifo pipe; cat schedule.json > pipe & ").code, 0);
}

TEST_F(Program, SolveWritesAScheduleThatVerifyAccepts) {
  const auto solve = run("solve graph.json --budget 3 -o schedule.json");
  ASSERT_EQ(solve.code, 0) << solve.err;
  EXPECT_TRUE(solve.out.empty());
  EXPECT_EQ(solve.err.find('\r'), std::string::npos);
  EXPECT_EQ(solve.err.find('\033'), std::string::npos);
  EXPECT_NE(solve.err.find("proved optimal\n            with any number of computes per op\n"), std::string::npos)
      << solve.err;
  const Json schedule = Json::parse(read("schedule.json"));
  EXPECT_EQ(schedule["status"], "optimal");
  EXPECT_TRUE(schedule["solver"]["optimal_for_max_computes"].is_null());
  EXPECT_EQ(schedule["duration"], 6);
  EXPECT_EQ(schedule["graph_sha256"].get<std::string>().size(), 64U);
  const auto verify = run("verify graph.json schedule.json");
  EXPECT_EQ(verify.code, 0);
  EXPECT_EQ(Json::parse(verify.out)["valid"], true);
  EXPECT_EQ(run("verify graph.json schedule.json --budget 2").code, 65);
}

TEST_F(Program, SolveWritesToStandardOutputAndIsSilentWhenAsked) {
  const auto solve = run("solve graph.json --budget 75% --quiet");
  EXPECT_EQ(solve.code, 0);
  EXPECT_TRUE(solve.err.empty()) << solve.err;
  EXPECT_EQ(Json::parse(solve.out)["budget"], 3);
}

TEST_F(Program, ProgressIsATableWhereThereIsNoTerminal) {
  const auto solve = run("solve graph.json --budget 3 --progress -o schedule.json");
  EXPECT_EQ(solve.code, 0);
  EXPECT_NE(solve.err.find("overhead"), std::string::npos);
  EXPECT_EQ(solve.err.find('\033'), std::string::npos);
  EXPECT_EQ(solve.err.find('\r'), std::string::npos);
}

TEST_F(Program, InfeasibleIsTwentyWithACertificate) {
  const auto solve = run("solve graph.json --budget 2");
  EXPECT_EQ(solve.code, 20);
  const Json schedule = Json::parse(solve.out);
  EXPECT_EQ(schedule["status"], "infeasible");
  EXPECT_EQ(schedule["certificate"]["op"], "D");
  EXPECT_EQ(schedule["certificate"]["required"], 3);
  EXPECT_NE(solve.err.find("D alone needs 3 B at once, 1 B more than the budget"), std::string::npos) << solve.err;
  EXPECT_NE(solve.err.find("the minimum budget is 3 B (3 bytes, 75.0 % of the peak)"), std::string::npos) << solve.err;
  EXPECT_NE(solve.err.find("a smaller batch, splitting the op"), std::string::npos) << solve.err;
}

TEST_F(Program, NoScheduleWithinTheLimitsIsTwentyOne) {
  const auto solve = run("solve graph.json --budget 3 --max-computes 2 --time-limit 0");
  EXPECT_EQ(solve.code, 21);
  EXPECT_EQ(Json::parse(solve.out)["status"], "unknown");
  EXPECT_EQ(Json::parse(solve.out)["solver"]["stopped"], "time");
  EXPECT_NE(
      solve.err.find("try         a larger budget, --order free, a larger --max-computes or a longer --time-limit"),
      std::string::npos)
      << solve.err;
}

TEST_F(Program, BadUsageIsSixtyFourAndOneLine) {
  for (const char* words :
       {"", "dance", "solve", "solve graph.json", "solve graph.json --budget", "solve graph.json --budget 3 --colour",
        "solve graph.json --budget three", "solve graph.json --budget 3 --threads -1",
        "solve graph.json --budget 3 --threads x", "solve graph.json --budget 3 --strategy magic",
        "solve graph.json --budget 3 --order random", "solve graph.json --budget 3 --max-computes 0",
        "solve graph.json other.json --budget 3", "solve graph.json --budget 3 --training", "verify graph.json",
        "solve graph.json --budget 3 --dim batch"}) {
    const auto result = run(words);
    EXPECT_EQ(result.code, 64) << words;
    EXPECT_EQ(lines(result.err), 1) << result.err;
    EXPECT_TRUE(result.out.empty());
  }
}

TEST_F(Program, BadInputIsSixtyFiveAndOneLineThatSaysWhere) {
  const std::string graph = kFigureOne;
  write("empty.json", "");
  write("truncated.json", graph.substr(0, graph.size() / 2));
  write("garbage.json", std::string("\x00\xff\x13garbage\n\n", 12));
  write("wrong_type.json", R"({"format": "remora-graph", "version": 1, "name": "x", "tensors": {}, "ops": []})");
  write("unknown.json",
        graph.substr(0, graph.find("\"d\"], \"outputs\": [\"e\"]")) + "\"z\"], \"outputs\": [\"e\"]}]}");
  for (const char* name :
       {"empty.json", "truncated.json", "garbage.json", "wrong_type.json", "unknown.json", "absent.json"}) {
    for (const std::string command : {"solve --budget 3 -o never.json ", "info ", "convert -o never.json "}) {
      const auto result = run(command + name);
      EXPECT_EQ(result.code, 65) << command << name;
      EXPECT_EQ(lines(result.err), 1) << result.err;
      EXPECT_NE(result.err.find(name), std::string::npos) << result.err;
      EXPECT_FALSE(fs::exists(path("never.json")));
    }
  }
  EXPECT_NE(run("info wrong_type.json").err.find("$.tensors"), std::string::npos);
  EXPECT_NE(run("info unknown.json").err.find("$.ops[4].inputs[1]"), std::string::npos);
}

TEST_F(Program, TruncatedOnnxModelsAreSixtyFiveAndOneLine) {
  std::ifstream file(REMORA_SOURCE_DIR "/tests/data/onnx/unet_tiny.onnx", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string model = text.str();
  ASSERT_GT(model.size(), 1000U);
  for (const std::size_t part : {1UL, 10UL, 100UL, model.size() / 2, model.size() - 1}) {
    write("cut.onnx", model.substr(0, part));
    const auto result = run("info cut.onnx");
    EXPECT_EQ(result.code, 65) << part;
    EXPECT_EQ(lines(result.err), 1) << result.err;
    EXPECT_NE(result.err.find("cut.onnx"), std::string::npos) << result.err;
  }
}

TEST_F(Program, BadSchedulesAreRefusedOrFoundInvalid) {
  ASSERT_EQ(run("solve graph.json --budget 3 -o schedule.json").code, 0);
  const std::string good = read("schedule.json");
  write("cut.json", good.substr(0, good.size() / 3));
  EXPECT_EQ(run("verify graph.json cut.json").code, 65);
  Json wrong = Json::parse(good);
  wrong["duration"] = 5;
  write("wrong.json", wrong.dump());
  const auto verdict = run("verify graph.json wrong.json");
  EXPECT_EQ(verdict.code, 65);
  EXPECT_EQ(Json::parse(verdict.out)["valid"], false);
}

TEST_F(Program, AFailedWriteLeavesTheOldFile) {
  write("kept.json", "old");
  EXPECT_EQ(run("solve absent.json --budget 3 -o kept.json").code, 65);
  EXPECT_EQ(read("kept.json"), "old");
  EXPECT_EQ(run("convert graph.json -o nowhere/out.json").code, 65);
}

TEST_F(Program, AWarmStartIsTakenFromAScheduleFile) {
  ASSERT_EQ(run("solve graph.json --budget 3 -o schedule.json").code, 0);
  const auto warm = run("solve graph.json --budget 3 --time-limit 0 --warm-start schedule.json");
  EXPECT_EQ(warm.code, 0) << warm.err;
  EXPECT_EQ(Json::parse(warm.out)["steps"], Json::parse(read("schedule.json"))["steps"]);
  EXPECT_EQ(run("solve graph.json --budget 3 --warm-start graph.json").code, 65);
  EXPECT_EQ(run("solve graph.json --budget 3 --warm-start absent.json").code, 65);
}

TEST_F(Program, ABatchTakesAFolderAndTheCostsBesideItsGraphs) {
  std::filesystem::create_directory(path("graphs"));
  write("graphs/one.json", kFigureOne);
  write("graphs/two.json", kFigureOne);
  const std::string op = Json::parse(kFigureOne)["ops"][0]["name"];
  write("graphs/two.costs.csv", "name,duration\n" + op + ",1000\n");
  write("graphs/notes.txt", "no graph");
  ASSERT_EQ(run("batch graphs --budget 3 --out results").code, 0);
  ASSERT_EQ(run("merge results --verify -q -o merged.json").code, 0);
  const Json tasks = Json::parse(read("merged.json"))["tasks"];
  ASSERT_EQ(tasks.size(), 2U);
  EXPECT_EQ(tasks[0]["id"], "one.json");
  EXPECT_LT(tasks[0]["duration"], 1000);
  EXPECT_GE(tasks[1]["duration"], 1000);
  std::filesystem::create_directory(path("empty"));
  EXPECT_EQ(run("batch empty --budget 3 --out results").code, 65);
}

TEST_F(Program, AMethodSolvesItsOwnProblemUnlessToldAnother) {
  const auto schedule_of = [&](const std::string& options) {
    EXPECT_EQ(run("solve graph.json --quiet " + options + " -o s.json").code, 0);
    EXPECT_EQ(run("verify graph.json s.json").code, 0);
    return Json::parse(read("s.json"));
  };
  const Json free = schedule_of("--budget 4 --strategy twremat");
  EXPECT_EQ(free["order"], "free");
  EXPECT_EQ(free["solver"]["limits"]["max_computes"], 64);
  EXPECT_EQ(schedule_of("--budget 3 --strategy greedy")["order"], "input");
  EXPECT_EQ(schedule_of("--budget 3 --strategy greedy --order free --max-computes 3")["order"], "free");
  EXPECT_EQ(schedule_of("--budget 3 --order free")["order"], "free");
  EXPECT_EQ(run("solve graph.json --budget 3 --strategy greedy --work-limit 5").code, 64);
  EXPECT_EQ(run("solve graph.json --budget 3 --strategy greedy --warm-start s.json").code, 64);
}

TEST_F(Program, ConvertedGraphsSolveTheSame) {
  ASSERT_EQ(run("convert graph.json -o copy.json").code, 0);
  const Json a = Json::parse(run("solve graph.json -b 3 -q --work-limit 1000").out);
  const Json b = Json::parse(run("solve copy.json -b 3 -q --work-limit 1000").out);
  EXPECT_EQ(a["steps"], b["steps"]);
}

TEST_F(Program, AGraphInRemat2IsSolvedLikeItsConvertedForm) {
  write("graph.remat2",
        "p remat2\nmemlimit 3\nnode 0 cpu 1 mem 1\nnode 1 deps 0\nnode 2 deps 0\nnode 3 deps 1 2\n"
        "node 4 deps 0 3 target\n");
  const auto solve = run("solve graph.remat2 --budget 3 -o schedule.json");
  ASSERT_EQ(solve.code, 0) << solve.err;
  EXPECT_EQ(Json::parse(read("schedule.json"))["duration"], 6);
  ASSERT_EQ(run("convert graph.remat2 -o copy.json").code, 0);
  EXPECT_EQ(run("verify copy.json schedule.json").code, 0);
  EXPECT_EQ(run("info graph.remat2 --training").code, 64);
  EXPECT_NE(run("convert --help").out.find("remat2"), std::string::npos);
  EXPECT_NE(run("convert --help").out.find("\n  --to FORM"), std::string::npos) << "two letters are no short name";
}

TEST_F(Program, BrokenRemat2IsSixtyFiveAndOneLine) {
  for (const std::string text :
       {"p remat2", "p remat2\nnode", "p remat2\nnode 0 deps 1", "p remat2\nnode 0 cpu 1 me", "p remat2\n\xff\xfe\r\n",
        "p remat2\nnode 0 cpu 99999999999999999999 mem 1", "p rema", "p remat2\nnode 0 deps 1\nnode 1 deps 0"}) {
    write("broken.remat2", text);
    const auto result = run("info broken.remat2");
    EXPECT_EQ(result.code, 65) << text;
    EXPECT_EQ(lines(result.err), 1) << result.err;
    EXPECT_NE(result.err.find("broken.remat2: "), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("line ") != std::string::npos, text.starts_with("p remat2")) << result.err;
  }
}

TEST_F(Program, ASchedulesMatricesAndBuffersAreWritten) {
  ASSERT_EQ(run("solve graph.json --budget 3 -o schedule.json").code, 0);
  const auto matrices = run("convert graph.json --schedule schedule.json --to rs");
  EXPECT_EQ(matrices.code, 0) << matrices.err;
  EXPECT_TRUE(matrices.out.starts_with("matrix,stage,A,B,C,D,E\nR,0,1,0,0,0,0\n")) << matrices.out;
  EXPECT_EQ(lines(matrices.out), 13);
  const auto buffers = run("convert graph.json --schedule schedule.json --to minimalloc -o buffers.csv");
  EXPECT_EQ(buffers.code, 0) << buffers.err;
  EXPECT_TRUE(buffers.out.empty());
  EXPECT_EQ(read("buffers.csv"),
            "id,lower,upper,size\na#0,0,3,1\nb#0,1,4,1\nc#0,2,4,1\nd#0,3,6,1\na#1,4,6,1\ne#0,5,6,1\n");
}

TEST_F(Program, OnlyAValidScheduleIsConverted) {
  ASSERT_EQ(run("solve graph.json --budget 3 -o schedule.json").code, 0);
  ASSERT_EQ(run("solve graph.json --budget 2 -o infeasible.json").code, 20);
  Json wrong = Json::parse(read("schedule.json"));
  wrong["order"] = "free";
  write("free.json", wrong.dump());
  wrong["peak_memory"] = 2;
  write("wrong.json", wrong.dump());
  write("cut.json", read("schedule.json").substr(0, 300));
  EXPECT_EQ(run("convert graph.json --schedule free.json --to minimalloc").code, 0);
  for (const char* words :
       {"free.json --to rs", "wrong.json --to rs", "wrong.json --to minimalloc", "cut.json --to rs",
        "infeasible.json --to minimalloc", "infeasible.json --to rs", "absent.json --to rs", "graph.json --to rs"}) {
    const auto result = run(std::string("convert graph.json -o never.csv --schedule ") + words);
    EXPECT_EQ(result.code, 65) << words;
    EXPECT_EQ(lines(result.err), 1) << result.err;
    const std::string given = words;
    EXPECT_NE(result.err.find(given.substr(0, given.find(' '))), std::string::npos) << result.err;
    EXPECT_FALSE(fs::exists(path("never.csv")));
  }
  for (const char* words : {"--to rs", "--schedule schedule.json", "--schedule schedule.json --to graph", "--to svg"}) {
    EXPECT_EQ(run(std::string("convert graph.json ") + words).code, 64) << words;
  }
}

TEST_F(Program, AnOnnxTrainingGraphGoesFromModelToVerifiedSchedule) {
  const std::string model = std::string("'") + REMORA_SOURCE_DIR + "/tests/data/onnx/unet_tiny.onnx' --training";
  const auto solve = run("solve " + model + " --budget 70% --work-limit 100000 -o schedule.json");
  ASSERT_EQ(solve.code, 0) << solve.err;
  EXPECT_EQ(run("verify " + model + " schedule.json").code, 0);
  ASSERT_EQ(run("convert " + model + " -o graph2.json").code, 0);
  EXPECT_EQ(run("verify graph2.json schedule.json").code, 0);
  const fs::path script = REMORA_SHARED_DIR "/tools/verify.py";
  if (fs::exists(script)) {
    const std::string command =
        "python3 '" + script.string() + "' '" + path("graph2.json") + "' '" + path("schedule.json") + "' --quiet";
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
}

TEST_F(Program, InfoSaysWhatTheGraphNeeds) {
  const Json info = Json::parse(run("info graph.json --json").out);
  EXPECT_EQ(info["no_recompute_peak"], 4);
  EXPECT_EQ(info["no_recompute_peak_op"], "D");
  EXPECT_EQ(info["least_conceivable_budget"], 3);
  EXPECT_EQ(info["edges"], 6);
  EXPECT_NE(run("info graph.json").out.find("lower bound on budgets"), std::string::npos);
}

TEST_F(Program, AnInterruptKeepsTheIncumbent) {
  const std::string model = REMORA_SOURCE_DIR "/tests/data/onnx/transformer_tiny.onnx";
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child =
        remora::test::start_child({REMORA_PROGRAM, "solve", model, "--training", "--budget", "60%", "--time-limit",
                                   "600", "--without", "period-bound", "-o", path("schedule.json")},
                                  path("err.txt"));
    // Phase 2 begins with a schedule in hand; ten minutes do not end it without the period relaxation.
    constexpr int kPolls = 3000;
    for (int i = 0; i < kPolls && read("err.txt").find("phase 2") == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    ASSERT_EQ(kill(child, signal), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << signal;
    EXPECT_EQ(WEXITSTATUS(status), 0) << read("err.txt");
    EXPECT_EQ(run("verify '" + model + "' --training schedule.json").code, 0);
    EXPECT_EQ(Json::parse(read("schedule.json"))["status"], "feasible");
    fs::remove(path("schedule.json"));
    fs::remove(path("err.txt"));
  }
}

TEST_F(Program, AReaderOfTheLogThatGoesAwayDoesNotEndTheSearch) {
  const std::string command =
      "cd '" + folder() + "' && '" REMORA_PROGRAM "' solve graph.json --budget 3 -o kept.json 2>&1 | true";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(run("verify graph.json kept.json").code, 0);
}

TEST_F(Program, AnUnwritableOutputIsFoundBeforeTheSearch) {
  for (const char* output : {"nowhere/schedule.json", "."}) {
    const auto solve = run(std::string("solve graph.json --budget 3 --time-limit 600 -o ") + output);
    EXPECT_EQ(solve.code, 65) << output;
    EXPECT_EQ(lines(solve.err), 1) << solve.err;
  }
  EXPECT_EQ(run("solve graph.json --budget 3 -o graph.json").code, 64);
  EXPECT_EQ(read("graph.json"), kFigureOne);
}

TEST_F(Program, BrokenModelsAreBadInputWhateverTheOptions) {
  write("empty.onnx", "");
  write("noise.onnx", std::string(300, '\xa7'));
  for (const char* words :
       {"info empty.onnx --training", "info noise.onnx --dim batch=2", "convert empty.onnx --cost unit"}) {
    const auto result = run(words);
    EXPECT_EQ(result.code, 65) << words;
    EXPECT_EQ(lines(result.err), 1) << result.err;
  }
}

}  // namespace
}  // namespace remora::cli
