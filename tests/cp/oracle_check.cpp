// SPDX-License-Identifier: Apache-2.0
#include "tests/cp/oracle_check.hpp"

#include <algorithm>

#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_modes.hpp"

namespace remora::test {
namespace {

cp::SearchSettings random_settings(std::mt19937& random) {
  constexpr cp::BranchingRule kRules[] = {cp::BranchingRule::overload, cp::BranchingRule::incumbent,
                                          cp::BranchingRule::domain_size};
  cp::SearchSettings settings;
  settings.rule = random() % 2 == 0 ? cp::BranchingRule::overload : kRules[random() % 3];
  settings.follow_incumbent = random() % 2 == 0;
  settings.noise = random() % 2 == 0 ? 0.0 : 0.5;
  settings.learn = random() % 2 == 0;
  settings.seed = random();
  return settings;
}

Schedule within_budget(const Instance& instance, const Sequence& sequence) {
  Schedule schedule = schedule_of(instance, sequence);
  schedule.budget = instance.budget();
  return schedule;
}

}  // namespace

cp::Inferences inferences_from_bits(unsigned bits) {
  return {.forced_recompute = (bits & 1U) != 0,
          .impossible_recompute = (bits & 2U) != 0,
          .useless_recompute = (bits & 4U) != 0,
          .later_recompute = (bits & 8U) != 0,
          .cover_bound = (bits & 16U) != 0,
          .costly_recompute = (bits & 32U) != 0};
}

unsigned random_switches(std::mt19937& random) {
  constexpr unsigned kAll = (1U << kInferences) - 1;
  return random() % 3 == 0 ? random() % (kAll + 1) : kAll;
}

cp::SearchOutcome solve_whole(const Instance& instance, const cp::Inferences& inferences,
                              const cp::SearchSettings& settings) {
  const auto all = input_order(instance);
  const cp::RetentionProblem problem(instance, computes_of(all), all, {instance.budget()}, inferences);
  return cp::solve_retention(problem, settings);
}

std::vector<Bytes> budgets(const Instance& instance) {
  Bytes least = instance.base_memory();
  for (int v = 0; v < instance.op_count(); ++v) least = std::max(least, instance.footprint(OpId(v)));
  std::vector<Bytes> result;
  for (Bytes budget = std::max(Bytes(0), least - Bytes(1)); budget <= baseline_peak(instance); budget += Bytes(1)) {
    result.push_back(budget);
  }
  return result;
}

std::string faults(const Instance& instance, const cp::SearchOutcome& outcome) {
  const auto& sequence = *outcome.sequence;
  const Evaluation evaluation = evaluate(instance, std::span<const Compute>(sequence));
  if (evaluation.peak > instance.budget()) return "the peak is above the budget";
  if (evaluation.duration != instance.baseline_duration() + outcome.extra) return "the duration is not what was said";
  if (!modes_hold(instance, sequence)) return "a mode does not hold";
  if (instance.has_modes()) return "";
  const Verdict verdict = verify(instance.graph(), within_budget(instance, ops_of(sequence)));
  return verdict.valid() ? "" : verdict.errors.front();
}

void check_random_graph(std::uint32_t seed, const ProblemKind& kind, OracleTally& tally) {
  std::mt19937 random(seed);
  auto graph =
      random_graph(random, {.least_ops = kind.least_ops, .most_ops = kind.most_ops, .in_place = kind.in_place});
  if (kind.with_modes) graph = with_random_modes(random, *graph);
  const int max_computes = 1 + static_cast<int>(random() % static_cast<unsigned>(kind.most_computes));
  const Problem limits{.max_computes = max_computes, .order = kind.order};
  const Instance unlimited(graph, limits);
  for (const Bytes budget : budgets(unlimited)) {
    const Instance instance = unlimited.with_budget(budget);
    const unsigned bits = random_switches(random);
    const auto truth = optimum(instance);
    const auto outcome = solve_whole(instance, inferences_from_bits(bits), random_settings(random));
    ++tally.cases;
    std::string wrong;
    if (!outcome.complete)
      wrong = "the search did not end";
    else if (outcome.sequence.has_value() != truth.has_value())
      wrong = "feasibility differs from the oracle's";
    else if (truth && instance.baseline_duration() + outcome.extra != *truth)
      wrong = "not the oracle's optimum";
    else if (truth)
      wrong = faults(instance, outcome);
    if (!wrong.empty() && tally.failure.empty()) {
      tally.failure = wrong + ": seed " + std::to_string(seed) + ", budget " + std::to_string(budget.count()) +
                      ", max_computes " + std::to_string(limits.max_computes) + ", switches " + std::to_string(bits);
    }
    if (!truth) continue;
    ++tally.feasible;
    if (outcome.extra > Duration(0)) ++tally.recomputing;
  }
}

}  // namespace remora::test
