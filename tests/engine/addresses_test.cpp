// SPDX-License-Identifier: Apache-2.0
#include "engine/addresses.hpp"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/placement/place.hpp"
#include "frontends/generate/layered.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/schedule_buffers.hpp"
#include "model/verify.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/placement_oracle.hpp"
#include "tests/support/random_graph.hpp"

namespace remora {
namespace {

using test::fewer;

SolveOptions limited(std::int64_t work) {
  SolveOptions options;
  options.work_limit = work;
  options.time_limit = kNoTimeLimit;
  options.threads = 1;
  return options;
}

/// The answer, verified, addresses and all.
Schedule solve_placed(const Instance& instance, Bytes alignment, std::int64_t work = 20'000) {
  Schedule schedule = solve_with_addresses(instance, limited(work), alignment);
  EXPECT_EQ(schedule.arena.has_value(), schedule.has_schedule());
  if (schedule.has_schedule()) {
    const Verdict verdict = verify(instance.graph(), schedule);
    EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
    EXPECT_LE(schedule.arena->size + instance.graph().fixed_memory, instance.budget());
    EXPECT_EQ(schedule.arena->alignment, alignment);
    EXPECT_LE(schedule.lower_bound, schedule.duration);
  }
  return schedule;
}

/// The least duration of a schedule of the staged form, two computes an op at most, that packs: every choice of stages for
/// the recomputes, and every placement of its buffers.
std::optional<Duration> least_packed(const Instance& instance, Bytes alignment) {
  const int n = instance.op_count();
  std::vector<int> stage(static_cast<std::size_t>(n), 0);
  std::optional<Duration> least;
  while (true) {
    // stage[v] = 0: no recompute, else it is in stage v + stage[v].
    Sequence sequence;
    for (int k = 0; k <= n; ++k) {
      for (int v = 0; v < std::min(k, n); ++v) {
        if (stage[static_cast<std::size_t>(v)] > 0 && v + stage[static_cast<std::size_t>(v)] == k)
          sequence.emplace_back(v);
      }
      if (k < n) sequence.emplace_back(k);
    }
    const Evaluation evaluation = evaluate(instance, sequence);
    if (evaluation.peak <= instance.budget() && (!least || evaluation.duration < *least)) {
      Schedule schedule{.status = Status::feasible};
      schedule.steps = steps_of(instance, sequence);
      const Bytes arena = test::smallest_arena(buffers_of(instance.graph(), schedule, alignment).buffers);
      if (arena <= instance.budget() - instance.graph().fixed_memory) least = evaluation.duration;
    }
    int v = 0;
    for (; v < n; ++v) {
      int& at = stage[static_cast<std::size_t>(v)];
      const bool may = instance.max_computes(OpId(v)) > 1 && v + at < n;
      at = may ? at + 1 : 0;
      if (may) break;
    }
    if (v == n) return least;
  }
}

TEST(Addresses, WhatIsProvedIsTrueOfEveryScheduleAndEveryPlacement) {
  constexpr int kGraphs = 160;
  std::mt19937 random(3);
  int equal = 0;
  int found = 0;
  for (int i = 0; i < fewer(kGraphs); ++i) {
    const auto graph = test::random_graph(random, {.most_ops = 5, .largest_size = 6});
    const Bytes alignment(std::vector<int>{1, 2, 4}[random() % 3]);
    const Bytes peak = baseline_peak(Instance(graph, {}));
    for (const int below : {-8, -4, 0, 3}) {
      const Instance instance(graph, {.budget = std::max(Bytes(), peak - Bytes(below))});
      const std::optional<Duration> truth = least_packed(instance, alignment);
      const Schedule schedule = solve_placed(instance, alignment);
      SCOPED_TRACE("graph " + std::to_string(i) + ", alignment " + std::to_string(alignment.count()) + ", below " +
                   std::to_string(below));
      if (schedule.status == Status::infeasible) {
        ASSERT_FALSE(truth);
      }
      if (schedule.status == Status::optimal) {
        ASSERT_TRUE(truth);
        ASSERT_EQ(schedule.duration, *truth);
      }
      if (schedule.has_schedule()) {
        ASSERT_TRUE(truth);
        ASSERT_GE(schedule.duration, *truth);
      }
      if (!truth) continue;
      ++found;
      equal += schedule.has_schedule() && schedule.duration == *truth ? 1 : 0;
    }
  }
  EXPECT_GE(found, fewer(kGraphs));
  EXPECT_GE(equal, found * 95 / 100) << found;
}

TEST(Addresses, LayeredGraphsPackWithinTheirBudget) {
  for (const unsigned seed : {1U}) {
    const auto graph = std::make_shared<const Graph>(generate::generate_layered({.ops = 60, .seed = seed}));
    const Bytes peak = baseline_peak(Instance(graph, {}));
    for (const int percent : {100, 90, 80}) {
      const Instance instance(graph, {.budget = Bytes(peak.count() / 100 * percent)});
      const Schedule schedule = solve_placed(instance, Bytes(64), 8'000);
      EXPECT_TRUE(schedule.has_schedule()) << seed << " " << percent;
    }
  }
}

/// A graph without recompute whose tensors live as these buffers do: op k runs at time k, writes those that begin there and
/// reads those whose last time it is.
std::shared_ptr<const Graph> graph_of(const std::vector<Buffer>& buffers, int times) {
  auto graph = std::make_shared<Graph>();
  std::vector<TensorId> tensors;
  for (const Buffer& buffer : buffers) tensors.push_back(graph->add_tensor(buffer.id, buffer.size));
  for (int k = 0; k < times; ++k) {
    Op op{.name = "op" + std::to_string(k), .duration = Duration(1), .recompute = false};
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].lifespan.lower == k) op.outputs.push_back(tensors[i]);
      if (buffers[i].lifespan.upper - 1 == k && buffers[i].lifespan.lower < k) op.inputs.push_back(tensors[i]);
    }
    if (op.outputs.empty()) op.outputs.push_back(graph->add_tensor("nothing" + std::to_string(k), Bytes()));
    graph->add_op(std::move(op));
  }
  return graph;
}

