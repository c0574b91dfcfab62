// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/manifest.hpp"

#include <gtest/gtest.h>

#include "frontends/cli/reading/solve_options.hpp"
#include "model/error.hpp"

namespace remora::batch {
namespace {

/// As the command reads them.
Manifest read(const std::string& text, const TaskOptions& defaults = {}) {
  return read_manifest(text, "/data", [&](Task& task) { cli::complete_task(task, defaults, "/data"); });
}

std::string line(const std::string& id, const std::string& more = "") {
  return R"({"id": ")" + id + R"(", "graph": "g.json", "budget": "80%")" + more + "}\n";
}

TEST(Manifest, TakesPathsFromItsFolderAndSkipsBlankLines) {
  const Manifest manifest =
      read(line("a") + "\n \t\r\n" + R"({"id": "b", "graph": "/there/../g.json", "budget": 123})");
  ASSERT_EQ(manifest.tasks.size(), 2U);
  EXPECT_TRUE(manifest.faults.empty());
  EXPECT_EQ(manifest.tasks[0].graph, "/data/g.json");
  EXPECT_EQ(manifest.tasks[1].graph, "/g.json");
  EXPECT_EQ(manifest.tasks[1].budget, "123");
  EXPECT_EQ(manifest.tasks[1].line, 4U);
}

TEST(Manifest, ANumberIsBytesHoweverSmall) {
  EXPECT_EQ(read(R"({"id": "b", "graph": "g", "budget": 80})").tasks.at(0).budget, "80B");
}

TEST(Manifest, OptionsAreThoseOfTheCommandLineInEitherSpelling) {
  const Manifest whole = read(line("a", R"(, "options": {"time_limit": 2.5, "max-computes": 3, "groups": false, )"
                                        R"("training": true, "dim": ["batch=8", "length=16"], "device": "d.json"})"));
  ASSERT_EQ(whole.tasks.size(), 1U) << whole.faults.front();
  const TaskOptions expected{{"time-limit", {"2.5"}}, {"max-computes", {"3"}},           {"groups", {"off"}},
                             {"training", {"on"}},    {"dim", {"batch=8", "length=16"}}, {"device", {"/data/d.json"}}};
  EXPECT_EQ(whole.tasks[0].options, expected);
}

TEST(Manifest, ATasksOwnLineGoesBeforeTheDefaults) {
  const TaskOptions defaults{{"budget", {"70%"}}, {"seed", {"7"}}, {"training", {"on"}}};
  const Manifest manifest = read(R"({"id": "a", "graph": "g"})"
                                 "\n" +
                                     line("b", R"(, "options": {"seed": 8, "training": false})"),
                                 defaults);
  ASSERT_EQ(manifest.tasks.size(), 2U);
  EXPECT_EQ(manifest.tasks[0].budget, "70%");
  EXPECT_EQ(manifest.tasks[0].options.at("seed").front(), "7");
  EXPECT_EQ(manifest.tasks[0].options.count("budget"), 0U);
  EXPECT_EQ(manifest.tasks[1].budget, "80%");
  EXPECT_EQ(manifest.tasks[1].options.at("seed").front(), "8");
  EXPECT_EQ(manifest.tasks[1].options.at("training").front(), "off");
}

TEST(Manifest, EveryBadLineIsOneFaultWithItsNumber) {
  const std::vector<std::pair<std::string, std::string>> faulty{
      {line("a"), "$.id"},
      {R"({"graph": "g", "budget": 1})", "id"},
      {R"({"id": "b", "budget": 1})", "graph"},
      {R"({"id": "b", "graph": "g"})", "$.budget"},
      {R"({"id": "", "graph": "g", "budget": 1})", "$.id"},
      {R"({"id": "b\n", "graph": "g", "budget": 1})", "$.id"},
      {R"({"id": 5, "graph": "g", "budget": 1})", "$.id"},
      {R"({"id": "b", "graph": "g", "budget": -1})", "$.budget"},
      {R"({"id": "b", "graph": "g", "budget": "8x"})", "--budget"},
      {line("b", R"(, "sha256": "12ab")"), "$.sha256"},
      {line("b", R"(, "colour": 1)"), "colour"},
      {line("b", R"(, "options": [])"), "$.options"},
      {line("b", R"(, "options": {"colour": 1})"), "colour"},
      {line("b", R"(, "options": {"budget": "1"})"), "budget"},
      {line("b", R"(, "options": {"files": "1"})"), "files"},
      {line("b", R"(, "options": {"quiet": true})"), "quiet"},
      {line("b", R"(, "options": {"help": true})"), "help"},
      {line("b", R"(, "options": {"threads": -1})"), "--threads"},
      {line("b", R"(, "options": {"threads": null})"), "$.options.threads"},
      {line("b", R"(, "options": {"seed": [1, 2]})"), "seed"},
      {line("b", R"(, "options": {"dim": []})"), "$.options.dim"},
      {line("b", R"(, "options": {"seed": 1, "seed": 2})"), "seed"},
      {line("b", R"(, "options": {"time_limit": 1, "time-limit": 2})"), "time-limit"},
      {line("b", R"(, "options": {"training": "maybe"})"), "training"},
      {line("b", R"(, "options": {"backward": "precise"})"), "--training"},
      {line("b", R"(, "options": {"strategy": "magic"})"), "magic"},
      {line("b", R"(, "options": {"order": "random"})"), "--order"},
      {"{", "not JSON"},
      {"[]", "object"},
      {"\xff", "column 1"}};
  std::string text = line("a");
  for (const auto& [bad, word] : faulty) text += bad.back() == '\n' ? bad : bad + "\n";
  const Manifest manifest = read(text + line("last"));
  EXPECT_EQ(manifest.tasks.size(), 2U);
  ASSERT_EQ(manifest.faults.size(), faulty.size());
  for (std::size_t i = 0; i < faulty.size(); ++i) {
    const std::string& fault = manifest.faults[i];
    EXPECT_TRUE(fault.starts_with("line " + std::to_string(i + 2) + ": ")) << fault;
    EXPECT_NE(fault.find(faulty[i].second), std::string::npos) << fault << " for " << faulty[i].first;
    EXPECT_EQ(fault.find('\n'), std::string::npos) << fault;
  }
}

TEST(Manifest, WrittenOutItMeansTheSame) {
  const std::string digest(64, 'A');
  const Manifest manifest = read(line("a", R"(, "sha256": ")" + digest + R"(", "options": {"training": false})") +
                                     line("b", R"(, "options": {"dim": ["n=1", "m=2"]})"),
                                 {{"seed", {"3"}}});
  ASSERT_EQ(manifest.tasks.size(), 2U);
  EXPECT_EQ(manifest.tasks[0].sha256, std::string(64, 'a'));
  const std::string text = manifest_text(manifest.tasks);
  const Manifest again = read(text);
  ASSERT_EQ(again.tasks.size(), 2U);
  EXPECT_EQ(manifest_text(again.tasks), text);
  EXPECT_EQ(again.tasks[0].sha256, manifest.tasks[0].sha256);
  EXPECT_EQ(again.tasks[1].options, manifest.tasks[1].options);
  EXPECT_EQ(cli::task_settings(again.tasks[0]), cli::task_settings(manifest.tasks[0]));
}

}  // namespace
}  // namespace remora::batch
