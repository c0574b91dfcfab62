// SPDX-License-Identifier: Apache-2.0
//
// The retention profile of random domains against all assignments within them.
#include <sstream>

#include <gtest/gtest.h>

#include "model/cp/retention_profile.hpp"
#include "tests/cp/assignment_truth.hpp"
#include "tests/cp/domain_walk.hpp"
#include "tests/cp/model_part.hpp"

namespace remora {
namespace {

using cp::CopyId;
using cp::Reading;
using cp::RetentionProblem;
using cp::RetentionProfile;
using test::Assignment;
using test::SmallProblem;
using test::SmallProblemKind;
using Domains = std::vector<std::vector<int>>;

constexpr std::uint32_t kProblems = 200;

/// Some of the values, the wanted one among them if there is one.
std::vector<int> random_domain(std::mt19937& random, const std::vector<int>& all, const int* wanted) {
  const auto share = 1 + random() % 4;
  std::vector<int> result;
  for (const int value : all) {
    const bool taken = wanted != nullptr && *wanted == value;
    if (taken || random() % 4 < share) result.push_back(value);
  }
  if (share == 1 && wanted != nullptr) return {*wanted};
  if (result.empty()) result.push_back(all[random() % all.size()]);
  return result;
}

/// A walk over domains: one changes, narrower or wider, or all do.
void change(std::mt19937& random, const SmallProblem& small, Domains& domains) {
  const auto& assignments = small.assignments();
  const Assignment& target = assignments[random() % assignments.size()];
  const bool jump = random() % 5 == 0;
  const auto only = random() % domains.size();
  for (std::size_t i = 0; i < domains.size(); ++i) {
    if (!jump && i != only) continue;
    const int* wanted = jump && target.meaningful() ? &target.values[i] : nullptr;
    domains[i] = random_domain(random, small.domains()[i], wanted);
  }
}

std::string text_of(const RetentionProblem& problem, const RetentionProfile& profile, Reading reading) {
  std::ostringstream out;
  for (const Bytes bytes : profile.memory(reading)) out << bytes.count() << ' ';
  for (std::size_t t = 0; t < problem.touched().size(); ++t) {
    out << "; " << profile.may_give_way(cp::TouchedId(t));
    for (const auto& r : profile.retentions(cp::TouchedId(t), reading)) {
      for (const cp::Anchor& end : {r.from, r.to}) {
        out << " (" << end.moment.major << ' ' << end.moment.minor << ' ' << end.slot << ' ' << end.fixed << ')';
      }
      out << r.certain_compute << ' ' << r.first_use.major << ' ' << r.first_use.minor << ' ' << r.size.count();
    }
  }
  return out.str();
}

std::string assigned_text(RetentionProfile& profile, Reading reading) {
  std::ostringstream out;
  const auto memory = profile.assigned_memory(reading);
  for (std::size_t i = 0; i < profile.assigned().size(); ++i) {
    const auto& event = profile.assigned()[i];
    out << event.moment.major << ' ' << event.moment.minor << ' ' << event.slot << ' ' << event.copy << ": "
        << memory[i].count() << "; ";
  }
  return out.str();
}

/// Compares the reading's memory with that of a sequence: it is at most that, or is that.
void compare(const RetentionProblem& problem, RetentionProfile& profile, Reading reading, const Assignment& assignment,
             bool exactly) {
  const auto& values = assignment.values;
  const auto at = [&](cp::Moment moment) { return assignment.memory[test::step_at(problem, values, moment)]; };
  const auto check = [&](Bytes here, cp::Moment moment) {
    ASSERT_LE(here, at(moment)) << "at " << moment.major << ", " << moment.minor;
    ASSERT_TRUE(!exactly || here == at(moment)) << "at " << moment.major << ", " << moment.minor;
  };
  const auto memory = profile.memory(reading);
  for (int slot = 1; slot < problem.slot_count(); slot += 2) {
    check(memory[static_cast<std::size_t>(slot)], problem.moment(slot));
  }
  const auto assigned = profile.assigned();
  const auto assigned_memory = profile.assigned_memory(reading);
  for (std::size_t i = 0; i < assigned.size(); ++i) check(assigned_memory[i], assigned[i].moment);
  // What a slot between fixed events counts is there at every event of the gap.
  for (int c = 0; c < problem.copy_count(); ++c) {
    const int start = values[static_cast<std::size_t>(c)];
    if (start == problem.absent()) continue;
    const cp::FreeOp& free = problem.free_ops()[problem.owner(CopyId(c))];
    // An inner peak's workspace may be negative.
    if (free.has_inner) continue;
    const int slot = problem.gap_slot(start, free.op);
    ASSERT_LE(memory[static_cast<std::size_t>(slot)], at(test::moment_of_copy(problem, values, CopyId(c))));
  }
}

/// The domains with every undecided copy absent, if that leaves nothing open that matters.
bool without_undecided(const RetentionProblem& problem, const Domains& domains, std::vector<int>& values) {
  values.clear();
  for (std::size_t i = 0; i < domains.size(); ++i) {
    const bool start = i < static_cast<std::size_t>(problem.copy_count());
    const bool undecided = start && domains[i].back() == problem.absent();
    const bool idle = !start && values[problem.mode_copy(static_cast<int>(i))] == problem.absent();
    if (!undecided && !idle && domains[i].size() > 1) return false;
    values.push_back(undecided ? problem.absent() : idle ? 0 : domains[i].front());
  }
  return true;
}

struct ProfileTally {
  int bounded = 0;
  int exact = 0;
  int potential = 0;
};

/// The profile that has been on a walk is the one that the domains alone give.
void check_refreshed(const RetentionProblem& problem, const cp::Views& views, RetentionProfile& profile) {
  profile.refresh(views);
  RetentionProfile fresh(problem);
  fresh.refresh(views);
  for (const Reading reading : {Reading::mandatory, Reading::potential}) {
    ASSERT_EQ(text_of(problem, profile, reading), text_of(problem, fresh, reading));
    ASSERT_EQ(assigned_text(profile, reading), assigned_text(fresh, reading));
  }
}

void check_readings(RetentionProfile& profile) {
  const auto check = [](std::span<const Bytes> mandatory, std::span<const Bytes> potential) {
    ASSERT_EQ(mandatory.size(), potential.size());
    for (std::size_t i = 0; i < mandatory.size(); ++i) ASSERT_LE(mandatory[i], potential[i]) << "at " << i;
  };
  check(profile.memory(Reading::mandatory), profile.memory(Reading::potential));
  check(profile.assigned_memory(Reading::mandatory), profile.assigned_memory(Reading::potential));
}

void check_profile(const SmallProblem& small, const RetentionProblem& problem, const Domains& domains,
                   RetentionProfile& profile, ProfileTally& tally) {
  test::PartSpace space(domains);
  check_refreshed(problem, space.views(), profile);
  const bool all = test::all_assigned(space);
  bool any = false;
  for (const Assignment& assignment : small.assignments()) {
    if (!assignment.meaningful() || !test::holds(space, assignment.values)) continue;
    compare(problem, profile, Reading::mandatory, assignment, all);
    any = true;
    ++(all ? tally.exact : tally.bounded);
  }
  // Where no sequence is left, a use may have possible servers without a certain one.
  if (any) check_readings(profile);
  std::vector<int> values;
  if (!without_undecided(problem, domains, values)) return;
  for (const Assignment& assignment : small.assignments()) {
    if (!assignment.meaningful() || assignment.values != values) continue;
    compare(problem, profile, Reading::potential, assignment, true);
    ++tally.potential;
  }
}

ProfileTally check_profiles(std::uint32_t first_seed, const SmallProblemKind& kind) {
  ProfileTally tally;
  for (std::uint32_t seed = first_seed; seed < first_seed + kProblems; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    SmallProblemKind drawn = kind;
    drawn.neighbourhood = random() % 2 == 0;
    const SmallProblem small(random, drawn);
    const RetentionProblem problem = small.problem({Bytes::max()});
    RetentionProfile profile(problem);
    Domains domains = small.domains();
    for (int i = 0; i < 25; ++i) {
      check_profile(small, problem, domains, profile, tally);
      if (testing::Test::HasFatalFailure()) return tally;
      change(random, small, domains);
    }
  }
  return tally;
}

void expect_much_seen(const ProfileTally& tally) {
  EXPECT_GT(tally.bounded, 1000);
  EXPECT_GT(tally.exact, 100);
  EXPECT_GT(tally.potential, 100);
}

TEST(RetentionProfile, IsALowerBoundAndInTheEndExactInTheStagedForm) {
  expect_much_seen(check_profiles(1000, {.order = OrderMode::input}));
}

TEST(RetentionProfile, IsALowerBoundAndInTheEndExactInFreeOrder) {
  expect_much_seen(check_profiles(2000, {.order = OrderMode::free}));
}

TEST(RetentionProfile, IsALowerBoundAndInTheEndExactInTheStagedFormWithModes) {
  expect_much_seen(check_profiles(3000, {.order = OrderMode::input, .with_modes = true}));
}

TEST(RetentionProfile, IsALowerBoundAndInTheEndExactInFreeOrderWithModes) {
  expect_much_seen(check_profiles(4000, {.order = OrderMode::free, .with_modes = true, .most_ops = 4}));
}

}  // namespace
}  // namespace remora
