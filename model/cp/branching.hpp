// SPDX-License-Identifier: Apache-2.0
//
// Branching: which variable to decide next, and how.
//
// Every choice is "value within [first, last]" against "value outside", so one Gecode brancher serves
// all rules. A rule asks, in this order:
//
//   overload     1. A copy that is certain but whose start is open: the incumbent's start if that is wanted and
//                   possible, else the latest (closest to the use it serves). In free order: the copy that can come
//                   next.
//                2. A mode that is open for a certain copy: the incumbent's, else the fastest.
//                3. The event with the worst potential overload: of the undecided ops that can give way there, the one
//                   with the most useful bytes per duration is recomputed between the event and its next use; or it is
//                   not, which makes its retention across the event mandatory.
//                4. No overload left: every undecided copy is absent, which is the cheapest completion.
//                In free order 3 comes before 1: who must give way is known before what comes next.
//   incumbent    The incumbent's value wherever it is still possible, in random order; then as by overload. (Solution-
//                guided search: what a failure undoes first was decided last.)
//   domain_size  The variable with the fewest values left, ties broken at random (first fail): absent if that is
//                possible, else the latest value; a mode: the fastest.
#pragma once

#include <iosfwd>
#include <optional>
#include <vector>

#include <gecode/int.hh>

#include "model/cp/duration.hpp"
#include "model/cp/propagator.hpp"
#include "model/cp/retention_problem.hpp"
#include "model/random.hpp"

namespace remora::cp {

struct Branching {
  BranchingRule rule = BranchingRule::overload;
  /// Try the incumbent's starts and modes first, whatever the rule.
  bool follow_incumbent = false;
  /// 0: none; otherwise scores are multiplied by a random factor in [1 - noise, 1 + noise].
  double noise = 0;
  std::uint64_t seed = 1;
};

/// Why a decision was taken.
enum class Reason { open_start, next_event, open_mode, overload, nothing_overloaded, incumbent, fewest_values };

struct Decision {
  int variable = 0;
  /// The first alternative: a value in [first, last].
  Start first = 0;
  Start last = 0;
  Reason reason = Reason::open_start;
  /// The overloaded event, where that is the reason.
  Moment event{};

  friend std::ostream& operator<<(std::ostream& out, const Decision& decision);
};

/// The decision behind a choice of RetentionBrancher.
const Decision& decision_of(const Gecode::Choice& choice);

/// Takes decisions for one space; a plain value that is copied with it.
class DecisionMaker {
 public:
  explicit DecisionMaker(const Branching& branching) : branching_(branching), random_(branching.seed) {}

  /// Some variable must be unassigned.
  Decision decide(const Views& views, Context& context);

 private:
  using Found = std::optional<Decision>;

  Found by_overload(const Views& views, Context& context);
  Found incumbent_value(const Views& views, const RetentionProblem& problem);
  Found fewest_values(const Views& views, const RetentionProblem& problem);
  [[nodiscard]] Found open_start(const Views& views, const RetentionProblem& problem) const;
  Found next_event(const Views& views, const Context& context);
  [[nodiscard]] Found open_mode(const Views& views, const RetentionProblem& problem) const;
  Found worst_overload(Context& context);
  [[nodiscard]] static Decision recompute_after(const Context& context, FreeId op, const MemoryEvent& event);
  [[nodiscard]] bool follows(const Views& views, const RetentionProblem& problem, int variable) const;
  double with_noise(double score);

  Branching branching_;
  Random random_;
};

/// The Gecode brancher: turns a decision into a choice, "value within [first, last]" against "value
/// outside". It prints why it chose.
class RetentionBrancher : public Gecode::Brancher {
 public:
  static void post(Gecode::Home home, Views& views, Context& context, const Branching& branching);

  [[nodiscard]] bool status(const Gecode::Space& home) const override;
  const Gecode::Choice* choice(Gecode::Space& home) override;
  const Gecode::Choice* choice(const Gecode::Space& home, Gecode::Archive& archive) override;
  Gecode::ExecStatus commit(Gecode::Space& home, const Gecode::Choice& choice, unsigned int alternative) override;
  void print(const Gecode::Space& home, const Gecode::Choice& choice, unsigned int alternative,
             std::ostream& out) const override;
  Gecode::Actor* copy(Gecode::Space& home) override;

 private:
  RetentionBrancher(Gecode::Home home, Views& views, Context& context, const Branching& branching);
  RetentionBrancher(Gecode::Space& home, RetentionBrancher& other);

  Views views_;
  Context* context_;
  DecisionMaker decisions_;
};

}  // namespace remora::cp
