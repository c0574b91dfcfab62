// SPDX-License-Identifier: Apache-2.0
//
// The constraint program of place_banks.hpp, in Gecode: which bank each buffer is in. A variable says which of the buffer's
// choices, the cheapest first. One propagator knows all constraints:
//
//     costs      those of the cheapest choices left stay below the best placement's, also with any one buffer's choice
//     loads      what is in a bank stays within its capacity in every section of time
//     moves      where the buffers whose cheapest bank is this one do not fit there, some of them have to pay for another:
//                at least the fractional knapsack of the section that is the costliest (Dantzig 1957)
//     clashes    buffers that were found not to fit together do not meet in that bank
//     addresses  once nobody else may come into a bank, its buffers are placed
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <gecode/int.hh>

#include "engine/placement/place_banks.hpp"

namespace remora::placement {

/// Data shared by all spaces of one search; used by one thread.
class BankContext {
 public:
  BankContext(const BankProblem& problem, const PlaceSettings& settings, const std::function<bool()>& interrupted);

  /// Sections of time first .. end - 1.
  struct Stretch {
    int first = 0;
    int end = 0;
  };
  struct Variable {
    std::size_t buffer = 0;
    /// The cheapest first.
    std::vector<BankChoice> choices{};
    /// In order and apart: the maximal sections in which it is alive.
    std::vector<Stretch> alive{};

    [[nodiscard]] int sections() const {
      int sum = 0;
      for (const Stretch& stretch : alive) sum += stretch.end - stretch.first;
      return sum;
    }
  };
  /// The ones that are expensive to move, for their bytes and time, first.
  [[nodiscard]] const std::vector<Variable>& variables() const { return variables_; }
  [[nodiscard]] const BankProblem& problem() const { return problem_; }
  [[nodiscard]] int count() const { return static_cast<int>(variables_.size()); }
  [[nodiscard]] int sections() const { return section_count_; }
  [[nodiscard]] std::int64_t size(int variable) const {
    return problem_.buffers[variables_[static_cast<std::size_t>(variable)].buffer].size.count();
  }

  /// True if these variables' buffers fit into the bank together; keeps what it learns.
  bool packs(std::size_t bank, const std::vector<int>& members);
  /// Sets of variables that do not fit into a bank together.
  struct Clash {
    std::size_t bank;
    std::vector<int> members;
  };
  [[nodiscard]] const std::vector<Clash>& clashes() const { return clashes_; }

  /// A choice for every variable, all of whose banks pack.
  void accept(const std::vector<int>& choices);
  /// Tries these choices, whose loads may be too large; whether they pack.
  bool offer(const std::vector<int>& choices);
  [[nodiscard]] const std::vector<int>& best() const { return best_; }
  [[nodiscard]] std::int64_t best_cost() const { return best_cost_; }
  [[nodiscard]] BankPlacement placement() const;

  /// Bound at the root: no placement costs less.
  std::optional<std::int64_t> root_bound{};
  /// A part stayed without an answer since this was last set.
  bool doubtful = false;
  /// The limit or somebody's wish cut the search short.
  bool cut = false;
  std::int64_t node_limit = 0;
  std::int64_t nodes = 0;
  /// Work for each part; what was not settled is asked again after a call.
  void allow_more_work();
  [[nodiscard]] std::int64_t work() const { return nodes + place_work_; }
  /// True if the whole search is to end.
  [[nodiscard]] bool is_over() const;
  bool stopped();

 private:
  struct Verdict {
    PlacementStatus status = PlacementStatus::unknown;
    std::vector<Bytes> offsets{};
  };
  const Verdict& verdict(std::size_t bank, const std::vector<int>& part);
  /// The members in groups that share no time.
  [[nodiscard]] std::vector<std::vector<int>> parts(const std::vector<int>& members) const;
  [[nodiscard]] std::vector<int> members_of(std::size_t bank, const std::vector<int>& choices) const;
  [[nodiscard]] std::int64_t cost(const std::vector<int>& choices) const;

  const BankProblem& problem_;
  const PlaceSettings& settings_;
  const std::function<bool()>& interrupted_;
  std::vector<Variable> variables_;
  int section_count_ = 0;
  std::map<std::pair<std::size_t, std::vector<int>>, Verdict> verdicts_;
  std::vector<Clash> clashes_;
  std::vector<int> best_;
  std::int64_t best_cost_ = INT64_MAX;
  std::int64_t part_work_;
  std::int64_t place_work_ = 0;
};

class BankSpace : public Gecode::Space {
 public:
  /// `given`: choices of some variables, -1 for the others.
  BankSpace(BankContext& context, const std::vector<int>& given);
  BankSpace(BankSpace& other) : Space(other) { choices_.update(*this, other.choices_); }
  Gecode::Space* copy() override { return new BankSpace(*this); }

  [[nodiscard]] std::vector<int> choices() const;

 private:
  Gecode::IntVarArray choices_;
};

/// All placements that cost less than the best, each of which becomes the best; true if none is left.
bool search_banks(BankContext& context, const std::vector<int>& given);

}  // namespace remora::placement
