// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ask/ask.hpp"
#include "engine/ask/problem.hpp"
#include "engine/placement/place.hpp"
#include "frontends/generate/layered.hpp"
#include "model/buffers/schedule_buffers.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/placement_oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_modes.hpp"
#include "tests/support/work_limited.hpp"

namespace remora {
namespace {

using test::fewer;

const std::function<bool()> kNever = [] { return false; };

/// The answer, verified, addresses and all.
Schedule solve_placed(const Instance& instance, Bytes alignment, std::int64_t work = 20'000) {
  Schedule schedule = solve_with_addresses(instance, test::work_limited(work, 1), alignment);
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
/// `smallest`: the smallest arena of buffers, or of those above a capacity anything that is above it.
using Smallest = std::function<Bytes(const std::vector<Buffer>&, Bytes capacity)>;

/// Visits the sequence of ops by every choice of modes that is allowed.
template <class Visit>
void for_each_choice(const Instance& instance, const Sequence& ops, const Visit& visit) {
  std::vector<Compute> runs = computes_of(ops);
  for (bool is_over = false; !is_over;) {
    if (modes_hold(instance, runs)) visit(runs);
    is_over = true;
    for (Compute& run : runs) {
      run.mode = (run.mode + 1) % instance.mode_count(run.op);
      is_over = is_over && run.mode == 0;
      if (run.mode > 0) break;
    }
  }
}

std::optional<Duration> least_packed(const Instance& instance, Bytes alignment, const Smallest& smallest) {
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
    for_each_choice(instance, sequence, [&](const std::vector<Compute>& runs) {
      const Evaluation evaluation = evaluate(instance, runs);
      if (evaluation.peak > instance.budget() || (least && evaluation.duration >= *least)) return;
      Schedule schedule{.status = Status::feasible};
      schedule.steps = steps_of(instance, runs);
      const Bytes capacity = instance.budget() - instance.graph().fixed_memory;
      if (smallest(buffers_of(instance.graph(), schedule, alignment).buffers, capacity) <= capacity)
        least = evaluation.duration;
    });
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

/// Compares with brute force; of graphs with modes, if wanted. How many have a schedule, and of how many it is found.
std::pair<int, int> compare_with_every_placement(unsigned seed, int graphs, bool with_modes) {
  std::mt19937 random(seed);
  int equal = 0;
  int found = 0;
  for (int i = 0; i < graphs && !testing::Test::HasFailure(); ++i) {
    auto graph = test::random_graph(random, {.most_ops = with_modes ? 3 : 5, .largest_size = 6});
    if (with_modes) graph = test::with_random_modes(random, *graph, 6);
    const Bytes alignment(std::vector<int>{1, 2, 4}[random() % 3]);
    const Bytes peak = baseline_peak(Instance(graph, {}));
    for (const int below : {-8, -4, 0, 3}) {
      const Instance instance(graph, {.budget = std::max(Bytes(), peak - Bytes(below))});
      const std::optional<Duration> truth =
          least_packed(instance, alignment, [](const auto& buffers, Bytes) { return test::smallest_arena(buffers); });
      const Schedule schedule = solve_placed(instance, alignment);
      SCOPED_TRACE("graph " + std::to_string(i) + ", alignment " + std::to_string(alignment.count()) + ", below " +
                   std::to_string(below));
      EXPECT_TRUE(!schedule.has_schedule() || truth);
      if (!truth) continue;
      EXPECT_NE(schedule.status, Status::infeasible);
      EXPECT_TRUE(schedule.status != Status::optimal || schedule.duration == *truth);
      EXPECT_TRUE(!schedule.has_schedule() || schedule.duration >= *truth);
      ++found;
      equal += schedule.has_schedule() && schedule.duration == *truth ? 1 : 0;
    }
  }
  return {found, equal};
}

TEST(Addresses, WhatIsProvedIsTrueOfEveryScheduleAndEveryPlacement) {
  const auto [found, equal] = compare_with_every_placement(3, fewer(160), false);
  EXPECT_GE(found, fewer(160));
  EXPECT_GE(equal, found * 95 / 100) << found;
}

TEST(Addresses, OfOpsInSeveralModesAreThoseOfBruteForce) {
  const auto [found, equal] = compare_with_every_placement(81, fewer(300), true);
  EXPECT_GE(found, fewer(300));
  EXPECT_GE(equal, found * 95 / 100) << found;
}

TEST(Addresses, LayeredGraphsPackWithinTheirBudget) {
  for (const unsigned seed : {1U}) {
    const auto graph = std::make_shared<const Graph>(generate::generate_layered({.ops = 60, .seed = seed}));
    const Bytes peak = baseline_peak(Instance(graph, {}));
    for (const int percent : {100, 90, 80}) {
      const Instance instance(graph, {.budget = Bytes(peak.count() / 100 * percent)});
      const Schedule schedule = solve_placed(instance, Bytes(64), 8'000);
      ASSERT_TRUE(schedule.has_schedule()) << seed << " " << percent;
      // Not only within the budget: as small as a placement of its own makes it.
      const ScheduleBuffers found = buffers_of(*graph, schedule, Bytes(64));
      EXPECT_LE(schedule.arena->size,
                place(found.buffers, {.work_limit = 1'000, .seed = 1}, [] { return false; }).arena);
    }
  }
}

/// A graph without recompute whose tensors live as these buffers do: op k runs at time k, writes those that begin there and
/// reads those whose last time it is.
std::shared_ptr<const Graph> graph_of(const std::vector<Buffer>& buffers, int times, bool recompute = false) {
  auto graph = std::make_shared<Graph>();
  std::vector<TensorId> tensors;
  tensors.reserve(buffers.size());
  for (const Buffer& buffer : buffers) tensors.push_back(graph->add_tensor(buffer.id, buffer.size));
  for (int k = 0; k < times; ++k) {
    Op op{.name = "op" + std::to_string(k), .duration = Duration(1 + k % 3), .recompute = recompute};
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

/// Buffers of a sum that fits and that do not pack.
std::vector<Buffer> fragmented_buffers(Random& random, int times, std::int64_t bytes) {
  for (int i = 0; i < 20'000; ++i) {
    std::vector<Buffer> buffers = full_buffers(random, times, bytes);
    const PlaceResult smallest = place(buffers, {.capacity = largest_load(buffers), .work_limit = 20'000}, kNever);
    if (smallest.status == PlacementStatus::infeasible) return buffers;
  }
  return {};
}

TEST(Addresses, OfFragmentedProblemsComeByOtherRecomputes) {
  // Every choice of recomputes is placed exactly, by what placement_test.cpp holds against brute force.
  const Smallest exact = [](const std::vector<Buffer>& buffers, Bytes capacity) {
    return place(buffers, {.capacity = capacity}, kNever).status == PlacementStatus::optimal ? capacity : Bytes::max();
  };
  constexpr int kTimes = 7;
  Random random(37);
  int there = 0;
  int found = 0;
  int equal = 0;
  double rounds = 0;
  for (int i = 0; i < fewer(40); ++i) {
    const std::vector<Buffer> buffers = fragmented_buffers(random, kTimes, 10);
    ASSERT_FALSE(buffers.empty());
    const auto graph = graph_of(buffers, kTimes, true);
    for (const int more : {0, 1}) {
      const Instance instance(graph, {.budget = largest_load(buffers) + Bytes(more)});
      const std::optional<Duration> truth = least_packed(instance, Bytes(1), exact);
      const Schedule schedule = solve_placed(instance, Bytes(1), 5'000);
      SCOPED_TRACE("problem " + std::to_string(i) + ", " + std::to_string(more) + " more");
      if (schedule.has_schedule()) {
        ASSERT_TRUE(truth);
        ASSERT_GE(schedule.duration, *truth);
      }
      if (schedule.status == Status::optimal) {
        ASSERT_EQ(schedule.duration, *truth);
      }
      ASSERT_FALSE(schedule.status == Status::infeasible && truth);
      for (const Statistic& statistic : schedule.solver.statistics) {
        if (statistic.name == "address_rounds" && more == 0) rounds += statistic.value;
      }
      there += truth ? 1 : 0;
      found += schedule.has_schedule() ? 1 : 0;
      equal += truth && schedule.has_schedule() && schedule.duration == *truth ? 1 : 0;
    }
  }
  RecordProperty("there", there);
  RecordProperty("found", found);
  RecordProperty("equal", equal);
  // The loop has worked: rounds beyond the first, and what came of them.
  EXPECT_GT(rounds, 2 * fewer(40));
  EXPECT_GE(found, there * 3 / 4) << there;
  EXPECT_GE(equal, there / 2) << there;
}

/// Stops of the caller, told from those by which a search leaves time to place what it found.
TEST(Addresses, SayWhoEndedTheSearch) {
  const auto graph = std::make_shared<const Graph>(generate::generate_layered({.ops = 70, .seed = 3}));
  const Instance instance(graph, {.budget = Bytes(baseline_peak(Instance(graph, {})).count() / 100 * 85)});
  SolveOptions options = test::work_limited(20'000, 1);
  options.period_bound = false;
  const SolveCallbacks told{.enough = [](const Progress& now) { return now.phase == 2; }};
  const Schedule schedule = solve_with_addresses(instance, options, Bytes(1), told);
  EXPECT_EQ(schedule.solver.stop, Stop::callback);
  EXPECT_LT(schedule.solver.work, options.work_limit / 2);
  options.work_limit = 1'000;
  EXPECT_EQ(solve_with_addresses(instance, options, Bytes(1)).solver.stop, Stop::work);
  std::atomic<bool> cancel{false};
  const SolveCallbacks cancelling{.incumbent = [&](const Schedule&) { cancel = true; }, .cancel = &cancel};
  options.work_limit = 20'000;
  EXPECT_EQ(solve_with_addresses(instance, options, Bytes(1), cancelling).solver.stop, Stop::cancelled);
}

TEST(Addresses, AreGivenToAScheduleAsItIs) {
  const auto graph = std::make_shared<const Graph>(generate::generate_layered({.ops = 40, .seed = 3}));
  const Instance instance(graph, {.budget = Bytes(baseline_peak(Instance(graph, {})).count() / 10 * 9)});
  Schedule schedule = solve(instance, test::work_limited(2'000, 1));
  const PlaceResult placed = place_schedule(*graph, schedule, Bytes(1), {.work_limit = 20'000}, kNever);
  EXPECT_EQ(schedule.arena.has_value(), placed.arena <= instance.budget());
  EXPECT_TRUE(verify(*graph, schedule).valid());
  const PlaceResult apart = place_schedule(*graph, schedule, instance.budget(), {.exact = false}, kNever);
  EXPECT_GT(apart.arena, instance.budget());
  EXPECT_FALSE(schedule.arena);
  EXPECT_THROW(place_schedule(*graph, schedule, Bytes(0), {}, kNever), InputError);
  schedule.steps.pop_back();
  EXPECT_THROW(place_schedule(*graph, schedule, Bytes(1), {}, kNever), InputError);
}

TEST(Addresses, AreTheSameForTheSameSeed) {
  const auto graph = std::make_shared<const Graph>(generate::generate_layered({.ops = 40, .seed = 3}));
  const Instance instance(graph, {.budget = Bytes(baseline_peak(Instance(graph, {})).count() / 10 * 9)});
  const Schedule one = solve_placed(instance, Bytes(64), 1'000);
  SolveOptions options = test::work_limited(1'000, 1);
  options.threads = 2;
  const Schedule other = solve_with_addresses(instance, options, Bytes(64));
  EXPECT_TRUE(one.arena);
  EXPECT_EQ(one.steps, other.steps);
  EXPECT_EQ(one.arena, other.arena);
}

TEST(Addresses, OfAGraphWithoutOpsAreNone) {
  auto graph = std::make_shared<Graph>();
  graph->add_tensor("x", Bytes(6));
  const Schedule schedule = solve_placed(Instance(graph, {.budget = Bytes(7)}), Bytes(2), 10);
  EXPECT_EQ(schedule.arena->size, Bytes());
  EXPECT_EQ(solve_placed(Instance(graph, {.budget = Bytes(5)}), Bytes(2), 10).status, Status::infeasible);
}

TEST(Addresses, RefuseSizesThatCannotBeRoundedUp) {
  const auto of_size = [](Bytes size) {
    auto graph = std::make_shared<Graph>();
    const TensorId made = graph->add_tensor("made", size);
    graph->add_op({.name = "make", .duration = Duration(1), .outputs = {made}});
    return Instance(graph, {.budget = Bytes::max()});
  };
  EXPECT_TRUE(solve(of_size(Bytes::max()), test::work_limited(10, 1)).has_schedule());
  EXPECT_THROW(solve_with_addresses(of_size(Bytes::max()), test::work_limited(10, 1), Bytes(5)), InputError);
  EXPECT_TRUE(solve_placed(of_size(Bytes((std::int64_t{1} << 62) - 8)), Bytes(2), 10).has_schedule());
}

TEST(Addresses, RefuseAlignmentsOutOfRange) {
  const Instance instance(test::figure_1(), {});
  EXPECT_THROW(solve_with_addresses(instance, test::work_limited(10, 1), Bytes(0)), InputError);
  EXPECT_THROW(solve_with_addresses(instance, test::work_limited(10, 1), Bytes((std::int64_t{1} << 30) + 1)),
               InputError);
}

}  // namespace
}  // namespace remora
