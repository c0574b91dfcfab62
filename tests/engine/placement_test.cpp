// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/placement/heuristics.hpp"
#include "engine/placement/part.hpp"
#include "engine/placement/part_search.hpp"
#include "engine/placement/place.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/interchange.hpp"
#include "model/error.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/placement_oracle.hpp"

namespace remora {
namespace {

using test::fewer;
using test::random_buffers;
using test::smallest_arena;
using test::text_of;

const std::function<bool()> kNoDeadline = [] { return false; };

Buffer buffer(const std::string& id, std::int64_t lower, std::int64_t upper, std::int64_t size) {
  return {.id = id, .lifespan = {lower, upper}, .size = Bytes(size)};
}

/// Everything in a problem times so much, and later.
std::vector<Buffer> scaled(std::vector<Buffer> buffers, std::int64_t factor, std::int64_t later) {
  for (Buffer& b : buffers) {
    b.size = Bytes(b.size.count() * factor);
    b.alignment = Bytes(b.alignment.count() * factor);
    if (b.offset) b.offset = Bytes(b.offset->count() * factor);
    b.lifespan = {b.lifespan.lower + later, b.lifespan.upper + later};
    for (Lifespan& gap : b.gaps) gap = {gap.lower + later, gap.upper + later};
  }
  return buffers;
}

/// The answer, whose offsets are valid whatever it is.
PlaceResult checked(const std::vector<Buffer>& buffers, const PlaceSettings& settings) {
  PlaceResult result = place(buffers, settings, kNoDeadline);
  if (!result.offsets.empty()) {
    EXPECT_EQ(placement_fault(buffers, result.offsets), "");
    EXPECT_EQ(arena_of(buffers, result.offsets), result.arena);
    EXPECT_LE(result.lower_bound, result.arena);
  }
  EXPECT_GE(result.lower_bound, largest_load(buffers));
  return result;
}

TEST(Placement, SmallestArenaIsThatOfBruteForce) {
  constexpr int kCases = 20'000;
  Random random(23);
  int above_load = 0;
  int clashes = 0;
  for (int i = 0; i < fewer(kCases); ++i) {
    const std::vector<Buffer> buffers = random_buffers(random);
    const Bytes truth = smallest_arena(buffers);
    SCOPED_TRACE("case " + std::to_string(i) + "\n" + text_of(buffers));
    const PlaceResult result = checked(buffers, {});
    if (truth == Bytes::max()) {
      ASSERT_EQ(result.status, PlacementStatus::infeasible);
      ++clashes;
      continue;
    }
    ASSERT_EQ(result.status, PlacementStatus::optimal);
    ASSERT_EQ(result.arena, truth);
    ASSERT_EQ(result.lower_bound, truth);
    above_load += truth > largest_load(buffers) ? 1 : 0;
  }
  EXPECT_GE(above_load, fewer(kCases) / 10) << "else the load alone says it";
  EXPECT_GE(clashes, fewer(kCases) / 100);
}

TEST(Placement, CapacityHoldsAPlacementIfBruteForceFindsOne) {
  constexpr int kCases = 2'000;
  Random random(5);
  for (int i = 0; i < fewer(kCases); ++i) {
    const std::vector<Buffer> buffers = random_buffers(random);
    const Bytes truth = smallest_arena(buffers);
    if (truth == Bytes::max()) continue;
    SCOPED_TRACE("case " + std::to_string(i) + "\n" + text_of(buffers));
    ASSERT_EQ(checked(buffers, {.capacity = truth}).status, PlacementStatus::optimal);
    if (truth == Bytes()) continue;
    const PlaceResult result = checked(buffers, {.capacity = truth - Bytes(1)});
    ASSERT_EQ(result.status, PlacementStatus::infeasible);
    ASSERT_EQ(result.lower_bound, truth);
  }
}

TEST(Placement, LargeGrainsChangeNothing) {
  // 2^40 and more, beyond Gecode's integers.
  constexpr std::int64_t kUnit = (std::int64_t{1} << 40) + 8;
  Random random(7);
  for (int i = 0; i < fewer(2'000); ++i) {
    const std::vector<Buffer> buffers = random_buffers(random);
    const Bytes truth = smallest_arena(buffers);
    if (truth == Bytes::max()) continue;
    SCOPED_TRACE("case " + std::to_string(i) + "\n" + text_of(buffers));
    const PlaceResult result = checked(scaled(buffers, kUnit, -1'000'000'000'000), {});
    ASSERT_EQ(result.status, PlacementStatus::optimal);
    ASSERT_EQ(result.arena, Bytes(truth.count() * kUnit));
  }
}

TEST(Placement, NoInferenceChangesWhatACapacityHolds) {
  using Switch = bool placement::StackInferences::*;
  using placement::StackInferences;
  const std::vector<Switch> switches{&StackInferences::supports, &StackInferences::blockers, &StackInferences::orders,
                                     &StackInferences::sections, &StackInferences::first,    &StackInferences::floors,
                                     &StackInferences::hanging,  &StackInferences::twins,    &StackInferences::gaps,
                                     &StackInferences::decompose};
  // Of a few buffers the last two save nothing: the next tests.
  constexpr std::size_t kOfFew = 8;
  Random random(11);
  std::vector<std::int64_t> nodes(switches.size());
  std::int64_t all = 0;
  int turned_over = 0;
  for (int i = 0; i < fewer(4'000); ++i) {
    const std::vector<Buffer> buffers = random_buffers(random);
    const Bytes truth = smallest_arena(buffers);
    if (truth == Bytes::max()) continue;
    for (const placement::Part& part : placement::parts_of(buffers)) {
      const auto overlaps = placement::overlaps_of(part);
      const auto problem = placement::stack_problem(part, overlaps, truth - Bytes(i % 2));
      ASSERT_TRUE(problem);
      placement::StackSettings settings{.order = placement::order_by(part, {placement::Key::area})};
      const placement::StackOutcome with = placement::search_stack(*problem, settings);
      ASSERT_NE(with.offsets.empty(), !with.complete);
      all += with.nodes;
      const auto turned = placement::upside_down(*problem, part, truth - Bytes(i % 2));
      placement::StackSettings tightest = settings;
      tightest.branching = placement::Branching::tightest;
      ASSERT_EQ(placement::search_stack(turned.value_or(*problem), tightest).complete, with.complete)
          << text_of(buffers);
      turned_over += turned ? 1 : 0;
      for (std::size_t s = 0; s < switches.size(); ++s) {
        settings.inferences = {};
        settings.inferences.*switches[s] = false;
        const placement::StackOutcome without = placement::search_stack(*problem, settings);
        SCOPED_TRACE("switch " + std::to_string(s) + ", case " + std::to_string(i) + "\n" + text_of(buffers));
        ASSERT_EQ(without.complete, with.complete);
        nodes[s] += without.nodes;
      }
    }
  }
  for (std::size_t s = 0; s < kOfFew; ++s) EXPECT_GT(nodes[s], all) << "switch " << s;
  EXPECT_GT(turned_over, 0);
}

TEST(Placement, WhatFillsTheGapsBetweenFixedBuffersSavesNodes) {
  Random random(41);
  std::int64_t with = 0;
  std::int64_t without = 0;
  for (int i = 0; i < 20; ++i) {
    const std::vector<Buffer> buffers = test::cut_buffers(random, 60, 12, 400, 4096);
    for (const placement::Part& part : placement::parts_of(buffers)) {
      const auto problem = placement::stack_problem(part, placement::overlaps_of(part), Bytes(4096));
      placement::StackSettings settings{.order = placement::order_by(part, {placement::Key::life}),
                                        .node_limit = 2'000};
      with += placement::search_stack(*problem, settings).nodes;
      settings.inferences.gaps = false;
      without += placement::search_stack(*problem, settings).nodes;
    }
  }
  EXPECT_LT(with, without);
}

TEST(Placement, FixedBuffersInATightArenaAreSettled) {
  Random random(31);
  const int cases = fewer(2'000);
  int settled = 0;
  for (int i = 0; i < cases; ++i) {
    const int count = 20 + 20 * static_cast<int>(random.below(5));
    const int fixed = 1 + static_cast<int>(random.below(static_cast<std::size_t>(count) / 4));
    const std::vector<Buffer> buffers = test::cut_buffers(random, count, fixed, 400, 4096);
    const PlaceResult result = checked(buffers, {.capacity = Bytes(4096), .work_limit = 20'000});
    EXPECT_NE(result.status, PlacementStatus::infeasible) << text_of(buffers);
    settled += result.status == PlacementStatus::optimal ? 1 : 0;
  }
  EXPECT_GE(settled, cases * 95 / 100);
}

TEST(Placement, AFixedBufferLeavesTheRoomBelowItToOthers) {
  // The heuristics alone: 4,000 bytes under a fixed buffer hold what does not live longer than it.
  std::vector<Buffer> buffers{buffer("fixed", 0, 10, 96)};
  buffers.front().offset = Bytes(4000);
  for (int i = 0; i < 10; ++i) buffers.push_back(buffer("b" + std::to_string(i), 0, 10, 400));
  const PlaceResult result = checked(buffers, {.exact = false});
  EXPECT_EQ(result.status, PlacementStatus::optimal);
  EXPECT_EQ(result.arena, Bytes(4096));
}

TEST(Placement, IsNoWorseWithACapacityThanWithout) {
  // With the same work it finds the same, until it fits.
  Random random(37);
  int fits = 0;
  int does_not = 0;
  int proved = 0;
  for (int i = 0; i < fewer(2'000); ++i) {
    const int count = 2 + static_cast<int>(random.below(i % 20 == 0 ? 100 : 30));
    std::vector<Buffer> buffers = i % 2 == 0
                                      ? test::cut_buffers(random, count, count / 8, 60, 500)
                                      : random_buffers(random, {.most_buffers = 30, .times = 30, .most_size = 50});
    if (i % 4 == 0) {
      // Two parts that have to agree.
      const std::vector<Buffer> others = scaled(random_buffers(random, {.most_size = 60, .fixed = false}), 1, 1000);
      buffers.insert(buffers.end(), others.begin(), others.end());
    }
    const auto work = static_cast<std::int64_t>(1 + random.below(4'000));
    const int threads = 1 + i % 2;
    const PlaceResult free = checked(buffers, {.work_limit = work, .threads = threads});
    if (free.offsets.empty()) continue;
    const std::int64_t load = largest_load(buffers).count();
    const auto room = static_cast<std::size_t>(2 + (free.arena.count() - load) * 5 / 4);
    const Bytes capacity(load - 1 + static_cast<std::int64_t>(random.below(room)));
    const PlaceResult result = checked(buffers, {.capacity = capacity, .work_limit = work, .threads = threads});
    SCOPED_TRACE("case " + std::to_string(i) + ", capacity " + std::to_string(capacity.count()) + "\n" +
                 text_of(buffers));
    if (free.arena <= capacity) {
      ASSERT_EQ(result.status, PlacementStatus::optimal);
      ASSERT_LE(result.arena, capacity);
      ++fits;
    } else if (free.lower_bound > capacity) {
      ASSERT_EQ(result.status, PlacementStatus::infeasible);
      ++proved;
    } else {
      ASSERT_EQ(result.status, PlacementStatus::unknown);
      ASSERT_LE(result.arena, free.arena);
      ASSERT_GE(result.lower_bound, free.lower_bound);
      ++does_not;
    }
  }
  EXPECT_GT(fits, 0);
  EXPECT_GT(does_not, 0);
  EXPECT_GT(proved, 0);
}

TEST(Placement, SeparatedGroupsAreSearchedApart) {
  // Two crowds on one plank: without it they would be parts.
  Random random(29);
  std::int64_t with = 0;
  std::int64_t without = 0;
  for (int i = 0; i < 60; ++i) {
    const test::BufferShape shape{.most_size = 5, .gaps = false, .fixed = false};
    std::vector<Buffer> buffers = random_buffers(random, shape);
    const std::vector<Buffer> others = scaled(random_buffers(random, shape), 1, 8);
    buffers.insert(buffers.end(), others.begin(), others.end());
    buffers.push_back(buffer("plank", 0, 16, 12));
    const PlaceResult smallest = checked(buffers, {.work_limit = 20'000});
    if (smallest.status != PlacementStatus::optimal) continue;
    for (const placement::Part& part : placement::parts_of(buffers)) {
      const auto problem = placement::stack_problem(part, placement::overlaps_of(part), smallest.arena - Bytes(1));
      placement::StackSettings settings{.order = placement::order_by(part, {placement::Key::life}),
                                        .node_limit = 10'000};
      const placement::StackOutcome apart = placement::search_stack(*problem, settings);
      EXPECT_TRUE(apart.offsets.empty());
      settings.inferences.decompose = false;
      const placement::StackOutcome together = placement::search_stack(*problem, settings);
      EXPECT_TRUE(together.offsets.empty());
      with += apart.nodes;
      without += together.nodes;
    }
  }
  EXPECT_GT(without, with);
}

/// No two items whose lives overlap share a byte, and what is fixed lies where it is.
void expect_apart(const placement::Part& part, const std::vector<placement::Grains>& offsets) {
  const std::vector<std::vector<int>> overlaps = placement::overlaps_of(part);
  for (int i = 0; i < part.count(); ++i) {
    const auto end_of = [&](int item) { return offsets[at(item)] + part.items[at(item)].size; };
    if (part.items[at(i)].is_fixed()) {
      EXPECT_EQ(offsets[at(i)], part.items[at(i)].fixed);
    }
    for (const int other : overlaps[at(i)]) {
      EXPECT_TRUE(end_of(i) <= offsets[at(other)] || end_of(other) <= offsets[at(i)]);
    }
  }
}

TEST(Placement, HeuristicsGiveValidPlacements) {
  Random random(13);
  for (int i = 0; i < fewer(2'000); ++i) {
    const std::vector<Buffer> buffers = random_buffers(random, {.most_buffers = 60, .times = 30});
    const PlaceResult result = checked(buffers, {.exact = false});
    if (result.status == PlacementStatus::infeasible) {
      EXPECT_EQ(result.lower_bound, Bytes::max());
      continue;
    }
    ASSERT_FALSE(result.offsets.empty());
    for (const placement::Part& part : placement::parts_of(buffers)) {
      for (const auto choice : {placement::Choice::longest, placement::Choice::largest}) {
        const auto offsets = placement::valley_fit(part, placement::worth_by(part, choice), kNoDeadline);
        ASSERT_TRUE(offsets);
        EXPECT_GE(part.arena(*offsets), part.lower_bound);
        expect_apart(part, *offsets);
      }
      expect_apart(part, placement::pile(part));
    }
  }
}

TEST(Placement, NestedLivesStackWithoutLoss) {
  std::vector<Buffer> buffers;
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    buffers.push_back(buffer("n" + std::to_string(i), i, 1000 - i, static_cast<std::int64_t>(1 + random.below(1000))));
  }
  const PlaceResult result = checked(buffers, {.exact = false});
  EXPECT_EQ(result.status, PlacementStatus::optimal);
  EXPECT_EQ(result.arena, largest_load(buffers));
}

TEST(Placement, IsTheSameForEveryNumberOfThreads) {
  Random random(17);
  for (int i = 0; i < 5; ++i) {
    const std::vector<Buffer> buffers =
        random_buffers(random, {.most_buffers = 80, .times = 40, .most_size = 100, .fixed = false});
    PlaceSettings settings{.work_limit = 20'000};
    const PlaceResult alone = checked(buffers, settings);
    settings.threads = 4;
    const PlaceResult together = checked(buffers, settings);
    EXPECT_EQ(alone.offsets, together.offsets);
    EXPECT_EQ(alone.lower_bound, together.lower_bound);
    EXPECT_EQ(alone.work, together.work);
  }
}

TEST(Placement, AWorkLimitHoldsFromTheFirstPlacementOn) {
  Random random(29);
  std::vector<Buffer> buffers;
  for (int i = 0; i < 400; ++i) {
    const auto first = static_cast<std::int64_t>(random.below(100));
    const auto end = first + 1 + static_cast<std::int64_t>(random.below(30));
    buffers.push_back(buffer("n" + std::to_string(i), first, end, 1 + static_cast<std::int64_t>(random.below(1000))));
  }
  const PlaceResult one = checked(buffers, {.work_limit = 1});
  EXPECT_EQ(one.status, PlacementStatus::feasible);
  // One placement of all buffers.
  EXPECT_LT(one.work, static_cast<std::int64_t>(buffers.size()));
  const PlaceResult many = checked(buffers, {.work_limit = 5'000});
  EXPECT_GT(many.work, 10 * one.work);
  EXPECT_LT(many.arena, one.arena);
}

TEST(Placement, StopsAtOnceWithAPlacement) {
  Random random(19);
  const std::vector<Buffer> buffers =
      random_buffers(random, {.most_buffers = 400, .times = 100, .most_size = 1000, .fixed = false});
  const PlaceResult result = place(buffers, {}, [] { return true; });
  EXPECT_EQ(placement_fault(buffers, result.offsets), "");
  EXPECT_FALSE(result.offsets.empty());
}

TEST(Placement, ACapacityBeyondAllArenasIsOne) {
  const PlaceResult result = checked({buffer("a", 0, 2, 3), buffer("b", 1, 3, 4)}, {.capacity = Bytes::max()});
  EXPECT_EQ(result.status, PlacementStatus::optimal);
  EXPECT_EQ(result.offsets.size(), 2U);
}

TEST(Placement, OfNothingIsNothing) {
  const PlaceResult result = checked({}, {});
  EXPECT_EQ(result.status, PlacementStatus::optimal);
  EXPECT_EQ(result.arena, Bytes());
  const std::vector<Buffer> empty{buffer("a", 3, 3, 7), buffer("b", 0, 4, 0)};
  EXPECT_EQ(checked(empty, {.capacity = Bytes()}).status, PlacementStatus::optimal);
}

TEST(Placement, OnlyTheHighestEndIsNotRounded) {
  std::vector<Buffer> buffers{buffer("a", 0, 1, 60), buffer("b", 0, 1, 30)};
  for (Buffer& b : buffers) b.alignment = Bytes(64);
  const PlaceResult result = checked(buffers, {});
  EXPECT_EQ(result.arena, Bytes(94));
  EXPECT_EQ(result.status, PlacementStatus::optimal);
}

TEST(Placement, MinimallocsChallengingProblemsFitTheirCapacity) {
  const std::filesystem::path folder = REMORA_SHARED_DIR "/buffers";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  int problems = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".csv") continue;
    const std::string path = entry.path().string();
    const std::vector<Buffer> buffers = interchange::read_buffers(json::read_file(path), path);
    EXPECT_EQ(checked(buffers, {.capacity = Bytes(1048576), .work_limit = 500'000}).status, PlacementStatus::optimal)
        << path;
    ++problems;
  }
  EXPECT_GE(problems, 6);
}

}  // namespace
}  // namespace remora
