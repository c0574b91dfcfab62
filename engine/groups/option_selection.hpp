// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "engine/groups/group_option.hpp"

namespace remora {

/// Of the options those that no other beats in everything; where they are more than `most`, the shortest, then those
/// that a price per byte would choose, then the others, each time whatever saves most differently from those chosen
/// (HiRemate, schedule selection: farthest apart first). Shortest first. `most` >= 1.
std::vector<GroupOption> select_options(std::vector<GroupOption> options, std::size_t most);

}  // namespace remora
