// SPDX-License-Identifier: Apache-2.0
//
// Which ops to free: the relaxations of the large-neighbourhood search.
//
// Competitors for memory at an event are the tensors retained across it that the event does not use. Freeing their
// producers lets the constraint program decide again who stays and who is recomputed. The relaxations differ in where
// they look; each collects ops in its order of preference until the wanted size is reached.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "model/evaluate.hpp"
#include "model/instance.hpp"
#include "model/random.hpp"
#include "model/table.hpp"

namespace remora {

/// True if there is anything to decide about the op: when it runs, whether it runs again, or by which mode.
inline bool has_decision(const Instance& instance, OpId op) {
  return instance.problem().order == OrderMode::free || instance.max_computes(op) > 1 || instance.mode_count(op) > 1;
}

/// Collects ops that have a decision to make, each once, up to a size.
class OpSelection {
 public:
  OpSelection(const Instance& instance, int size) : instance_(instance), size_(size), chosen_(instance.op_count()) {}

  [[nodiscard]] bool full() const { return static_cast<int>(ops_.size()) >= size_; }

  void add(OpId op) {
    if (full() || !has_decision(instance_, op) || chosen_[op]) return;
    chosen_[op] = true;
    ops_.push_back(op);
  }
  void add_at_random(std::vector<OpId> ops, Random& random, std::size_t most) {
    random.shuffle(ops);
    for (std::size_t i = 0; i < std::min(most, ops.size()); ++i) add(ops[i]);
  }

  std::vector<OpId> sorted() && {
    std::sort(ops_.begin(), ops_.end());
    return std::move(ops_);
  }

 private:
  const Instance& instance_;
  int size_;
  Table<OpId, bool> chosen_;
  std::vector<OpId> ops_;
};

enum class Relaxation {
  disputed,    ///< ops given, of which a relaxation says something else than the schedule, and what is around them
  recomputes,  ///< a few recomputes and those who compete with them where they save memory
  event,       ///< around one event, most likely a full one
  window,      ///< ops computed in a stretch of the schedule
  chains,      ///< recomputes, what feeds them and what they feed
};

inline constexpr std::array kRelaxations{Relaxation::disputed, Relaxation::recomputes, Relaxation::event,
                                         Relaxation::window, Relaxation::chains};

/// A schedule with what neighbourhoods ask of it. O(steps + edges) to build; holds a reference to the instance.
class ScheduleView {
 public:
  /// A valid sequence of the instance's form.
  ScheduleView(const Instance& instance, std::vector<Compute> runs);

  [[nodiscard]] const Instance& instance() const { return *instance_; }
  [[nodiscard]] const std::vector<Compute>& runs() const { return runs_; }
  /// The steps that are not their op's first compute.
  [[nodiscard]] const std::vector<int>& recomputes() const { return recomputes_; }
  [[nodiscard]] int steps() const { return static_cast<int>(runs_.size()); }
  [[nodiscard]] OpId op(int step) const { return runs_[at(step)].op; }
  [[nodiscard]] Bytes memory(int step) const { return evaluation_.memory[at(step)]; }

  /// The ops that have a decision to make and whose outputs are retained across the step without being used there, and
  /// those whose output is away at that step and comes back later. Each once.
  [[nodiscard]] std::vector<OpId> competitors(int step) const;
  /// The step of the op's compute before `step`, or -1: between the two, its recompute at `step` saves memory.
  [[nodiscard]] int previous_compute(int step) const { return previous_compute_[at(step)]; }

 private:
  const Instance* instance_;
  std::vector<Compute> runs_;
  Evaluation evaluation_;
  std::vector<int> previous_compute_;
  std::vector<int> recomputes_;
};

/// About `size` ops to free, ascending, each with a decision to make. May be fewer where the schedule offers no more.
/// `disputed`: ascending; where there are none, recomputes.
std::vector<OpId> relax(const ScheduleView& view, Relaxation relaxation, int size, Random& random,
                        std::span<const OpId> disputed = {});

/// Ops whose freeing can lower every step with more than `target` bytes: competitors of each such step, at random, and
/// the producers of what their recomputes would read; about `size` of them, more where many steps are above. `interrupted`:
/// asked at every step; true ends it with fewer.
std::vector<OpId> relax_above(const ScheduleView& view, Bytes target, int size, Random& random,
                              const std::function<bool()>& interrupted);

}  // namespace remora
