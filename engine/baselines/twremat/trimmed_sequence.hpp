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
// What serves no use any more goes along at once, and what then serves none, and so on: that only frees memory.
// Each removal costs O(tensors of the op * (log steps + uses)).
#pragma once

#include <span>
#include <vector>

#include "engine/baselines/twremat/memory_profile.hpp"
#include "model/instance.hpp"

namespace remora {

class TrimmedSequence {
 public:
  /// A valid sequence of the instance, which must outlive this; its useless recomputes go at once. O(steps log steps).
  TrimmedSequence(const Instance& instance, std::span<const OpId> sequence);

  /// What is left.
  [[nodiscard]] std::vector<OpId> sequence() const;
  [[nodiscard]] Bytes peak() const;
  [[nodiscard]] Duration duration() const { return duration_; }

  [[nodiscard]] const Instance& instance() const { return instance_; }
  /// How many steps there were at the start.
  [[nodiscard]] int steps() const { return static_cast<int>(ops_.size()); }
  [[nodiscard]] OpId op(int step) const { return ops_[index(step)]; }
  /// The steps at which the op still runs, ascending.
  [[nodiscard]] std::span<const int> computes(OpId op) const { return computes_[index(op)]; }
  /// Whether a recompute is still there at the step.
  [[nodiscard]] bool removable(int step) const { return alive_[index(step)] && computes(op(step)).front() != step; }

  /// What taking out the recompute at the step adds to memory, in bytes times steps; may be negative.
  Wide added_area(int step);
  void remove(int step);
  /// Takes out the recompute if memory then holds the budget everywhere; whether it did.
  bool remove_within(int step, Bytes budget);

 private:
  /// Of the memory at the steps [first, last].
  struct Change {
    int first = 0;
    int last = 0;
    Bytes amount{};
  };

  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
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

}  // namespace remora
