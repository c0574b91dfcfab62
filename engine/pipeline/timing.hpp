// SPDX-License-Identifier: Apache-2.0
//
// What the modes of a pipeline's variables add up to: for durations and sizes of any choice, the makespan and each device's peak.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/pipeline.hpp"

namespace remora {

/// What a variable (a stage and a class) takes: of a mode, or the least of several.
struct ModeAmounts {
  /// Of the tasks by kind.
  std::array<std::int64_t, 3> lasts{};
  std::int64_t saved = 0;
  std::int64_t held = 0;
  std::array<std::int64_t, 3> transient{};
};

ModeAmounts amounts_of(const StageMode& mode, PipelineOrder order);

/// Of each the less.
ModeAmounts least_of(const ModeAmounts& a, const ModeAmounts& b);

class PipelineTiming {
 public:
  explicit PipelineTiming(const Pipeline& pipeline);

  [[nodiscard]] std::size_t variables() const { return stages_ * classes_; }
  [[nodiscard]] std::size_t stage_of(std::size_t variable) const { return variable / classes_; }

  /// The longest path. O(tasks).
  [[nodiscard]] std::int64_t makespan(const std::vector<ModeAmounts>& amounts) const;
  /// Of a device. O(moments * its variables).
  [[nodiscard]] std::int64_t peak(std::size_t device, const std::vector<ModeAmounts>& amounts) const;
  [[nodiscard]] std::size_t devices() const { return moments_.size(); }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct Task {
    std::size_t variable = 0;
    std::uint8_t kind = 0;
    /// Places in the list, or kNone: the one before on the device, and the one whose result it reads.
    std::size_t before = kNone;
    std::size_t source = kNone;
    std::int64_t send = 0;
  };
  /// How many of each variable are in flight, or wait for weight gradients, while a task runs.
  struct Moment {
    std::size_t variable = 0;
    std::uint8_t kind = 0;
    std::vector<int> in_flight{};
    std::vector<int> waiting{};

    friend auto operator<=>(const Moment&, const Moment&) = default;
  };

  void add_tasks(const Pipeline& pipeline);
  void add_moments(const Pipeline& pipeline, std::size_t device);

  std::size_t stages_;
  std::size_t classes_;
  /// In an order in which they can run.
  std::vector<Task> tasks_;
  /// By device: those that differ, and which variables count there.
  std::vector<std::vector<Moment>> moments_;
  std::vector<std::vector<std::size_t>> variables_of_;
  std::vector<std::int64_t> fixed_;
  mutable std::vector<std::int64_t> ends_;
};

}  // namespace remora
