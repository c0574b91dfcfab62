// SPDX-License-Identifier: Apache-2.0
//
// No command writes over what it reads. The table has every command and every option that takes a file; a new one has
// to be added to it, or the first test fails.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "tests/frontends/cli/run_words.hpp"
#include "tests/frontends/onnx/model_builder.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/training_graphs.hpp"

namespace remora::cli {
namespace {

namespace fs = std::filesystem;
using onnx_frontend::test::extent;
using onnx_frontend::test::ModelBuilder;
using onnx_frontend::test::put_outside;
using onnx_frontend::test::symbol;
using test::Outcome;
using test::run_words;

/// Command lines whose output is one of their inputs; "@x" is the file x of the test's folder.
const std::vector<std::string> kClashes{
    "solve @g.json -b 100% -o @g.json",
    "solve @g.json -b 100% --output @link",
    "solve @g.json -b 100% -o @hard",
    "solve @g.json -b 100% --warm-start @s.json --output @s.json",
    "solve @m.onnx -b 100% --device @device.json --output @device.json",
    "solve @m.onnx -b 100% --costs @costs.csv --output @costs.csv",
    "solve @m.onnx -b 100% -o @w.bin",
    "solve @m.onnx -b 100% -o @m.onnx",
    "fit @m.onnx --device @fit.json -o @m.onnx",
    "fit @m.onnx --device @fit.json --output @fit.json",
    "sweep @g.json --points 2 --output @g.json",
    "sweep @g.json --points 2 --csv @g.json -o @new",
    "sweep @g.json --points 2 --svg @link -o @new",
    "sweep @budgets/budget-7.json --points 2 --schedules @budgets -o @new",
    "sweep @m.onnx --points 2 --device @device.json --output @device.json",
    "sweep @m.onnx --points 2 --costs @costs.csv --output @costs.csv",
    "sweep @m.onnx --points 2 -o @w.bin",
    "sweep @named.onnx --batch-size batch --budget 1GiB -o @named.onnx",
    "sweep @budgets/batch-1.json --batch-size batch --budget 1GiB --schedules @budgets -o @new",
    "order @g.json --output @g.json",
    "order @m.onnx --device @device.json -o @device.json",
    "order @m.onnx --costs @costs.csv -o @costs.csv",
    "order @m.onnx -o @w.bin",
    "place @b.csv --output @b.csv",
    "place @s.json --graph @g.json --output @g.json",
    "place @ms.json --graph @m.onnx -o @w.bin",
    "place @ms.json --graph @m.onnx --device @device.json -o @device.json",
    "place @ms.json --graph @m.onnx --costs @costs.csv -o @costs.csv",
    "pipeline @g.json -m 1 --output @g.json",
    "pipeline @g.json @s.json -m 1 -o @s.json",
    "pipeline @g.json @budgets/STAGE-1.json -m 1 --stages @budgets",
    "pipeline @m.onnx -m 1 --device @device.json -o @device.json",
    "pipeline @m.onnx -m 1 --costs @costs.csv -o @costs.csv",
    "convert @g.json --output @g.json",
    "convert @m.onnx --device @device.json -o @device.json",
    "convert @m.onnx --costs @costs.csv -o @costs.csv",
    "convert @m.onnx -o @w.bin",
    "convert @g.json --schedule @s.json -o @s.json",
    "rewrite @m.onnx -b 100% --output @m.onnx",
    "rewrite @m.onnx --schedule @ms.json --output @ms.json",
    "rewrite @m.onnx -b 100% --warm-start @ms.json --output @ms.json",
    "rewrite @m.onnx -b 100% --device @device.json --output @device.json",
    "rewrite @m.onnx -b 100% --costs @costs.csv --output @costs.csv",
    "rewrite @m.onnx -b 100% -o @w.bin",
    "report @g.json @s.json --output @g.json",
    "report @g.json @s.json --svg @s.json",
    "report @g.json @s.json --table @hard",
    "report @g.json @s.json --svg @link",
    "report @g.json @c.json -o @budgets/budget-5.json",
    "report @m.onnx @ms.json --device @device.json -o @device.json",
    "report @m.onnx @ms.json --costs @costs.csv -o @costs.csv",
    "report @m.onnx @ms.json -o @w.bin",
    "batch @out/manifest.jsonl -o @out",
    "batch @jobs.jsonl -o @out-of-device --device @device.json",
    "batch @jobs.jsonl -o @out-of-costs --costs @costs.csv",
    "batch @jobs.jsonl -o @out-of-schedule --warm-start @s.json",
    "batch @jobs.jsonl -o @out-of-graph",
    "merge @done --csv @done/manifest.jsonl",
    "merge @done --manifest @jobs.jsonl --output @jobs.jsonl",
    "merge @done --output @g.json",
    "merge @done --html @g.json --output @new",
};

/// The words after `command` that name options with a file, as its help shows them: "--output FILE".
std::set<std::string> file_options(const std::string& command) {
  const std::string help = run_words(command + " --help-all").out;
  static const std::regex kOption(R"(--([a-z-]+)(?: \])? FILE)");
  std::set<std::string> names;
  for (auto at = std::sregex_iterator(help.begin(), help.end(), kOption); at != std::sregex_iterator(); ++at) {
    names.insert("--" + (*at)[1].str());
  }
  return names;
}

std::set<std::string> commands() {
  const std::string help = run_words("--help").out;
  static const std::regex kCommand(R"(\n  ([a-z]+) )");
  std::set<std::string> names;
  for (auto at = std::sregex_iterator(help.begin(), help.end(), kCommand); at != std::sregex_iterator(); ++at) {
    names.insert((*at)[1].str());
  }
  return names;
}

class WrittenFiles : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    json::write_file(path("g.json"),
                     [](std::ostream& out) { json::write_graph(out, remora::test::generate_chain({.layers = 4})); });
    ASSERT_EQ(run("solve @g.json -b 100% -q -o @s.json").code, 0);
    write_models();
    ASSERT_EQ(run("solve @m.onnx -b 100% -q -o @ms.json").code, 0);
    write("fit.json",
          R"({"name": "a", "memory": 1000, "bandwidth": 1, "rates": {"fp32": 1}, "multiprocessors": 1, "launch": 1,
      "host": 0, "context": 0, "workspaces": 0, "range": [1, 1], "fitted": "", "efficiency": {"product": 1,
      "product-fp32": 1, "convolution": 1, "attention": 1, "memory": 1}})");
    write("device.json", R"({"rates": {"fp32": 1e12}, "bandwidth": 1e11})");
    write("b.csv", "id,lower,upper,size\na,0,1,2\n");
    write("costs.csv", "node,duration\nA,5\n");
    write_sweep();
    write_batches();
    fs::create_symlink(path("g.json"), path("link"));
    fs::create_hard_link(path("g.json"), path("hard"));
  }

  /// "@x" stands for the path of x.
  [[nodiscard]] Outcome run(std::string words) const {
    for (auto at = words.find('@'); at != std::string::npos; at = words.find('@')) words.replace(at, 1, path(""));
    return run_words(words);
  }

  /// Everything that is in the folder, by path.
  [[nodiscard]] std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder())) {
      const std::string name = fs::relative(entry.path(), folder()).string();
      if (entry.is_regular_file()) all[name] = read(name);
    }
    return all;
  }

 private:
  void write_models() const {
    ModelBuilder builder;
    builder.input("x", {extent(4), extent(4)}).weight("w", {4, 4}).node("MatMul", {"x", "w"}, {"y"}, "A").output("y");
    put_outside(*builder.proto().mutable_graph()->mutable_initializer(0), "w.bin");
    write("m.onnx", builder.bytes());
    write("w.bin", std::string(64, 'w'));
    ModelBuilder named;
    named.input("x", {symbol("batch"), extent(4)}).node("Relu", {"x"}, {"y"}, "A").output("y");
    write("named.onnx", named.bytes());
  }
  /// A curve with its schedules in `budgets`, and inputs that are named as further ones would be.
  void write_sweep() const {
    ASSERT_EQ(run("sweep @g.json --budgets 100% --schedules @budgets -q -o @c.json").code, 0);
    for (const auto& schedule : fs::directory_iterator(path("budgets"))) {
      fs::rename(schedule, path("budgets/budget-5.json"));
      std::string curve = read("c.json");
      const std::string name = schedule.path().filename().string();
      curve.replace(curve.find(name), name.size(), "budget-5.json");
      write("c.json", curve);
      break;
    }
    fs::copy(path("g.json"), path("budgets/budget-7.json"));
    fs::copy(path("named.onnx"), path("budgets/batch-1.json"));
    fs::copy(path("g.json"), path("budgets/STAGE-1.json"));
  }
  void write_batches() const {
    write("jobs.jsonl", R"({"id": "a", "graph": "g.json", "budget": "100%"})");
    ASSERT_EQ(run("batch @jobs.jsonl -q -o @done").code, 0);
    fs::create_directories(path("out"));
    write("out/manifest.jsonl", R"({"id": "a", "graph": "../g.json", "budget": "100%"})");
    for (const auto& [name, input] : std::map<std::string, std::string>{{"out-of-costs", "costs.csv"},
                                                                        {"out-of-device", "device.json"},
                                                                        {"out-of-schedule", "s.json"},
                                                                        {"out-of-graph", "g.json"}}) {
      fs::create_directories(path(name));
      fs::create_symlink(path(input), path(name + "/manifest.jsonl"));
    }
  }
};

