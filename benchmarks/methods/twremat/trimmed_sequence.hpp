// SPDX-License-Identifier: Apache-2.0
//
// A sequence of computes from which recomputes are taken out one by one, with the memory at every step kept up to date.
//
//     sequence   x .. a .. x' .. b        x' taken out: x is retained from a's step on to x''s, and what x'
//     x          ######    ######         reads no longer to x' if that was its last use. Everything else
//     without    ################         stays, so every use still has an earlier compute.
//
// First computes stay, which keeps every op computed and `after` satisfied. Steps keep their numbers; at one that was
// taken out memory is never more than at the last one before it that is left, so it does not change the peak.
//
// Useless recomputes are removed at once, and those that then become useless, and so on: that only frees memory.
// Each removal costs O(tensors of the op * (log steps + uses)).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/base/deadline.hpp"
#include "model/instance.hpp"
#include "model/table.hpp"
#include "model/types.hpp"

namespace remora {

/// Memory over the steps of a sequence, of which stretches rise and fall: a segment tree for additions to ranges and the
/// largest value of all.
class MemoryProfile {
 public:
  /// O(steps).
  explicit MemoryProfile(std::span<const Bytes> memory) : steps_(std::bit_ceil(memory.size())), nodes_(2 * steps_) {
    for (std::size_t i = 0; i < memory.size(); ++i) nodes_[steps_ + i] = {memory[i], Bytes(0)};
    for (std::size_t i = steps_; i-- > 1;) refresh(i);
  }

  /// Adds to the steps [first, last], none where last < first. O(log steps).
  void add(int first, int last, Bytes amount) {
    if (last < first) return;
    std::size_t begin = steps_ + at(first);
    std::size_t end = steps_ + at(last) + 1;
    const std::size_t leftmost = begin;
    const std::size_t rightmost = end - 1;
    for (; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) raise(begin++, amount);
      if (end % 2 == 1) raise(--end, amount);
    }
    for (std::size_t i = leftmost / 2; i >= 1; i /= 2) refresh(i);
    for (std::size_t i = rightmost / 2; i >= 1; i /= 2) refresh(i);
  }

  /// The largest memory of all steps, not negative; of none, 0.
  [[nodiscard]] Bytes largest() const { return nodes_[1].largest; }

 private:
  struct Node {
    /// Maximum of the steps below, with additions at this node and below it, but not above.
    Bytes largest{};
    Bytes added{};
  };

  void raise(std::size_t i, Bytes amount) {
    nodes_[i].largest += amount;
    nodes_[i].added += amount;
  }
  void refresh(std::size_t i) {
    nodes_[i].largest = std::max(nodes_[2 * i].largest, nodes_[2 * i + 1].largest) + nodes_[i].added;
  }

  /// A power of two; those beyond the sequence hold nothing. Step i is node steps_ + i; the children of node i are 2 i
  /// and 2 i + 1, the root is node 1.
  std::size_t steps_;
  std::vector<Node> nodes_;
};

class TrimmedSequence {
 public:
  /// A valid sequence of the instance, which must outlive this; its useless recomputes go at once. O(steps log steps).
  TrimmedSequence(const Instance& instance, std::span<const OpId> sequence);

  /// The remaining sequence.
  [[nodiscard]] Sequence sequence() const;
  [[nodiscard]] Bytes peak() const;
  [[nodiscard]] Duration duration() const { return duration_; }

  [[nodiscard]] const Instance& instance() const { return instance_; }
  /// How many steps there were at the start.
  [[nodiscard]] int steps() const { return static_cast<int>(ops_.size()); }
  [[nodiscard]] OpId op(int step) const { return ops_[index(step)]; }
  /// The steps at which the op still runs, ascending.
  [[nodiscard]] std::span<const int> computes(OpId op) const { return computes_[index(op)]; }
  /// True if a recompute is still there at the step.
  [[nodiscard]] bool removable(int step) const { return alive_[index(step)] && computes(op(step)).front() != step; }

  /// Memory added by removing the recompute at the step, in bytes times steps; may be negative.
  Wide added_area(int step);
  void remove(int step);
  /// Takes out the recompute if memory then holds the budget everywhere; whether it did.
  bool remove_within(int step, Bytes budget);

 private:
  /// Maximum of the memory at the steps [first, last].
  struct Change {
    int first = 0;
    int last = 0;
    Bytes amount{};
  };

  static std::size_t index(std::int32_t i) { return at(i); }
  /// The next compute of the op after the step, or one beyond the end.
  [[nodiscard]] int next_compute(OpId op, int step) const;
  /// The last compute of the op before the step.
  [[nodiscard]] int compute_before(OpId op, int step) const;
  /// The last use in the open range, or `after`. What is kept to the end has a use at the number of steps.
  [[nodiscard]] int last_use_between(TensorId tensor, int after, int before) const;
  [[nodiscard]] bool useful(int step) const;
  /// Fills changes_ with what taking out the step does.
  void find_changes(int step);
  void apply_changes();
  void undo_changes();
  /// Takes the step out of all lists and queues the computes that served it.
  void forget(int step);
  void remove_useless();

  const Instance& instance_;
  std::vector<OpId> ops_;
  std::vector<char> alive_;
  std::vector<std::vector<int>> computes_;
  /// By tensor: the steps that read it, ascending.
  std::vector<std::vector<int>> uses_;
  MemoryProfile memory_;
  Duration duration_{};
  std::vector<Change> changes_;
  /// Recomputes that may have become useless.
  std::vector<int> doubtful_;
};

/// Which recomputes of a sequence to do without.
///
/// Takes out recomputes of the ops that run more often than the instance allows, first those that add least to memory
/// (bytes times steps). Afterwards all ops keep their limits; memory may be more. O(computes log^2 computes).
void remove_beyond_limits(TrimmedSequence& sequence);

/// Takes out the recomputes without which memory holds the instance's budget, the costliest first, then the earliest;
/// goes through them again while that takes out any, a few times. The sequence must hold the budget, and does
/// afterwards; the duration never grows. Ends where it is at the deadline. O(steps * tensors of an op * log steps).
void remove_unneeded(TrimmedSequence& sequence, const Deadline& deadline);

}  // namespace remora
