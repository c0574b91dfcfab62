// SPDX-License-Identifier: Apache-2.0
//
// Free ops over a fixed rest, in both forms, with modes and without, against all sequences that keep the rest.
#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "model/evaluate.hpp"
#include "model/sequence.hpp"
#include "tests/cp/oracle_check.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_modes.hpp"

namespace remora {
namespace {

/// More take the enumeration too long; those with modes count twice.
constexpr int kMaxFreeComputes = 8;

/// The least duration of all sequences that hold the budget and leave the computes of the other ops as they are.
class Enumeration {
 public:
  Enumeration(const Instance& instance, const std::vector<Compute>& incumbent, const std::set<int>& free_ops)
      : instance_(instance),
        incumbent_(incumbent),
        free_ops_(free_ops),
        counts_(static_cast<std::size_t>(instance.op_count()), 0) {
    for (const Compute& compute : incumbent) {
      if (!free_ops.contains(compute.op)) rest_.push_back(compute);
    }
  }

  std::optional<Duration> best() {
    extend(0);
    return best_;
  }

 private:
  void extend(std::size_t next_of_rest) {
    if (next_of_rest == rest_.size()) judge();
    if (next_of_rest < rest_.size()) append(rest_[next_of_rest], next_of_rest + 1);
    for (const int op : free_ops_) {
      if (count(op) == instance_.max_computes(OpId(op))) continue;
      for (ModeNumber mode = 0; mode < instance_.mode_count(OpId(op)); ++mode) {
        if (instance_.offers(OpId(op), mode)) append({OpId(op), mode}, next_of_rest);
      }
    }
  }

  void append(Compute compute, std::size_t next_of_rest) {
    if (!inputs_computed(compute.op)) return;
    ++count(compute.op);
    sequence_.push_back(compute);
    extend(next_of_rest);
    sequence_.pop_back();
    --count(compute.op);
  }

  [[nodiscard]] bool inputs_computed(OpId op) {
    const auto inputs = instance_.inputs(op);
    const auto& after = instance_.graph().ops[op].after;
    return std::all_of(inputs.begin(), inputs.end(), [&](TensorId t) { return count(instance_.producer(t)) > 0; }) &&
           (count(op) > 0 || std::all_of(after.begin(), after.end(), [&](OpId earlier) { return count(earlier) > 0; }));
  }

  void judge() {
    if (std::any_of(free_ops_.begin(), free_ops_.end(), [&](int op) { return count(op) == 0; })) return;
    if (instance_.problem().order == OrderMode::input && !stages_kept()) return;
    if (!modes_hold(instance_, sequence_)) return;
    const Evaluation evaluation = evaluate(instance_, std::span<const Compute>(sequence_));
    if (evaluation.peak > instance_.budget()) return;
    if (!best_ || evaluation.duration < *best_) best_ = evaluation.duration;
  }

  /// Staged, with the rest's recomputes in the stages where they were.
  [[nodiscard]] bool stages_kept() const {
    const auto ops = ops_of(sequence_);
    return is_staged(instance_, ops) && rest_plan(ops) == rest_plan(ops_of(incumbent_));
  }
  [[nodiscard]] RecomputePlan rest_plan(const std::vector<OpId>& ops) const {
    RecomputePlan plan = plan_of(instance_, ops);
    std::erase_if(plan, [&](const Recompute& recompute) { return free_ops_.contains(recompute.op); });
    return plan;
  }

  int& count(int op) { return counts_[static_cast<std::size_t>(op)]; }

