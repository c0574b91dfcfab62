// SPDX-License-Identifier: Apache-2.0
//
// A block as an instance of the retention model: its graph, and its children's schedules as modes of their halves.
//
//     F_c   mode 0 .. k-1     the child's schedules: time and workspace of the forward half, size of the phantom
//           mode k            the pass: outputs only, no phantom; nothing that the backward half could follow
//     B_c   mode 0 .. k-1     follows F_c; reads those of the child's inputs and outputs that its schedule reads
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "engine/groups/block.hpp"
#include "model/instance.hpp"

namespace remora {

struct BlockSchedule;

/// The schedules of a child group, and its pass.
struct ChildSchedules {
  std::span<const BlockSchedule> schedules{};
  const BlockSchedule* pass = nullptr;
};

struct BlockProblem {
  const Block* block = nullptr;
  std::shared_ptr<const Graph> graph{};
  /// Null where no child is a group.
  std::shared_ptr<const Modes> modes{};
  std::vector<ChildSchedules> children{};
  int max_computes = 2;

  /// Sizes of what `away` makes.
  [[nodiscard]] Bytes given_back() const;
};

/// The problem of one block of the network, every child with at least one schedule. `max_computes`: C of the network.
BlockProblem make_block_problem(const Instance& network, const Block& block, std::vector<ChildSchedules> children);

/// The problem without a limit on memory.
Instance without_budgets(const BlockProblem& problem);

/// Whether a block pays for its inputs and outputs.
enum class Interface {
  counted,  ///< what it retains of them takes memory
  free,     ///< it takes none: others retain them anyway
};

/// The problem with two budgets (Rockmate, section 3.3): at most `peak` bytes at any time and at most `saved` between
/// the halves, the block's inputs and outputs included where they are retained and counted.
Instance with_budgets(const BlockProblem& problem, Bytes peak, Bytes saved, Interface interface = Interface::counted);

}  // namespace remora