TEST(WrittenFilesTable, HasEveryCommandAndEveryOptionThatTakesAFile) {
  // These write nothing, or read nothing.
  const std::set<std::string> left_out{"verify", "info", "generate"};
  ASSERT_GT(commands().size(), left_out.size());
  for (const std::string& command : commands()) {
    if (left_out.contains(command)) continue;
    for (const std::string& option : file_options(command)) {
      const bool listed = std::any_of(kClashes.begin(), kClashes.end(), [&](const std::string& words) {
        const bool named = words.find(option + " ") != std::string::npos ||
                           (option == "--output" && words.find(" -o ") != std::string::npos);
        return words.starts_with(command + " ") && named;
      });
      // What all commands that solve or read a model have in common is listed with some of them.
      const bool common = option == "--warm-start" && command == "sweep";
      EXPECT_TRUE(listed || common) << command << " " << option;
    }
  }
}

TEST(WrittenFilesTable, NothingIsWrittenByOtherMeans) {
  for (const auto& entry : fs::recursive_directory_iterator(REMORA_SOURCE_DIR "/frontends/cli")) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || name == "files.cpp" || name == "files.hpp") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    for (const char* other : {"write_file(", "ofstream", "fopen("}) {
      EXPECT_EQ(text.find(other), std::string::npos) << entry.path() << " writes by " << other;
    }
  }
}

