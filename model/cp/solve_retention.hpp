// SPDX-License-Identifier: Apache-2.0
//
// The retention model as a Gecode space, and the search in it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <gecode/int.hh>

#include "model/cp/branching.hpp"
#include "model/cp/propagator.hpp"
#include "model/cp/retention_problem.hpp"

namespace remora::cp {

// The Gecode space of the retention-interval model (Moccasin, section 2), in both its forms.
//
//   paper                         here
//   start s_v^i, active a_v^i     one start variable a copy: when it runs, or absent (RetentionProblem)
//   end e_v^i                     follows: the last use that the copy serves (RetentionProfile)
//   eq. 1   objective             ExtraDuration (duration.hpp)
//   eq. 2,3 intervals in order    CopyOrder (event_order.hpp)
//   eq. 4   memory                Memory (memory.hpp)
//   eq. 5   precedence            supply can be had once first computes follow those of their producers: by numbering
//                                 in the staged form, by rel over first computes in free order (RetentionProblem::
//                                 precedences). What it costs in memory is the profile's mandatory reading; the
//                                 reservoir itself (eq. 10) is not posted
//   eq. 6   events all different  staged: by numbering, (stage, op) belongs to one op; free order: Gecode's
//                                 distinct, and PackedPlaces (event_order.hpp)
//   eq. 7   first copy active     staged: first computes are fixed; free order: their domains hold no absent
//   eq. 8   domains               RetentionProblem::possible_starts; eq. 9 in free order, eq. 11 in the staged form
//   eq. 12, 13  phase 1           PeakWorker (engine/search)
//   modes per op                TiedModes, WeightedComputes (mode_choice.hpp); not in the
//                                 paper
//
// A space holds its variables, its propagators' views of them and the brancher's random state; what is constant and
// what can be recomputed is in the Context. The root and all its clones belong to one thread.

class RetentionSpace : public Gecode::Space {
 public:
  /// The context must outlive the space and all its clones.
  RetentionSpace(Context& context, const Branching& branching);
  RetentionSpace(RetentionSpace& other);

  Gecode::Space* copy() override;

  /// Called by branch and bound with a solution: from now on solutions must cost less. The exact bound goes into the
  /// context; the variable's domain shrinks so that this space's propagators look at it.
  void constrain(const Gecode::Space& best) override;

  /// The context's bound has fallen: this space's propagators look at it when they next run.
  void bound_fell();

  /// In RetentionProblem's numbering.
  [[nodiscard]] const Gecode::IntVarArray& variables() const { return variables_; }
  /// For a solution: the variables' values.
  [[nodiscard]] std::vector<int> values() const;
  /// For a solution: its duration beyond every op once, the fixed rest's share included.
  [[nodiscard]] Duration extra() const;

 private:
  void make_variables();
  void order_events(Views& views);

  Context* context_;
  Gecode::IntVarArray variables_;
  Gecode::IntVar improvements_;
};

// Runs Gecode on a retention problem: build the root, branch and bound, take the best sequence. The whole of Gecode
// stays behind this header.
//
// Each search builds a root of its own, so any number of them may run at once in different threads (clones of one root
// in two threads race in Gecode 6.2). One search belongs to one thread at a time.

struct SearchSettings {
  /// Nodes after which the search gives up; 0: none allowed.
  std::int64_t node_limit = INT64_MAX;
  /// Stop at the first sequence within the limits instead of the best one.
  bool first_only = false;
  /// Learn from failures (nogoods.hpp). A node costs some twenty times as much then, and says more; it pays where
  /// everything is to be looked at. Not on problems with more than kMaxLearning variables.
  bool learn = false;
  BranchingRule rule = BranchingRule::overload;
  bool follow_incumbent = false;
  double noise = 0;
  std::uint64_t seed = 1;
  /// Asked at every node; true ends the search. May be empty.
  std::function<bool()> interrupted{};
};

/// Above this an explanation takes too long.
inline constexpr int kMaxLearning = 1500;

struct SearchOutcome {
  /// The best sequence found, the fixed rest included; nothing if none was found.
  std::optional<std::vector<Compute>> sequence{};
  /// Its duration beyond every op once.
  Duration extra{};
  /// The search space was exhausted: `sequence` is optimal for the problem, or without one there is none.
  bool complete = false;
  /// Spaces that were propagated, those for explanations among them.
  std::int64_t nodes = 0;
  std::int64_t failures = 0;
};

/// A search that can be stopped and taken up again where it was.
class RetentionSearch {
 public:
  /// The problem must outlive the search. `settings.node_limit` is not used here.
  RetentionSearch(const RetentionProblem& problem, const SearchSettings& settings);
  RetentionSearch(const RetentionSearch&) = delete;
  RetentionSearch& operator=(const RetentionSearch&) = delete;
  ~RetentionSearch();

  /// Searches on for at most `nodes` nodes. The outcome counts from the beginning of the search.
  const SearchOutcome& advance(std::int64_t nodes);

  /// From now on only sequences with less extra duration than this are wanted; a bound above the present one is
  /// ignored.
  void require_below(Duration extra);

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

/// One search from beginning to end.
SearchOutcome solve_retention(const RetentionProblem& problem, const SearchSettings& settings);

}  // namespace remora::cp