/// Buffers that fill so many bytes at every time: at each some end, and others of the same sum begin.
std::vector<Buffer> full_buffers(Random& random, int times, std::int64_t bytes) {
  std::vector<Buffer> buffers;
  std::vector<std::size_t> alive;
  std::int64_t room = bytes;
  for (int t = 0; t < times; ++t) {
    for (std::size_t k = alive.size(); k-- > 0;) {
      if (t == 0 || random.unit() < 0.6) continue;
      buffers[alive[k]].lifespan.upper = t;
      room += buffers[alive[k]].size.count();
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(k));
    }
    while (room > 0) {
      const auto size =
          1 + static_cast<std::int64_t>(random.below(static_cast<std::size_t>(std::min<std::int64_t>(room, 4))));
      alive.push_back(buffers.size());
      buffers.push_back({.id = "b" + std::to_string(buffers.size()), .lifespan = {t, times}, .size = Bytes(size)});
      room -= size;
    }
  }
  return buffers;
}

TEST(Addresses, SayWhereASumFitsAndNothingPacks) {
  constexpr int kTimes = 8;
  Random random(31);
  int found = 0;
  for (int i = 0; i < 3000 && found < 1; ++i) {
    const std::vector<Buffer> buffers = full_buffers(random, kTimes, 9);
    const Bytes load = largest_load(buffers);
    const PlaceResult smallest = place(buffers, {.work_limit = 20'000}, [] { return false; });
    if (smallest.status != PlacementStatus::optimal || smallest.arena == load) continue;
    const Bytes needed = smallest.arena;
    ++found;
    const auto graph = graph_of(buffers, kTimes);
    ASSERT_EQ(baseline_peak(Instance(graph, {})), load);
    const Schedule none = solve_placed(Instance(graph, {.budget = load}), Bytes(1), 2'000);
    EXPECT_EQ(none.status, Status::unknown);
    EXPECT_NE(none.solver.note.find("none whose buffers pack"), std::string::npos) << none.solver.note;
    EXPECT_TRUE(none.steps.empty());
    const Schedule fits = solve_placed(Instance(graph, {.budget = needed}), Bytes(1), 2'000);
    EXPECT_EQ(fits.status, Status::optimal);
    EXPECT_EQ(fits.arena->size, needed);
  }
  EXPECT_EQ(found, 1);
}

TEST(Addresses, AreTheSameForTheSameSeed) {
  const auto graph = std::make_shared<const Graph>(generate::generate_layered({.ops = 40, .seed = 3}));
  const Instance instance(graph, {.budget = Bytes(baseline_peak(Instance(graph, {})).count() / 10 * 9)});
  const Schedule one = solve_placed(instance, Bytes(64), 1'000);
  SolveOptions options = limited(1'000);
  options.threads = 2;
  const Schedule other = solve_with_addresses(instance, options, Bytes(64));
  EXPECT_TRUE(one.arena);
  EXPECT_EQ(one.steps, other.steps);
  EXPECT_EQ(one.arena, other.arena);
}

TEST(Addresses, RefuseAlignmentsOutOfRange) {
  const Instance instance(test::figure_1(), {});
  EXPECT_THROW(solve_with_addresses(instance, limited(10), Bytes(0)), InputError);
  EXPECT_THROW(solve_with_addresses(instance, limited(10), Bytes((std::int64_t{1} << 30) + 1)), InputError);
}

}  // namespace
}  // namespace remora
