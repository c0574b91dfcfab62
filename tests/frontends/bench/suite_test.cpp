// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/suite.hpp"

#include <functional>

#include "model/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::bench {
namespace {

using SuiteFile = remora::test::TemporaryFolder;

constexpr const char* kHead = R"({"format": "remora-suite", "version": 1, "name": "s", "budgets": ["80%"], )";

std::string suite(const std::string& rest) {
  return kHead + rest + "}";
}

std::string message(const std::string& text, const std::vector<std::string>& parameters = {}) {
  try {
    read_suite(text, "", parameters);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST_F(SuiteFile, ReadsInstancesAndContenders) {
  const Suite read = read_suite(suite(R"("time_limit": 5, "threads": 1, "seeds": [3, 4],
      "instances": [{"name": "a", "file": "graphs/a.json", "budgets": ["1GiB"]},
                    {"name": "b", "make": ["remora", "generate", "chain"], "reading": ["--cost", "unit"]}],
      "contenders": ["auto", {"name": "c", "arguments": ["--max-computes", "3"], "seeds": [9], "most_ops": 50},
                     {"name": "p", "command": ["../peer", "{graph}", "-o", "{output}"]}])"),
                                "folder", {});
  EXPECT_EQ(read.name, "s");
  EXPECT_EQ(read.time_limit, 5);
  EXPECT_EQ(read.threads, 1);
  EXPECT_EQ(read.seeds, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(read.instances.at(0).file, "folder/graphs/a.json");
  EXPECT_EQ(read.instances.at(0).budgets, std::vector<std::string>{"1GiB"});
  EXPECT_EQ(read.instances.at(1).make.size(), 3U);
  EXPECT_EQ(read.contenders.at(0).arguments, (std::vector<std::string>{"--strategy", "auto"}));
  EXPECT_EQ(read.contenders.at(1).seeds, std::vector<std::int64_t>{9});
  EXPECT_EQ(read.contenders.at(1).most_ops, 50);
  EXPECT_EQ(read.contenders.at(2).command.front(), std::filesystem::absolute("peer"));
}

TEST_F(SuiteFile, AnInstanceMayHaveALimitAndAReferenceOfItsOwn) {
  write("a.json", "");
  const Suite read = read_suite(suite(R"("time_limit": 5, "contenders": ["auto"], "instances": [
      {"name": "plain", "file": "a"},
      {"name": "long", "file": "a", "time_limit": 300,
       "reference": {"name": "HiRemate", "overhead": 22.3, "relative_peak": 36.6, "minutes": 7.9}},
      {"folder": "{1}", "time_limit": 0.5}])"),
                                "", {path("")});
  ASSERT_EQ(read.instances.size(), 3U);
  EXPECT_FALSE(read.instances[0].time_limit.has_value());
  EXPECT_FALSE(read.instances[0].reference.has_value());
  EXPECT_EQ(read.instances[1].time_limit, 300);
  EXPECT_EQ(read.instances[2].time_limit, 0.5);
  const Reference reference = read.instances[1].reference.value_or(Reference{});
  EXPECT_EQ(reference.name, "HiRemate");
  EXPECT_EQ(reference.overhead, 22.3);
  EXPECT_EQ(reference.relative_peak, 36.6);
  EXPECT_EQ(reference.minutes, 7.9);
}

TEST_F(SuiteFile, RefusesALimitOrAReferenceThatIsNone) {
  const auto fault = [](const std::string& members) {
    return message(suite(R"("contenders": ["auto"], "instances": [{"name": "a", "file": "x", )" + members + "}]"));
  };
  EXPECT_NE(fault("\"time_limit\": 0").find("$.instances[0].time_limit: must be above 0"), std::string::npos);
  EXPECT_NE(fault("\"time_limit\": \"60\"").find("$.instances[0].time_limit"), std::string::npos);
  EXPECT_NE(fault("\"reference\": 22.3").find("$.instances[0].reference"), std::string::npos);
  EXPECT_NE(fault(R"("reference": {"name": "H", "overhead": 1, "relative_peak": 2, "minute": 3})").find("minute"),
            std::string::npos);
  EXPECT_NE(fault(R"("reference": {"name": "H", "overhead": 1, "relative_peak": 2})").find("minutes"),
            std::string::npos);
  EXPECT_NE(fault(R"("reference": {"name": "", "overhead": 1, "relative_peak": 2, "minutes": 3})").find("empty"),
            std::string::npos);
}

TEST_F(SuiteFile, MakesAnInstanceOfEveryFileInAFolder) {
  write("b.json", "");
  write("a.onnx", "");
  const Suite read =
      read_suite(suite(R"("instances": [{"folder": "{1}"}], "contenders": ["auto"])"), "elsewhere", {path("")});
  ASSERT_EQ(read.instances.size(), 2U);
  EXPECT_EQ(read.instances[0].name, "a.onnx");
  EXPECT_EQ(read.instances[1].file, path("b.json"));
}

TEST_F(SuiteFile, RefusesWhatItCannotMeanWithThePath) {
  const auto with = [](const std::string& instances, const std::string& contenders) {
    return suite("\"instances\": [" + instances + "], \"contenders\": [" + contenders + "]");
  };
  const std::string good = R"({"name": "a", "file": "x"})";
  EXPECT_EQ(message(with(good, "\"auto\"")), "");
  EXPECT_NE(message(with(good + "," + good, "\"auto\"")).find("$.instances[1]: 'a' is there already"),
            std::string::npos);
  EXPECT_NE(message(with(good, "\"auto\", \"auto\"")).find("$.contenders[1]"), std::string::npos);
  EXPECT_NE(message(with(R"({"name": "a"})", "\"auto\"")).find("needs either file or make"), std::string::npos);
  EXPECT_NE(message(with(R"({"name": "a/b", "file": "x"})", "\"auto\"")).find("slash"), std::string::npos);
  EXPECT_NE(message(with(R"({"name": "a", "file": "x", "budgts": []})", "\"auto\"")).find("budgts"), std::string::npos);
  EXPECT_NE(message(with(good, R"({"name": "c"})")).find("needs either arguments or command"), std::string::npos);
  EXPECT_NE(message(with(R"({"folder": "{1}"})", "\"auto\"")).find("needs a parameter"), std::string::npos);
  EXPECT_NE(message(with(R"({"folder": "{1}"})", "\"auto\""), {"/not/there"}).find("/not/there"), std::string::npos);
  EXPECT_NE(message(with(R"({"folder": "{1}", "name": "a"})", "\"auto\""), {"."}).find("name"), std::string::npos);
  EXPECT_NE(message(with(good, "\"auto\""), {"stray"}).find("stray"), std::string::npos);
  EXPECT_NE(message(with(good, "")).find("no contenders"), std::string::npos);
  EXPECT_NE(message(R"({"format": "remora-suite", "version": 1, "name": "s", "instances": [{"name": "a", "file": "x"}],
      "contenders": ["auto"]})")
                .find("no budgets for 'a'"),
            std::string::npos);
  EXPECT_NE(message(R"({"format": "remora-graph", "version": 1})").find("remora-suite"), std::string::npos);
}

TEST_F(SuiteFile, AllSuitesOfTheRepositoryAreRead) {
  int suites = 0;
  for (const auto& entry : std::filesystem::directory_iterator(REMORA_SOURCE_DIR "/benchmarks/suites")) {
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const bool has_parameter = text.str().find("{1}") != std::string::npos;
    const Suite read = read_suite(text.str(), entry.path().parent_path().string(),
                                  has_parameter ? std::vector<std::string>{path("")} : std::vector<std::string>{});
    EXPECT_EQ(read.name + ".json", entry.path().filename());
    EXPECT_FALSE(read.contenders.empty());
    ++suites;
  }
  EXPECT_GE(suites, 5);
}

}  // namespace
}  // namespace remora::bench
