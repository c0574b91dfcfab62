// SPDX-License-Identifier: Apache-2.0
//
// The search for a placement of one part (part.hpp), by two means: local search on orders, and a constraint program, all of
// whose Gecode stays in stack_space.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/placement/heuristics.hpp"
#include "engine/placement/part.hpp"
#include "model/random.hpp"

namespace remora::placement {

/// Inferences of the constraint program; each can be switched off, and none changes which capacities hold a placement.
struct StackInferences {
  bool supports = true;  ///< an item that floats rests on one that is still to come
  bool blockers = true;  ///< and one of these lies where it would otherwise sink to
  bool orders = true;    ///< of two items one lies above the other, if the other way there is no room
  bool sections = true;  ///< what is still to come in a section has room above its floor
  bool first = true;     ///< an item that alone can come first in a section does
  bool floors = true;    ///< items cover the floor where a section has no room to leave
  bool hanging = true;   ///< the same as sections, from the lowest start up; where items are fixed
  bool gaps = true;      ///< some of the items add up to what is between two fixed ones, but for the room to leave
  bool twins =
      true;  ///< of two items with the same life the order where they touch, and of equal ones the order, is given
  bool decompose = true;  ///< items that what is placed separates are searched apart
};

/// A part and a capacity for the constraint program (stack_space.hpp): grains as int, which Gecode's variables hold up to
/// 2^31 - 2, and the sections of which no other holds all items.
struct StackProblem {
  std::vector<int> size{};
  std::vector<int> alignment{};
  /// Where an item has to lie, or -1.
  std::vector<int> fixed{};
  /// The highest offset that ends within the capacity; negative: there is none.
  std::vector<int> highest{};
  std::vector<std::vector<int>> overlaps{};
  /// Maximal sections in which every item is alive, as stretches in order.
  std::vector<std::vector<Sections>> sections_of{};
  int section_count = 0;
  /// Items of one number live at the same times and may swap where they touch; -1: nobody else's.
  std::vector<int> twins{};
  /// Sections from the first to the last of its life, gaps included; of the part.
  std::vector<Sections> span{};
  int span_count = 0;
  /// Rounded up: what highest allows may end there.
  int capacity = 0;

  [[nodiscard]] int count() const { return static_cast<int>(size.size()); }
  [[nodiscard]] int aligned(int item, int offset) const {
    const int a = alignment[at(item)];
    return a == 1 ? offset : (offset + a - 1) / a * a;
  }
};

/// `overlaps`: overlaps_of(part). Nothing if the capacity has more grains than Gecode's variables hold.
std::optional<StackProblem> stack_problem(const Part& part, const std::vector<std::vector<int>>& overlaps,
                                          Bytes capacity);

/// Which item is placed next.
enum class Branching {
  lowest,   ///< one that can be placed lowest
  tightest  ///< one in the section that the fewest items can come first in; of these one that can be placed lowest
};

/// The problem with the capacity as its ground: a placement of it has item i at highest[i] - offset. Nothing where that
/// changes what an offset may be: alignments, ends that are rounded, or something fixed above the capacity.
std::optional<StackProblem> upside_down(const StackProblem& problem, const Part& part, Bytes capacity);

struct StackSettings {
  /// Order of items that the branching considers equal, the first to be tried first: every item once.
  std::vector<int> order{};
  Branching branching = Branching::lowest;
  std::int64_t node_limit = INT64_MAX;
  /// Asked often; true ends the search. May be empty.
  std::function<bool()> interrupted{};
  StackInferences inferences{};
};

struct StackOutcome {
  /// A placement, or empty.
  std::vector<int> offsets{};
  /// Without offsets: there is no placement within the capacity.
  bool complete = false;
  std::int64_t nodes = 0;
};

/// Depth-first search in Gecode for one placement.
StackOutcome search_stack(const StackProblem& problem, const StackSettings& settings);

// Local search on orders, for parts that are too large for the constraint program: place from below (heuristics.hpp),
// blame what ends above the goal, let it choose earlier next time (squeaky wheel optimisation: Joslin and Clements 1999).

class OrderSearch {
 public:
  /// `overlaps`: of the part (overlaps_of) where something is fixed: placing from below leaves the room under what is fixed,
  /// the lowest hole uses it. Empty: there is nothing fixed, or the part is too large for them. Both must outlive this.
  OrderSearch(const Part& part, Choice choice, std::uint64_t seed, const std::vector<std::vector<int>>& overlaps);

