// SPDX-License-Identifier: Apache-2.0
//
// `remora bench` as its users meet it, with suites of a second or two.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include <sys/wait.h>

#include "frontends/bench/result.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::bench {
namespace {

class BenchCommand : public remora::test::TemporaryFolder {
 protected:
  struct Outcome {
    int code = -1;
    std::string text{};
  };

  [[nodiscard]] Outcome bench(const std::string& arguments) const {
    const std::string command = std::string(REMORA_PROGRAM) + " bench " + arguments + " 2>&1";
    Outcome outcome;
    FILE* pipe = popen(command.c_str(), "r");
    std::array<char, 4096> buffer{};
    while (fgets(buffer.data(), buffer.size(), pipe) != nullptr) outcome.text += buffer.data();
    const int status = pclose(pipe);
    outcome.code = WEXITSTATUS(status);
    return outcome;
  }

  void write_suite(const std::string& contenders) const {
    write("suite.json",
          R"({"format": "remora-suite", "version": 1, "name": "s", "time_limit": 5, "budgets": ["90%", "10%"],
      "instances": [{"name": "chain", "make": ["remora", "generate", "chain", "--layers", "4"]}],
      "contenders": [)" +
              contenders + "]}");
  }

  [[nodiscard]] std::vector<Result> results() const {
    std::vector<Result> list;
    std::istringstream lines(read("out/results.jsonl"));
    for (std::string line; std::getline(lines, line);) list.push_back(from_line(line));
    return list;
  }
};

TEST_F(BenchCommand, RunsASuiteAndGoesOnWhereItStood) {
  write_suite(R"("auto", "greedy")");
  const std::string arguments = path("suite.json") + " -o " + path("out") + " --best-known " + path("known.json");
  EXPECT_EQ(bench(arguments).code, 0);
  const auto first = results();
  ASSERT_EQ(first.size(), 4U);
  EXPECT_EQ(first[0].status, "optimal");
  EXPECT_EQ(first[2].status, "infeasible");
  EXPECT_EQ(first[0].ops, 10);
  EXPECT_FALSE(first[0].commit.empty());
  EXPECT_NE(read("known.json").find("\"chain\""), std::string::npos);
  EXPECT_NE(read("out/README.md").find("| chain | 10 |"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(path("out/overhead-time.svg")));

  const Outcome again = bench(arguments);
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.text, "");
  EXPECT_EQ(results().size(), 4U);
}

TEST_F(BenchCommand, RunsAgainWhatFailedOrIsAskedInAnotherWay) {
  write_suite(R"({"name": "peer", "command": ["sh", "-c", "exit 3"]})");
  const std::string arguments = path("suite.json") + " -o " + path("out");
  EXPECT_EQ(bench(arguments).code, 65);
  EXPECT_EQ(bench(arguments).code, 65);
  EXPECT_EQ(results().size(), 4U);
  write_suite(R"({"name": "peer", "arguments": ["--strategy", "greedy"]})");
  EXPECT_EQ(bench(arguments).code, 0);
  EXPECT_EQ(results().size(), 6U);
  EXPECT_EQ(read("out/README.md").find("Failed"), std::string::npos);
  EXPECT_EQ(bench(arguments + " --no-runs").code, 0);
  EXPECT_EQ(results().size(), 6U);
}

TEST_F(BenchCommand, AnInterruptEndsItAndTheNextOneGoesOn) {
  write_suite(R"("greedy", {"name": "slow", "command": ["sh", "-c", "kill -INT $PPID; sleep 1000"]})");
  const Outcome outcome = bench(path("suite.json") + " -o " + path("out"));
  EXPECT_EQ(outcome.code, 130) << outcome.text;
  EXPECT_EQ(results().size(), 1U);
  EXPECT_EQ(bench(path("suite.json") + " -o " + path("out") + " --only greedy").code, 0);
  EXPECT_EQ(results().size(), 2U);
}

TEST_F(BenchCommand, TakesNoAnswerToAnotherQuestion) {
  // It proves another budget infeasible.
  write_suite(R"({"name": "other", "command": ["sh", "-c", ")" + std::string(REMORA_PROGRAM) +
              R"( solve $0 --budget 1 --quiet -o $1", "{graph}", "{output}"]})");
  EXPECT_EQ(bench(path("suite.json") + " -o " + path("out")).code, 65);
  ASSERT_FALSE(results().empty());
  EXPECT_EQ(results()[0].note, "solved for another budget");
}

TEST_F(BenchCommand, AnAnswerThatDoesNotVerifyIsAFailure) {
  // It claims the other solver's schedule to take no time.
  write(
      "liar",
      std::string("#!/bin/sh\n") + REMORA_PROGRAM +
          " solve \"$1\" --budget \"$2\" --quiet -o - | sed 's/^  \"duration\": [0-9]*/  \"duration\": 1/' > \"$3\"\n");
  std::filesystem::permissions(path("liar"), std::filesystem::perms::owner_all);
  write_suite(R"({"name": "liar", "command": ["./liar", "{graph}", "{budget}", "{output}"]})");
  const Outcome outcome = bench(path("suite.json") + " -o " + path("out"));
  EXPECT_EQ(outcome.code, 65) << outcome.text;
  ASSERT_FALSE(results().empty());
  EXPECT_EQ(results()[0].status, "failed");
  EXPECT_EQ(results()[0].note, "states a bound above its schedule");
}

