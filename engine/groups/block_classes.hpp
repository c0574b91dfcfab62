// SPDX-License-Identifier: Apache-2.0
//
// Which groups are the same problem: equal up to names (HiRemate, C.1.1). Blocks are numbered canonically, in input
// order of their first ops, so that no graph isomorphism is asked: their descriptions are compared word by word.
#pragma once

#include <string>
#include <vector>

#include "engine/groups/block.hpp"
#include "model/instance.hpp"

namespace remora {

struct BlockClasses {
  /// By block: its class; classes are numbered in the order of their first block, children's before their parents'.
  std::vector<int> class_of{};
  /// By class: its first block, which is solved for all.
  std::vector<int> representative{};
  /// By class: everything that its problem depends on but the schedules of its children, the same in every network:
  /// bytes.
  std::vector<std::string> description{};
  /// By class: the classes of its children, each once; the description has them as 0, 1, ... in this order.
  std::vector<std::vector<int>> child_classes{};
  /// By class: levels of groups below it; 0 for groups of ops alone.
  std::vector<int> height{};
};

/// O(sum of the blocks' sizes) expected time. `unit_count`: where the numbers of partition nodes begin to be groups.
BlockClasses classify(const Instance& instance, const std::vector<Block>& blocks, std::size_t unit_count);

}  // namespace remora
