// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/grouping.hpp"

#include "engine/groups/chain_partition.hpp"
#include "engine/groups/h_partition.hpp"
#include "engine/groups/partition_intervals.hpp"

namespace remora {

std::unique_ptr<const Partitioner> make_partitioner(Grouping grouping) {
  switch (grouping) {
    case Grouping::chain:
      return std::make_unique<ChainPartition>();
    case Grouping::intervals:
      return std::make_unique<IntervalPartition>();
    case Grouping::h_partition:
      break;
  }
  return std::make_unique<HPartition>();
}

PartitionSettings partition_settings(const SolveOptions& options) {
  return {.group_size = options.group_size, .top_size = options.top_size, .alpha = options.group_alpha};
}

}  // namespace remora
