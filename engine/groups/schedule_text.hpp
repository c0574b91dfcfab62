// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/groups/block_schedule.hpp"

namespace remora {

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