TEST_F(BenchCommand, KeepsTheStatisticsThatAnAnswerTells) {
  write("teller", std::string("#!/bin/sh\n") + REMORA_PROGRAM +
                      " solve \"$1\" --budget \"$2\" --quiet -o - | "
                      "sed 's/^    \"history\"/    \"statistics\": {\"levels\": 3}, &/' > \"$3\"\n");
  std::filesystem::permissions(path("teller"), std::filesystem::perms::owner_all);
  write("suite.json", R"({"format": "remora-suite", "version": 1, "name": "s", "time_limit": 5, "budgets": ["90%"],
    "instances": [{"name": "chain", "make": ["remora", "generate", "chain", "--layers", "4"]}],
    "contenders": [{"name": "teller", "command": ["./teller", "{graph}", "{budget}", "{output}"]}]})");
  const Outcome outcome = bench(path("suite.json") + " -o " + path("out"));
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  ASSERT_EQ(results().size(), 1U);
  EXPECT_EQ(results()[0].status, "optimal") << results()[0].note;
  EXPECT_EQ(results()[0].statistics, (std::vector<std::pair<std::string, double>>{{"levels", 3}}));
}

TEST_F(BenchCommand, AScheduleThatDoesNotVerifyIsAFailure) {
  // It forgets every release.
  write("hoarder", std::string("#!/bin/sh\n") + REMORA_PROGRAM +
                       " solve \"$1\" --budget \"$2\" --quiet -o - | sed 's/\"free\": .*\\]/\"free\": []/' > \"$3\"\n");
  std::filesystem::permissions(path("hoarder"), std::filesystem::perms::owner_all);
  write_suite(R"({"name": "hoarder", "command": ["./hoarder", "{graph}", "{budget}", "{output}"]})");
  const Outcome outcome = bench(path("suite.json") + " -o " + path("out"));
  EXPECT_EQ(outcome.code, 65) << outcome.text;
  ASSERT_FALSE(results().empty());
  EXPECT_NE(results()[0].note.find("does not verify"), std::string::npos) << results()[0].note;
}

TEST_F(BenchCommand, ACrashIsAFailureAndAMissingPeerIsLeftOut) {
  write_suite(R"({"name": "crash", "command": ["sh", "-c", "echo out of luck >&2; exit 3"]},
                 {"name": "missing", "command": ["./not-there", "{graph}"]}, "none")");
  const Outcome outcome = bench(path("suite.json") + " -o " + path("out"));
  EXPECT_EQ(outcome.code, 65);
  EXPECT_NE(outcome.text.find("missing left out"), std::string::npos) << outcome.text;
  ASSERT_EQ(results().size(), 4U);
  EXPECT_EQ(results()[0].note, "ended with 3: out of luck");
  EXPECT_NE(read("out/README.md").find("Failed: chain 90% crash"), std::string::npos);
  EXPECT_NE(read("out/README.md").find("Left out: missing"), std::string::npos);
}

TEST_F(BenchCommand, RunsEveryGraphOfAFolder) {
  std::filesystem::create_directories(path("graphs"));
  EXPECT_EQ(
      std::system((std::string(REMORA_PROGRAM) + " generate chain --layers 3 -o " + path("graphs/c.json")).c_str()), 0);
  write("graphs/garbage.json", "{");
  write("external.json", R"({"format": "remora-suite", "version": 1, "name": "external", "budgets": ["90%"],
    "instances": [{"folder": "{1}"}], "contenders": ["greedy"]})");
  const Outcome outcome = bench(path("external.json") + " " + path("graphs") + " -o " + path("out"));
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("garbage.json left out"), std::string::npos);
  EXPECT_EQ(results().size(), 1U);
}

TEST_F(BenchCommand, GivesAnInstanceItsOwnTimeUnlessTheUserSaysAnother) {
  write("suite.json", R"({"format": "remora-suite", "version": 1, "name": "s", "time_limit": 5, "budgets": ["90%"],
    "instances": [{"name": "a", "make": ["remora", "generate", "chain", "--layers", "4"]},
                  {"name": "b", "make": ["remora", "generate", "chain", "--layers", "5"], "time_limit": 7.5}],
    "contenders": ["greedy"]})");
  const std::string arguments = path("suite.json") + " -o " + path("out");
  EXPECT_EQ(bench(arguments).code, 0);
  ASSERT_EQ(results().size(), 2U);
  EXPECT_EQ(results()[0].key.time_limit, 5);
  EXPECT_EQ(results()[1].key.time_limit, 7.5);
  EXPECT_NE(read("out/README.md").find("| 90% | 7.5 s |"), std::string::npos);
  EXPECT_EQ(bench(arguments + " --time-limit 6").code, 0);
  ASSERT_EQ(results().size(), 4U);
  EXPECT_EQ(results()[2].key.time_limit, 6);
  EXPECT_EQ(results()[3].key.time_limit, 6);
  EXPECT_EQ(bench(arguments + " --time-limit 0").code, 64);
}

TEST_F(BenchCommand, SaysWhatItCannotRun) {
  EXPECT_EQ(bench("no-such-suite").code, 64);
  write_suite("\"auto\"");
  EXPECT_EQ(bench(path("suite.json") + " --only nobody").code, 64);
  write("suite.json", "{}");
  const Outcome outcome = bench(path("suite.json"));
  EXPECT_EQ(outcome.code, 65);
  EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1);
}

}  // namespace
}  // namespace remora::bench
