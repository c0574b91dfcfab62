// SPDX-License-Identifier: Apache-2.0
//
// Spaces of one search beside each other: they share the context, whose profile follows whichever of them asks, and
// whose bound falls for all of them.
#include <optional>

#include <gtest/gtest.h>

#include "model/cp/solve_retention.hpp"
#include "tests/cp/domain_walk.hpp"
#include "tests/cp/model_part.hpp"
#include "tests/cp/oracle_check.hpp"

namespace remora {
namespace {

using cp::Context;
using cp::RetentionProblem;
using cp::RetentionSpace;
using test::Assignment;
using test::Fate;
using test::ModelPart;
using test::Reduction;
using test::SmallProblem;

/// Forced, impossible and costly recompute.
constexpr unsigned kOrderFree = 0b100011;

test::SmallProblemKind random_kind(std::mt19937& random) {
  test::SmallProblemKind kind;
  kind.order = random() % 2 == 0 ? OrderMode::input : OrderMode::free;
  kind.with_modes = random() % 2 == 0;
  kind.neighbourhood = random() % 2 == 0;
  return kind;
}

/// A space and what was done to it: reductions, and propagation where there is none.
struct Walk {
  std::unique_ptr<Gecode::Space> space;
  std::vector<std::optional<Reduction>> trail{};

  void reduce(const Reduction& reduction) {
    trail.emplace_back(reduction);
    test::reduce(*space, reduction);
  }
  Gecode::SpaceStatus propagate() {
    trail.emplace_back(std::nullopt);
    return space->status();
  }
};

void step(std::mt19937& random, std::vector<Walk>& walks) {
  Walk& walk = walks[random() % walks.size()];
  if (walk.space->failed() || test::all_assigned(*walk.space)) return;
  const auto action = random() % 8;
  if (action < 5) {
    walk.reduce(test::random_reduction(random, *walk.space));
  } else if (walk.propagate() != Gecode::SS_FAILED && action == 7 && walks.size() < 4) {
    auto clone = test::clone_of(*walk.space);
    walks.push_back({std::move(clone), walk.trail});
  }
}

/// The walk once more from the root, with no clone and nobody else about.
std::unique_ptr<Gecode::Space> alone(const SmallProblem& small, Context& own, ModelPart part, const Walk& walk) {
  Walk again{test::root_space(small, own, part)};
  for (const auto& done : walk.trail) {
    if (done)
      again.reduce(*done);
    else
      again.propagate();
  }
  return std::move(again.space);
}

TEST(RetentionSpaces, ClonesAndOriginalsInTurnPropagateAsEachDoesAlone) {
  int failed = 0;
  int open = 0;
  for (std::uint32_t seed = 1; seed <= 2500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const SmallProblem small(random, random_kind(random));
    const Bytes capacity = small.draw_capacity(random);
    const Duration bound = random() % 2 == 0 ? small.draw_bound(random, capacity) : Duration::max();
    const auto inferences = test::inferences_from_bits(test::random_switches(random));
    const RetentionProblem problem = small.problem({capacity, bound}, inferences);
    const auto part = random() % 2 == 0 ? ModelPart::whole : static_cast<ModelPart>(random() % 8);
    if (!test::has_part(problem, part)) continue;
    Context shared(problem);
    std::vector<Walk> walks(1);
    walks.front().space = test::root_space(small, shared, part);
    for (int i = 0; i < 30; ++i) step(random, walks);
    for (Walk& walk : walks) {
      walk.propagate();
      Context own(problem);
      ASSERT_EQ(test::domains_of(*walk.space), test::domains_of(*alone(small, own, part, walk)));
      if (walk.space->failed())
        ++failed;
      else if (!test::all_assigned(*walk.space))
        ++open;
    }
  }
  EXPECT_GT(failed, 500);
  EXPECT_GT(open, 500);
}

std::unique_ptr<RetentionSpace> solution_space(Context& context, const Assignment& solution) {
  auto space = std::make_unique<RetentionSpace>(context, cp::Branching{});
  for (std::size_t i = 0; i < solution.values.size(); ++i) {
    test::reduce(*space, {static_cast<int>(i), Gecode::IRT_EQ, solution.values[i]});
  }
  return space;
}

/// Some steps down the tree, with the target in sight.
std::vector<Reduction> descend(std::mt19937& random, RetentionSpace& space, const Assignment& target) {
  std::vector<Reduction> done;
  for (auto steps = random() % 4; steps > 0; --steps) {
    if (space.status() == Gecode::SS_FAILED || test::all_assigned(space)) return done;
    done.push_back(test::random_reduction(random, space, &target));
    test::reduce(space, done.back());
  }
  return done;
}

/// Constrains the space by the solution. Of the assignments it holds, exactly those below the solution's cost stay.
void check_constrained(std::mt19937& random, const SmallProblem& small, const RetentionProblem& bounded,
                       const RetentionSpace& solution, RetentionSpace& space) {
  const auto fates = test::fates(small, bounded, ModelPart::whole);
  std::vector<bool> there;
  for (const Assignment& a : small.assignments()) there.push_back(test::holds(space, a.values));
  space.constrain(solution);
  const bool failed = space.status() == Gecode::SS_FAILED;
  for (std::size_t i = 0; i < fates.size(); ++i) {
    const Assignment& assignment = small.assignments()[i];
    if (!there[i] || fates[i] == Fate::open) continue;
    const bool survived = !failed && test::survives(random, *test::clone_of(space), assignment.values);
    ASSERT_EQ(survived, fates[i] == Fate::kept);
  }
}

/// Under the problem whose limit is the solution's cost, the same steps lead to the same domains.
void check_posted(const RetentionProblem& bounded, const std::vector<Reduction>& done, const RetentionSpace& space) {
  Context context(bounded);
  RetentionSpace posted(context, {});
  for (const Reduction& reduction : done) {
    posted.status();
    test::reduce(posted, reduction);
  }
  posted.status();
  ASSERT_EQ(test::domains_of(space), test::domains_of(posted));
}

TEST(RetentionSpaces, ASolutionBoundsTheOthersAsALimitDoes) {
  int bounded_problems = 0;
  for (std::uint32_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const SmallProblem small(random, random_kind(random));
    const Bytes capacity = small.draw_capacity(random);
    // What dominances, the cover bound and absent copies' modes come to depends on the order of events; the rest does
    // not.
    const bool plain = random() % 2 == 0;
    const unsigned switches = test::random_switches(random) & (plain ? kOrderFree : ~0U);
    const auto inferences = test::inferences_from_bits(switches);
    const RetentionProblem problem = small.problem({capacity}, inferences);
    const auto solutions = test::kept_by(small, problem, ModelPart::whole);
    if (solutions.empty()) continue;
    const Assignment& solution = *solutions[random() % solutions.size()];
    Context context(problem);
    const auto best = solution_space(context, solution);
    ASSERT_EQ(best->status(), Gecode::SS_SOLVED);
    ASSERT_EQ(best->values(), solution.values);
    ASSERT_EQ(best->extra(), solution.extra);

    const RetentionProblem bounded = small.problem({capacity, solution.extra}, inferences);
    RetentionSpace space(context, {});
    const auto done = descend(random, space, *solutions[random() % solutions.size()]);
    check_constrained(random, small, bounded, *best, space);
    ASSERT_EQ(context.extra_below, solution.extra);
    if (plain && problem.variable_count() == problem.copy_count()) check_posted(bounded, done, space);
    if (HasFatalFailure()) return;
    ++bounded_problems;
  }
  EXPECT_GT(bounded_problems, 1000);
}

}  // namespace
}  // namespace remora