  /// One placement by the present order, which is then changed for the next one; empty if `stopped` says so on the way.
  /// `goal`: what the arena should be.
  std::vector<Grains> next(Bytes goal, const std::function<bool()>& stopped);

 private:
  /// By the present order; nothing if `stopped` says so on the way.
  std::optional<std::vector<Grains>> placed(const std::function<bool()>& stopped);

  const Part& part_;
  Random random_;
  std::optional<FirstFit> first_fit_;
  std::vector<Worth> first_;
  std::vector<Worth> worth_;
  /// The smallest arena since the order was begun anew, and how many placements ago that was.
  Bytes best_ = Bytes::max();
  int since_ = 0;
};

/// All that is known of one part: the best placement, a bound, and searches that go on where they ended.
class PartSearch {
 public:
  struct Settings {
    /// Another part needs so much anyway: nothing is asked below it.
    Bytes goal{};
    /// Asked for in every round. The answer ends the search, and until then nothing else depends on it: so what is found with a
    /// capacity is never worse than what is found without one in as many rounds.
    std::optional<Bytes> capacity{};
    std::uint64_t seed = 1;
    int threads = 1;
    /// Units of work after which start() tries no further placement.
    std::int64_t work_limit = INT64_MAX;
    StackInferences inferences{};
  };

  /// `part` must outlive this.
  PartSearch(const Part& part, const Settings& settings);

  /// The heuristics; afterwards there is a placement.
  void start(const std::function<bool()>& interrupted);
  /// Looks for better ones with about so many nodes for each question that it asks.
  void run_round(std::int64_t nodes, const std::function<bool()>& interrupted);

  /// Nothing is left to ask, or of interest.
  [[nodiscard]] bool finished() const;
  [[nodiscard]] bool has_placement() const { return !offsets_.empty(); }
  [[nodiscard]] const std::vector<Grains>& offsets() const { return offsets_; }
  /// Bytes::max() before the start.
  [[nodiscard]] Bytes arena() const { return arena_; }
  /// No arena is smaller.
  [[nodiscard]] Bytes lower_bound() const { return lower_bound_; }
  /// Another part needs so much anyway: this one need not go on below it.
  void need_no_less(Bytes arena) { enough_ = std::max(enough_, arena); }
  /// Nodes and their like, but for those that asked for the capacity: at most as many again.
  [[nodiscard]] std::int64_t work() const { return work_; }
  [[nodiscard]] std::int64_t capacity_work() const { return capacity_work_; }

 private:
  enum class Answer { found, none, unknown };

  void offer(const std::vector<Grains>& offsets);
  void search_orders(std::int64_t placements, const std::function<bool()>& interrupted);
  void ask_below(std::int64_t nodes, const std::function<bool()>& interrupted);
  void ask_capacity(std::int64_t nodes, const std::function<bool()>& interrupted);
  /// The first question is asked in the orders as they are, the others in disturbed ones.
  struct Disturbance {
    Random random;
    bool asked = false;
  };
  Answer ask(Bytes capacity, std::int64_t nodes, Disturbance& disturbance, const std::function<bool()>& interrupted);
  /// One search of the constraint program.
  struct Try {
    StackSettings settings{};
    bool upside_down = false;
  };
  std::vector<Try> tries(Disturbance& disturbance);
  /// The smallest arena above that there can be: an aligned offset and the size of what lies there.
  [[nodiscard]] Bytes next_arena(Bytes arena) const;

  const Part& part_;
  Settings settings_;
  Bytes enough_;
  Disturbance own_;
  Disturbance of_capacity_;
  /// Empty in a part that is too large for them.
  std::vector<std::vector<int>> overlaps_;
  std::vector<OrderSearch> order_searches_;
  std::vector<Grains> offsets_;
  Bytes arena_ = Bytes::max();
  Bytes lower_bound_;
  /// The largest arena that the last round had no answer for.
  Bytes doubtful_{};
  std::int64_t work_ = 0;
  std::int64_t capacity_work_ = 0;
};

}  // namespace remora::placement
