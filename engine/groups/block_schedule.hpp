// SPDX-License-Identifier: Apache-2.0
//
// A schedule of a group: one ready schedule of its inside, cut in two halves, and what it costs (HiRemate, section
// 3.2.2: time of both halves, peaks, and the phantom that stays in memory between them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/groups/block.hpp"
#include "model/modes.hpp"

namespace remora {

/// A moment inside a half at which memory may be highest (HiRemate, B.3).
struct HalfPeak {
  /// Memory beyond the phantom and the group's inputs and outputs; negative where outputs are still to come.
  Bytes workspace{};
  /// The inputs of the half that it has used for the last time, as positions in the block's interface.
  std::vector<int> freed{};
};

struct HalfCost {
  Duration duration{};
  /// At least one; the later, the more is freed.
  std::vector<HalfPeak> peaks{};

  /// The most memory beyond phantom, inputs and outputs, were none of these freed.
  [[nodiscard]] Bytes workspace() const;
};

struct BlockSchedule {
  /// Local computes, without the pseudo ops. The backward half is empty where the group has no halves, and where the
  /// schedule saves nothing for one.
  std::vector<Compute> forward{};
  std::vector<Compute> backward{};
  HalfCost forward_cost{};
  HalfCost backward_cost{};
  /// The phantom.
  Bytes saved{};
  /// By tensor of the block's interface: whether the backward half reads what was there before it.
  std::vector<bool> reads{};
  /// The most often that an op of the network runs in it.
  int computes = 1;
  /// True if every op of the forward half may run as often as the problem allows.
  bool repeatable = false;
  /// Memory of the block's problem, interface included.
  Bytes peak{};

  [[nodiscard]] Duration duration() const { return forward_cost.duration + backward_cost.duration; }
  /// Over all peaks: what this takes in memory, and in problems whose modes are such schedules.
  [[nodiscard]] std::size_t freed_inputs() const;
};

/// Costs of a sequence of the problem's runs as a schedule.
BlockSchedule measure_schedule(const BlockProblem& problem, const Instance& instance, std::vector<Compute> sequence);

/// True if the schedule can be one of the problem's: its computes are there, its interface is the block's. What it costs
/// is not measured.
bool is_schedule_of(const BlockProblem& problem, const BlockSchedule& schedule);

/// The forward half alone, every op once, nothing saved: for a group whose forward half runs again later.
BlockSchedule passing_schedule(const BlockProblem& problem, const Instance& instance);

/// A group's schedules, and the units of work that it took to find them.
struct FoundSchedules {
  std::vector<BlockSchedule> schedules{};
  std::int64_t work = 0;
};

/// As text, for a BlockStore: whole numbers between blanks, a line for the number of schedules and the work, and one an
/// schedule.
std::string text_of_schedules(const FoundSchedules& found);

/// The same again; nothing if the text is not what text_of_schedules makes of at least one schedule.
std::optional<FoundSchedules> schedules_of_text(std::string_view text);

}  // namespace remora