  const Instance& instance_;
  const std::vector<Compute>& incumbent_;
  const std::set<int>& free_ops_;
  std::vector<Compute> rest_;
  std::vector<int> counts_;
  std::vector<Compute> sequence_;
  std::optional<Duration> best_;
};

/// A random valid sequence of the stated form, each op at most max_computes times.
std::vector<Compute> random_sequence(std::mt19937& random, const Instance& instance) {
  RecomputePlan plan;
  for (int v = 0; v < instance.op_count(); ++v) {
    const auto stages = static_cast<unsigned>(instance.op_count() - v);
    for (int copy = 1; copy < instance.max_computes(OpId(v)); ++copy) {
      if (random() % 3 == 0) plan.push_back({Stage(v) + 1 + static_cast<int>(random() % stages), OpId(v)});
    }
  }
  std::sort(plan.begin(), plan.end());
  plan.erase(std::unique(plan.begin(), plan.end()), plan.end());
  auto computes = computes_of(sequence_of(instance, plan));
  std::vector<ModeNumber> latest(static_cast<std::size_t>(instance.op_count()), 0);
  for (Compute& compute : computes) {
    const OpId leader = instance.leader(compute.op);
    const auto offered = static_cast<ModeNumber>(random() % static_cast<unsigned>(instance.mode_count(compute.op)));
    if (leader.valid())
      compute.mode = latest[leader];
    else if (instance.followers(compute.op).empty() && instance.offers(compute.op, offered))
      compute.mode = offered;
    latest[compute.op] = compute.mode;
  }
  return computes;
}

/// Some ops, and all that are tied to them.
std::set<int> random_free_ops(std::mt19937& random, const Instance& instance, int count) {
  std::set<int> result;
  for (int i = 0; i < count; ++i) {
    result.insert(static_cast<int>(random() % static_cast<unsigned>(instance.op_count())));
  }
  for (std::size_t size = 0; size != result.size();) {
    size = result.size();
    for (int v = 0; v < instance.op_count(); ++v) {
      const OpId leader = instance.leader(OpId(v));
      if (!leader.valid()) continue;
      if (result.contains(leader)) result.insert(v);
      if (result.contains(v)) result.insert(leader);
    }
  }
  return result;
}

/// Random neighbourhoods of one kind of problem, each solved and enumerated; returns how many had a solution.
int check_neighbourhoods(unsigned seed, int rounds, OrderMode order, bool with_modes) {
  std::mt19937 random(seed);
  int found = 0;
  for (int round = 0; round < rounds; ++round) {
    auto graph = test::random_graph(random, {.least_ops = 4, .most_ops = 6});
    if (with_modes) graph = test::with_random_modes(random, *graph);
    const Problem limits{.max_computes = 2 + static_cast<int>(random() % 2), .order = order};
    const Instance unlimited(graph, limits);
    const auto incumbent = random_sequence(random, unlimited);
    if (!modes_hold(unlimited, incumbent)) continue;
    // Tied ops are freed together, so that fewer are chosen where there are modes.
    const auto free_ops = random_free_ops(random, unlimited, with_modes ? 1 : 2);
    int computes = 0;
    for (const int op : free_ops) computes += unlimited.max_computes(OpId(op)) * (with_modes ? 2 : 1);
    if (computes > kMaxFreeComputes) continue;
    const Bytes peak = evaluate(unlimited, std::span<const Compute>(incumbent)).peak;
    const Bytes less(static_cast<std::int64_t>(random() % 4));
    if (peak < less) continue;
    const Instance instance = unlimited.with_budget(peak - less);
    std::vector<OpId> free;
    for (const int op : free_ops) free.emplace_back(op);
    const cp::RetentionProblem problem(instance, incumbent, free, {instance.budget()});
    cp::SearchSettings settings;
    settings.follow_incumbent = random() % 2 == 0;
    settings.noise = 0.3;
    settings.seed = random();
    const auto outcome = cp::solve_retention(problem, settings);
    const auto truth = Enumeration(instance, incumbent, free_ops).best();
    EXPECT_TRUE(outcome.complete);
    EXPECT_EQ(outcome.sequence.has_value(), truth.has_value()) << "round " << round;
    if (!truth || !outcome.sequence) continue;
    EXPECT_EQ(instance.baseline_duration() + outcome.extra, *truth) << "round " << round;
    EXPECT_EQ(test::faults(instance, outcome), "") << "round " << round;
    ++found;
  }
  return found;
}

TEST(Neighbourhood, OfTheStagedFormIsSolvedExactly) {
  EXPECT_GT(check_neighbourhoods(71, 600, OrderMode::input, false), 150);
}

TEST(Neighbourhood, OfTheFreeOrderIsSolvedExactly) {
  EXPECT_GT(check_neighbourhoods(72, 600, OrderMode::free, false), 150);
}

TEST(Neighbourhood, OfTheStagedFormWithOptionsIsSolvedExactly) {
  EXPECT_GT(check_neighbourhoods(73, 1000, OrderMode::input, true), 50);
}

TEST(Neighbourhood, OfTheFreeOrderWithOptionsIsSolvedExactly) {
  EXPECT_GT(check_neighbourhoods(74, 800, OrderMode::free, true), 30);
}

}  // namespace
}  // namespace remora
