// SPDX-License-Identifier: Apache-2.0
//
// Runs Gecode on a retention problem: build the root, branch and bound, take the best sequence. The whole of Gecode
// stays behind this header.
//
// Each search builds a root of its own, so any number of them may run at once in different threads (clones of one root
// in two threads race in Gecode 6.2). One search belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "model/cp/retention_problem.hpp"

namespace remora::cp {

struct SearchSettings {
  /// Nodes after which the search gives up; 0: none allowed.
  std::int64_t node_limit = INT64_MAX;
  /// Stop at the first sequence within the limits instead of the best one.
  bool first_only = false;
  BranchingRule rule = BranchingRule::overload;
  bool follow_incumbent = false;
  double noise = 0;
  std::uint64_t seed = 1;
  /// Asked at every node; true ends the search. May be empty.
  std::function<bool()> interrupted{};
};

struct SearchOutcome {
  /// The best sequence found, the fixed rest included; nothing if none was found.
  std::optional<std::vector<Compute>> sequence{};
  /// Its duration beyond every op once.
  Duration extra{};
  /// The search space was exhausted: `sequence` is optimal for the problem, or without one there is none.
  bool complete = false;
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
