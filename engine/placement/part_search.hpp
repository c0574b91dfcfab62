// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/placement/heuristics.hpp"
#include "engine/placement/part.hpp"
#include "engine/placement/stack_problem.hpp"
#include "model/random.hpp"

namespace remora::placement {

// Local search on orders, for parts that are too large for the constraint program: place from below (heuristics.hpp),
// blame what ends above the goal, let it choose earlier next time (squeaky wheel optimisation: Joslin and Clements 1999).

class OrderSearch {
 public:
  /// `part` must outlive this.
  OrderSearch(const Part& part, Choice choice, std::uint64_t seed);

  /// One placement by the present order, which is then changed for the next one; empty if `stopped` says so on the way.
  /// `goal`: what the arena should be.
  std::vector<Units> next(Bytes goal, const std::function<bool()>& stopped);

 private:
  const Part& part_;
  Random random_;
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
    /// An arena of this is enough; nothing is asked below it.
    Bytes enough{};
    /// Whether an arena above that is of no use.
    bool all_or_nothing = false;
    std::uint64_t seed = 1;
    int threads = 1;
    StackInferences inferences{};
  };

  /// `part` must outlive this.
  PartSearch(const Part& part, const Settings& settings);

  /// The heuristics; afterwards there is a placement.
  void start(const std::function<bool()>& interrupted);
  /// Looks for better ones with about so many nodes for each question that it asks.
  void run_round(std::int64_t nodes, const std::function<bool()>& interrupted);

  /// Nothing is left to ask.
  [[nodiscard]] bool finished() const;
  [[nodiscard]] bool has_placement() const { return !offsets_.empty(); }
  [[nodiscard]] const std::vector<Units>& offsets() const { return offsets_; }
  /// Bytes::max() before the start.
  [[nodiscard]] Bytes arena() const { return arena_; }
  /// No arena is smaller.
  [[nodiscard]] Bytes lower_bound() const { return lower_bound_; }
  /// Another part needs so much anyway.
  void need_no_less(Bytes arena) { settings_.enough = std::max(settings_.enough, arena); }
  /// Nodes and their like.
  [[nodiscard]] std::int64_t work() const { return work_; }

 private:
  enum class Answer { found, none, unknown };

  void offer(const std::vector<Units>& offsets);
  void search_orders(std::int64_t placements, const std::function<bool()>& interrupted);
  void ask_below(std::int64_t nodes, const std::function<bool()>& interrupted);
  Answer ask(Bytes capacity, std::int64_t nodes, const std::function<bool()>& interrupted);
  std::vector<std::vector<int>> orders_to_try();
  /// The smallest arena above that there can be: an aligned offset and the size of what lies there.
  [[nodiscard]] Bytes next_arena(Bytes arena) const;

  const Part& part_;
  Settings settings_;
  Random random_;
  /// Empty in a part that is too large for them.
  std::vector<std::vector<int>> overlaps_;
  std::vector<OrderSearch> order_searches_;
  std::vector<Units> offsets_;
  Bytes arena_ = Bytes::max();
  Bytes lower_bound_;
  std::int64_t work_ = 0;
};

}  // namespace remora::placement
