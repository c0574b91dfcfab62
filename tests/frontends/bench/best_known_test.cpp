// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/best_known.hpp"

#include <algorithm>
#include <iostream>

#include "frontends/bench/instance_store.hpp"
#include "frontends/formats/file.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::bench {
namespace {

using BestKnownFile = remora::test::TemporaryFolder;

BestKnown claim(std::int64_t duration, std::int64_t bound) {
  return {.instance = {.name = "g", .make = {"remora", "generate", "chain"}},
          .graph_sha256 = "abc",
          .budget = "80%",
          .budget_bytes = 800,
          .max_computes = 2,
          .baseline_duration = 1000,
          .duration = duration,
          .lower_bound = bound,
          .who = "somebody",
          .when = "2026-11-21",
          .plan = {{3, OpId(1)}, {4, OpId(0)}}};
}

/// What is wrong with the claim; empty if nothing is.
std::string fault(const BestKnown& entry, const std::shared_ptr<const Graph>& graph) {
  const Instance instance(graph, {.budget = Bytes(entry.budget_bytes), .max_computes = entry.max_computes});
  const bool in_range = std::all_of(entry.plan.begin(), entry.plan.end(), [&](const Recompute& recompute) {
    return recompute.op < recompute.stage && recompute.stage <= instance.op_count();
  });
  if (!in_range || !std::is_sorted(entry.plan.begin(), entry.plan.end())) return "its recomputes are no plan";
  Schedule schedule;
  schedule.status = Status::feasible;
  schedule.budget = instance.budget();
  schedule.solver.max_computes = entry.max_computes;
  schedule.steps = steps_of(instance, sequence_of(instance, entry.plan));
  schedule.duration = Duration(entry.duration);
  schedule.baseline_duration = Duration(entry.baseline_duration);
  const Evaluation evaluation = evaluate(instance, sequence_of(instance, entry.plan));
  schedule.peak_memory = evaluation.peak;
  schedule.baseline_peak_memory = baseline_peak(instance);
  const Verdict verdict = verify(*graph, schedule);
  if (!verdict.valid()) return verdict.errors.front();
  if (instance.baseline_duration() != schedule.baseline_duration) return "its baseline is another";
  if (entry.lower_bound > entry.duration) return "its bound is above it";
  const Bytes budget = parse_budget(entry.budget, graph->fixed_memory, schedule.baseline_peak_memory);
  if (budget != instance.budget()) return "its budget is not " + entry.budget;
  return "";
}

TEST_F(BestKnownFile, KeepsTheShorterScheduleAndTheHigherBound) {
  BestKnownTable table;
  table.learn(claim(1100, 1020));
  table.learn(claim(1150, 1060));
  table.learn(claim(1080, 1010));
  ASSERT_NE(table.find("g", "abc", "80%", 2), nullptr);
  EXPECT_EQ(table.find("g", "abc", "80%", 2)->duration, 1080);
  EXPECT_EQ(table.find("g", "abc", "80%", 2)->lower_bound, 1060);
  EXPECT_EQ(table.find("g", "abc", "80%", 3), nullptr);
  BestKnown other = claim(2000, 1000);
  other.graph_sha256 = "another";
  EXPECT_TRUE(table.learn(other));
  EXPECT_EQ(table.find("g", "abc", "80%", 2), nullptr);
  EXPECT_EQ(table.find("g", "another", "80%", 2)->duration, 2000);
  EXPECT_FALSE(table.learn(other));
}

TEST_F(BestKnownFile, ReadsBackWhatItWrote) {
  BestKnownTable table;
  table.learn(claim(1100, 1020));
  BestKnown file = claim(1200, 1000);
  file.instance = {.name = "f", .file = path("graphs/f.json"), .reading = {"--training"}};
  table.learn(file);
  const BestKnownTable again(table.text(path("")), path(""));
  EXPECT_EQ(again.text(path("")), table.text(path("")));
  ASSERT_NE(again.find("f", "abc", "80%", 2), nullptr);
  EXPECT_EQ(std::filesystem::path(again.find("f", "abc", "80%", 2)->instance.file).lexically_normal(),
            std::filesystem::path(path("graphs/f.json")));
  EXPECT_EQ(again.find("g", "abc", "80%", 2)->plan, claim(0, 0).plan);
}

TEST_F(BestKnownFile, RefusesNonsenseWithThePath) {
  EXPECT_THROW(BestKnownTable("{}", ""), InputError);
  EXPECT_THROW(BestKnownTable(R"({"format": "remora-best-known", "version": 1, "entries": [{}]})", ""), InputError);
}

TEST_F(BestKnownFile, EveryClaimOfTheRepositoryVerifies) {
  const std::string folder = REMORA_SOURCE_DIR "/benchmarks";
  const BestKnownTable table(json::read_file(folder + "/best_known.json"), folder);
  const InstanceStore store({.remora = REMORA_PROGRAM, .remora_zoo = REMORA_ZOO}, path("work"), nullptr);
  int checked = 0;
  int away = 0;
  std::string last;
  StoredInstance stored;
  for (const auto& [key, entry] : table.entries()) {
    if (!entry.instance.file.empty() && !std::filesystem::exists(entry.instance.file)) {
      ++away;
      continue;
    }
    if (entry.instance.name != last) stored = store.get(entry.instance);
    last = entry.instance.name;
    ASSERT_TRUE(stored.graph != nullptr) << last << ": " << stored.missing;
    EXPECT_EQ(stored.sha256, entry.graph_sha256) << last;
    EXPECT_EQ(fault(entry, stored.graph), "") << last << " " << entry.budget;
    // And the check can fail: a claim of one unit less does not pass.
    BestKnown lie = entry;
    --lie.duration;
    EXPECT_NE(fault(lie, stored.graph), "") << last << " " << entry.budget;
    ++checked;
  }
  EXPECT_GT(checked, 10);
  if (away > 0) std::cout << away << " claims about graphs that are not here (../shared) were left out\n";
}

}  // namespace
}  // namespace remora::bench
