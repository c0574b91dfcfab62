// SPDX-License-Identifier: Apache-2.0
//
// Makespan and each device's peak for the durations and sizes of any choice of a pipeline's modes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/pipeline.hpp"

namespace remora {

/// Costs of a variable (a stage and a class) in a mode.
struct ModeAmounts {
  /// Durations of the tasks by kind.
  std::array<std::int64_t, 3> lasts{};
  std::int64_t saved = 0;
  std::int64_t held = 0;
  std::array<std::int64_t, 3> transient{};
};

ModeAmounts amounts_of(const StageMode& mode, PipelineOrder order);

/// The modes that each variable may still take, at least one each; whoever makes it owns the amounts.
using ModesLeft = std::vector<std::span<const ModeAmounts>>;

class PipelineTiming {
 public:
  explicit PipelineTiming(const Pipeline& pipeline);

  [[nodiscard]] std::size_t variables() const { return stages_ * classes_; }
  [[nodiscard]] std::size_t stage_of(std::size_t variable) const { return variable / classes_; }
  [[nodiscard]] std::size_t devices() const { return tasks_of_.size(); }
  /// Those whose stages are on the device.
  [[nodiscard]] const std::vector<std::size_t>& variables_of(std::size_t device) const { return variables_of_[device]; }

  /// The longest path, where each task takes the shortest time of its variable's modes. No choice is faster, and of one
  /// mode each it is the makespan. O(tasks).
  [[nodiscard]] std::int64_t makespan(const ModesLeft& left) const;
  /// The largest sum at one time on the device, where each variable takes the mode that is smallest at that time. No choice
  /// has a lower peak, and of one mode each it is the peak. O(tasks * modes).
  [[nodiscard]] std::int64_t peak(std::size_t device, const ModesLeft& left) const;

 private:
  static constexpr std::uint32_t kNone = static_cast<std::uint32_t>(-1);

  struct DeviceTask {
    std::uint32_t variable = 0;
    PipelineTask::Kind kind{};
  };
  struct Task {
    DeviceTask what{};
    /// True if what it reads is sent from another stage.
    bool is_sent = false;
    /// Places in the list, or kNone: the one before on the device, and the one whose result it reads.
    std::uint32_t before = kNone;
    std::uint32_t source = kNone;
  };
  /// How many microbatches of a variable are in flight or wait for weight gradients, and what its smallest mode takes for them.
  struct Resident {
    std::int64_t in_flight = 0;
    std::int64_t waiting = 0;
    std::int64_t least = 0;
  };

  std::size_t stages_;
  std::size_t classes_;
  std::int64_t send_;
  /// In an order in which they can run.
  std::vector<Task> tasks_;
  /// By device, in its order.
  std::vector<std::vector<DeviceTask>> tasks_of_;
  std::vector<std::vector<std::size_t>> variables_of_;
  std::vector<std::int64_t> fixed_;
  mutable std::vector<std::array<std::int64_t, 3>> shortest_;
  mutable std::vector<std::int64_t> ends_;
  mutable std::vector<Resident> resident_;
};

}  // namespace remora
