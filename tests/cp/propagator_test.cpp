// SPDX-License-Identifier: Apache-2.0
//
// Each propagator, and all of them together, against every assignment of small problems, in the manner of Gecode's own
// tests of constraints: assigned in random order with propagation at random moments, and with random pruning. There is
// no search. What each owes to which assignment says model_part.hpp.
#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include <gtest/gtest.h>

#include "tests/cp/domain_walk.hpp"
#include "tests/cp/model_part.hpp"
#include "tests/cp/oracle_check.hpp"
#include "tests/support/fewer.hpp"

namespace remora {
namespace {

using cp::Context;
using cp::RetentionProblem;
using test::Assignment;
using test::Fate;
using test::ModelPart;
using test::SmallProblem;
using test::SmallProblemKind;

/// What was seen, of all problems of a kind.
struct Tally {
  int kept = 0;
  int refused = 0;
  /// Of those that may go, how many did.
  int removed = 0;
};

std::string text_of(const Assignment& assignment) {
  std::ostringstream out;
  out << "values";
  for (const int value : assignment.values) out << ' ' << value;
  return out.str();
}

/// A space of the part: fresh, propagated and cloned, or posted when some variables are already assigned.
std::unique_ptr<Gecode::Space> some_space(std::mt19937& random, const SmallProblem& small, Context& context,
                                          ModelPart part, const std::vector<int>& values) {
  if (part == ModelPart::whole || random() % 2 == 0) {
    auto root = test::root_space(small, context, part);
    if (random() % 2 == 0 || root->status() == Gecode::SS_FAILED) return root;
    return test::clone_of(*root);
  }
  auto space = std::make_unique<test::PartSpace>(small.domains());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (random() % 2 == 0) test::reduce(*space, {static_cast<int>(i), Gecode::IRT_EQ, values[i]});
  }
  space->post(context, part);
  return space;
}

void check_assigned(std::mt19937& random, const SmallProblem& small, const RetentionProblem& problem, ModelPart part,
                    Tally& tally) {
  Context context(problem);
  const auto fates = test::fates(small, problem, part);
  for (std::size_t i = 0; i < fates.size(); ++i) {
    const Assignment& assignment = small.assignments()[i];
    const auto space = some_space(random, small, context, part, assignment.values);
    const bool survived = test::survives(random, *space, assignment.values);
    if (fates[i] == Fate::open) {
      tally.removed += survived ? 0 : 1;
      continue;
    }
    ASSERT_EQ(survived, fates[i] == Fate::kept) << text_of(assignment);
    ++(survived ? tally.kept : tally.refused);
  }
}

/// Propagates; of those that must stay, all that were there before must be there afterwards.
void propagate(Gecode::Space& space, std::vector<const Assignment*>& alive) {
  const auto gone = [&](const Assignment* a) { return !test::holds(space, a->values); };
  alive.erase(std::remove_if(alive.begin(), alive.end(), gone), alive.end());
  space.status();
  for (const Assignment* assignment : alive) {
    ASSERT_TRUE(test::holds(space, assignment->values)) << text_of(*assignment);
  }
}

void prune_randomly(std::mt19937& random, Gecode::Space& space, std::vector<const Assignment*> alive, Tally& tally) {
  // What the root leaves out already must not be missed either.
  for (const Assignment* assignment : alive) {
    ASSERT_TRUE(test::holds(space, assignment->values)) << text_of(*assignment);
  }
  // Pruning at random soon ends in failure: mostly some assignment is spared, to get deeper.
  const Assignment* target = alive.empty() || random() % 3 == 0 ? nullptr : alive[random() % alive.size()];
  while (!space.failed() && !test::all_assigned(space)) {
    test::reduce(space, test::random_reduction(random, space, target));
    if (random() % 3 == 0) propagate(space, alive);
    if (testing::Test::HasFatalFailure()) return;
  }
  propagate(space, alive);
  tally.kept += static_cast<int>(alive.size());
}

void check_pruned(std::mt19937& random, const SmallProblem& small, const RetentionProblem& problem, ModelPart part,
                  Tally& tally) {
  Context context(problem);
  const auto kept = test::kept_by(small, problem, part);
  for (int walk = 0; walk < 6; ++walk) {
    const auto space = test::root_space(small, context, part);
    prune_randomly(random, *space, kept, tally);
    if (testing::Test::HasFatalFailure()) return;
  }
}

/// Of the solutions, one of least cost is among those that are never removed.
void check_optimum(const SmallProblem& small, const RetentionProblem& problem) {
  const auto fates = test::fates(small, problem, ModelPart::whole);
  Duration best = Duration::max();
  Duration best_kept = Duration::max();
  for (std::size_t i = 0; i < fates.size(); ++i) {
    const Duration extra = small.assignments()[i].extra;
    if (fates[i] != Fate::refused) best = std::min(best, extra);
    if (fates[i] == Fate::kept) best_kept = std::min(best_kept, extra);
  }
  ASSERT_EQ(best, best_kept);
}

/// What holds but for its limits are the sequences, each once.
void check_sequences(const SmallProblem& small, const RetentionProblem& problem) {
  std::set<std::vector<std::pair<int, ModeNumber>>> seen;
  for (const Assignment& assignment : small.assignments()) {
    if (!assignment.meaningful() || !assignment.packed || !assignment.plain_absences) continue;
    std::vector<std::pair<int, ModeNumber>> sequence;
    for (const Compute& compute : problem.sequence_with(assignment.values)) {
      sequence.emplace_back(compute.op, compute.mode);
    }
    ASSERT_TRUE(seen.insert(sequence).second) << text_of(assignment);
  }
}

void check_absent_modes(const SmallProblem& small, const RetentionProblem& problem) {
  Context context(problem);
  for (int copy = 0; copy < problem.copy_count(); ++copy) {
    const int variable = problem.mode_variable(cp::CopyId(copy));
    if (variable < 0 || !problem.is_recompute(cp::CopyId(copy))) continue;
    const auto space = test::root_space(small, context, ModelPart::tied_modes);
    test::reduce(*space, {copy, Gecode::IRT_EQ, problem.absent()});
    if (space->status() == Gecode::SS_FAILED) continue;
    ASSERT_TRUE(test::variables_of(*space)[variable].assigned());
    ASSERT_EQ(test::variables_of(*space)[variable].val(), 0);
  }
}

const SmallProblemKind kKinds[] = {
    {.order = OrderMode::input},
    {.order = OrderMode::free, .most_assignments = 20'000},
    {.order = OrderMode::input, .with_modes = true},
    {.order = OrderMode::free, .with_modes = true, .most_ops = 4, .most_assignments = 10'000}};

/// Draws problems of all kinds with several limits each, and checks the part on those that have it.
template <class Check>
Tally for_problems(std::uint32_t first_seed, std::uint32_t problems, ModelPart part, Check check) {
  Tally tally;
  for (std::uint32_t seed = first_seed; seed < first_seed + test::fewer(2 * problems); ++seed) {
    std::mt19937 random(seed);
    SmallProblemKind kind = kKinds[seed % 4];
    kind.neighbourhood = random() % 2 == 0;
    const SmallProblem small(random, kind);
    for (int limits = 0; limits < 3; ++limits) {
      const Bytes capacity = small.draw_capacity(random);
      const bool bounded = part == ModelPart::extra_duration || random() % 2 == 0;
      const Duration bound = bounded ? small.draw_bound(random, capacity) : Duration::max();
      const unsigned switches = test::random_switches(random);
      const RetentionProblem problem = small.problem({capacity, bound}, test::inferences_from_bits(switches));
      if (!test::has_part(problem, part)) continue;
      SCOPED_TRACE("seed " + std::to_string(seed) + ", capacity " + std::to_string(capacity.count()) + ", bound " +
                   std::to_string(bound.count()) + ", switches " + std::to_string(switches));
      check(random, small, problem, tally);
      if (testing::Test::HasFatalFailure()) return tally;
    }
  }
  return tally;
}

class Propagator : public testing::TestWithParam<ModelPart> {};

TEST_P(Propagator, TellsTheAssignmentsThatHoldFromThoseThatDoNot) {
  const ModelPart part = GetParam();
  const std::uint32_t problems =
      part == ModelPart::later_recompute ? 1000 : (part == ModelPart::weighted_computes ? 400 : 150);
  const Tally tally = for_problems(1000, problems, part, [&](auto& random, auto& small, auto& problem, Tally& seen) {
    check_assigned(random, small, problem, part, seen);
  });
  // These two only infer; what recomputes in such small problems can rarely come later.
  const bool only_infers = part == ModelPart::supply || part == ModelPart::later_recompute;
  EXPECT_GT(tally.kept, test::fewer(2000));
  EXPECT_GT(only_infers ? tally.removed : tally.refused, test::fewer(part == ModelPart::later_recompute ? 600 : 2000));
}

TEST_P(Propagator, NeverRemovesWhatMustStayWhenPrunedAtRandom) {
  const ModelPart part = GetParam();
  // Few have weights at all.
  const std::uint32_t problems = part == ModelPart::weighted_computes ? 2000 : 400;
  const Tally tally = for_problems(2000, problems, part, [&](auto& random, auto& small, auto& problem, Tally& seen) {
    check_pruned(random, small, problem, part, seen);
  });
  EXPECT_GT(tally.kept, test::fewer(2000));
}

std::string name_of(const testing::TestParamInfo<ModelPart>& part) {
  const char* const names[] = {"CopyOrder",        "EventsInPlaces",   "TiedModes",
                               "WeightedComputes", "UselessRecompute", "Memory",
                               "ExtraDuration",    "LaterRecompute",   "All"};
  return names[static_cast<int>(part.param)];
}

INSTANTIATE_TEST_SUITE_P(Of, Propagator,
                         testing::Values(ModelPart::copy_order, ModelPart::one_event_a_place, ModelPart::tied_modes,
                                         ModelPart::weighted_computes, ModelPart::supply, ModelPart::memory,
                                         ModelPart::extra_duration, ModelPart::later_recompute, ModelPart::whole),
                         name_of);

TEST(RetentionModel, KeepsASolutionOfLeastCostAmongThoseItNeverRemoves) {
  for_problems(3000, 1000, ModelPart::whole,
               [](auto&, auto& small, auto& problem, Tally&) { check_optimum(small, problem); });
}

TEST(RetentionModel, HasOneAssignmentForEachSequence) {
  for_problems(5000, 200, ModelPart::whole,
               [](auto&, auto& small, auto& problem, Tally&) { check_sequences(small, problem); });
}

TEST(TiedModes, GiveAnAbsentCopyModeZero) {
  for_problems(4000, 400, ModelPart::tied_modes,
               [](auto&, auto& small, auto& problem, Tally&) { check_absent_modes(small, problem); });
}

}  // namespace
}  // namespace remora