TEST_F(WrittenFiles, NoCommandWritesOverItsInputs) {
  const auto before = contents();
  for (const std::string& words : kClashes) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 64) << words << "\n" << outcome.err;
    EXPECT_NE(outcome.err.find("name another file"), std::string::npos) << words << "\n" << outcome.err;
  }
  auto after = contents();
  // A batch makes its folders, and a sweep those of --schedules; no file is new, none is different.
  EXPECT_EQ(before, after);
}

TEST_F(WrittenFiles, NothingButAModelIsWrittenUnderTheNameOfOne) {
  const auto before = contents();
  for (const char* words :
       {"solve @m.onnx -b 100% -o @new.onnx", "solve @g.json -b 100% -o @NEW.ONNX", "sweep @g.json -o @new.onnx",
        "sweep @g.json -o @new --csv @new.onnx", "sweep @g.json -o @new --svg @new.onnx",
        "convert @m.onnx --output @new.onnx", "place @b.csv -o @new.onnx", "pipeline @g.json -m 1 -o @new.onnx",
        "report @g.json @s.json -o @new.onnx", "report @g.json @s.json --svg @new.onnx", "merge @done -o @new.onnx",
        "fit @m.onnx --device @fit.json -o @new.onnx", "generate layered -o @new.onnx",
        "rewrite @named.onnx --dim batch=2 -b 100% --training -o @new.onnx",
        "order @named.onnx --training -o @new.onnx"}) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 64) << words << "\n" << outcome.err;
    EXPECT_NE(outcome.err.find("ONNX"), std::string::npos) << words << "\n" << outcome.err;
  }
  EXPECT_EQ(before, contents());
  EXPECT_EQ(run("rewrite @named.onnx --dim batch=2 -b 100% -q -o @new.onnx").code, 0);
  EXPECT_EQ(run("order @named.onnx --dim batch=2 -q -o @new.onnx").code, 0);
}

TEST_F(WrittenFiles, AResultOfTheBatchIsNotWrittenOver) {
  const auto before = contents();
  for (const auto& [name, text] : before) {
    if (!name.starts_with("done/results/")) continue;
    EXPECT_EQ(run("merge @done -o @" + name).code, 64);
    EXPECT_EQ(run("merge @done --csv @" + name).code, 64);
  }
  EXPECT_EQ(before, contents());
}

TEST_F(WrittenFiles, StandardInputIsAFileToo) {
  const std::string before = read("g.json");
  const std::string command = "cd '" + folder() + "' && '" REMORA_PROGRAM "' convert - -o g.json < g.json 2> err.txt";
  const int status = std::system(command.c_str());
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 64);
  EXPECT_NE(read("err.txt").find("GRAPH itself"), std::string::npos) << read("err.txt");
  EXPECT_EQ(read("g.json"), before);
}

TEST_F(WrittenFiles, TwoOutputsAreTwoFiles) {
  const Outcome twice = run("report @g.json @s.json -o @page --svg @budgets/../page");
  EXPECT_EQ(twice.code, 64) << twice.err;
  EXPECT_FALSE(fs::exists(path("page")));
  EXPECT_EQ(run("report @g.json @s.json -o /dev/null --svg /dev/null").code, 0);
}

TEST_F(WrittenFiles, WhatIsWrittenAgainIsNoInput) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run("sweep @g.json --budgets 100% --schedules @mine -q -o @mine.json --csv @mine.csv").code, 0);
    EXPECT_EQ(run("batch @jobs.jsonl -q -o @done").code, 0);
    EXPECT_EQ(run("batch @done/manifest.jsonl -q -o @done").code, 0);
    EXPECT_EQ(run("merge @done -q -o @done/all.json").code, 0);
  }
}

}  // namespace
}  // namespace remora::cli
