// SPDX-License-Identifier: Apache-2.0
//
// The brancher at the nodes of random walks down the search tree.
#include <sstream>

#include <gtest/gtest.h>

#include "model/cp/branching.hpp"
#include "model/cp/solve_retention.hpp"
#include "tests/cp/domain_walk.hpp"
#include "tests/cp/oracle_check.hpp"

namespace remora {
namespace {

using cp::RetentionProblem;
using cp::RetentionSpace;
using test::SmallProblem;
using test::SmallProblemKind;

std::string text_of(const Gecode::Space& space, const Gecode::Choice& choice, unsigned alternative) {
  std::ostringstream out;
  space.print(choice, alternative, out);
  return out.str();
}

struct Printed {
  std::string word{};
  int variable = -1;
  int first = 0;
  int last = 0;
  std::string reason{};
};

/// Reads "yes: variable 3 in 2..5: why".
Printed parse(const std::string& text) {
  Printed result;
  std::string skipped;
  std::istringstream in(text);
  in >> result.word >> skipped >> result.variable >> skipped >> result.first;
  in.ignore(2);
  in >> result.last;
  in.ignore(2);
  std::getline(in, result.reason);
  return result;
}

/// The two alternatives share the variable's values between them, and neither gets all or none.
void check_split(RetentionSpace& space, const Gecode::Choice& choice) {
  const Printed yes = parse(text_of(space, choice, 0));
  const Printed no = parse(text_of(space, choice, 1));
  ASSERT_EQ(yes.word, "yes:");
  ASSERT_EQ(no.word, "no:");
  ASSERT_EQ(yes.reason, no.reason);
  ASSERT_FALSE(yes.reason.empty());
  const auto& x = test::variables_of(space);
  ASSERT_TRUE(yes.variable >= 0 && yes.variable < x.size());
  ASSERT_FALSE(x[yes.variable].assigned());
  const auto taken = test::clone_of(space);
  const auto left = test::clone_of(space);
  taken->commit(choice, 0);
  left->commit(choice, 1);
  ASSERT_FALSE(taken->failed() || left->failed()) << text_of(space, choice, 0);
  const Gecode::IntVar& here = test::variables_of(*taken)[yes.variable];
  const Gecode::IntVar& rest = test::variables_of(*left)[yes.variable];
  ASSERT_EQ(here.size() + rest.size(), x[yes.variable].size());
  for (Gecode::IntVarValues value(x[yes.variable]); value(); ++value) {
    const bool within = value.val() >= yes.first && value.val() <= yes.last;
    ASSERT_EQ(here.in(value.val()), within);
    ASSERT_EQ(rest.in(value.val()), !within);
  }
}

/// Put into an archive and taken out again, in another space, the choice is what it was.
void check_archive(RetentionSpace& space, const Gecode::Choice& choice) {
  Gecode::Archive archive;
  choice.archive(archive);
  const auto other = test::clone_of(space);
  const std::unique_ptr<const Gecode::Choice> copy(other->choice(archive));
  Gecode::Archive again;
  copy->archive(again);
  ASSERT_EQ(again.size(), archive.size());
  for (int i = 0; i < archive.size(); ++i) ASSERT_EQ(again[i], archive[i]);
  for (unsigned alternative = 0; alternative < 2; ++alternative) {
    ASSERT_EQ(text_of(*other, *copy, alternative), text_of(space, choice, alternative));
    const auto by_choice = test::clone_of(space);
    const auto by_copy = test::clone_of(space);
    by_choice->commit(choice, alternative);
    by_copy->commit(*copy, alternative);
    ASSERT_EQ(test::domains_of(*by_choice), test::domains_of(*by_copy));
  }
}

/// Down to a leaf or a failure; says how many choices it met.
int walk_down(std::mt19937& random, RetentionSpace& space) {
  int choices = 0;
  while (!testing::Test::HasFatalFailure() && space.status() == Gecode::SS_BRANCH) {
    const std::unique_ptr<const Gecode::Choice> choice(space.choice());
    check_split(space, *choice);
    check_archive(space, *choice);
    // Now and then something else happens that no choice asked for.
    if (random() % 4 == 0)
      test::reduce(space, test::random_reduction(random, space));
    else
      space.commit(*choice, static_cast<unsigned>(random() % 2));
    ++choices;
  }
  return choices;
}

class Brancher : public testing::TestWithParam<cp::BranchingRule> {};

TEST_P(Brancher, SplitsADomainExplainsItselfAndSurvivesAnArchive) {
  int choices = 0;
  for (std::uint32_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    SmallProblemKind kind;
    kind.order = random() % 2 == 0 ? OrderMode::input : OrderMode::free;
    kind.with_modes = random() % 2 == 0;
    kind.neighbourhood = random() % 2 == 0;
    const SmallProblem small(random, kind);
    const auto inferences = test::inferences_from_bits(test::random_switches(random));
    const RetentionProblem problem = small.problem({small.draw_capacity(random)}, inferences);
    cp::Context context(problem);
    RetentionSpace space(context, {GetParam(), random() % 2 == 0, random() % 2 == 0 ? 0.5 : 0.0, seed});
    choices += walk_down(random, space);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(space.failed() || test::all_assigned(space));
  }
  EXPECT_GT(choices, 1000);
}

INSTANTIATE_TEST_SUITE_P(Rules, Brancher,
                         testing::Values(cp::BranchingRule::overload, cp::BranchingRule::incumbent,
                                         cp::BranchingRule::domain_size));

}  // namespace
}  // namespace remora
