// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/chain_partition.hpp"

#include <algorithm>
#include <numeric>

namespace remora {
namespace {

/// The first node behind each block.
std::vector<int> block_ends(const PartitionGraph& graph) {
  std::vector<int> ends;
  int reach = 0;
  for (int node = 0; node < graph.node_count(); ++node) {
    if (reach <= node) ends.push_back(node + 1);
    const auto next = graph.successors(node);
    if (!next.empty() && !graph.is_constant(node)) reach = std::max(reach, next.back());
  }
  return ends;
}

int run_length(const PartitionGraph& graph, const PartitionSettings& settings) {
  const int wanted = (graph.node_count() + settings.top_size - 1) / settings.top_size;
  return std::clamp(wanted, 2, settings.group_size);
}

}  // namespace

std::vector<int> ChainPartition::group(const PartitionGraph& graph, const PartitionSettings& settings) const {
  // A group has the number of its first node.
  std::vector<int> group_of(static_cast<std::size_t>(graph.node_count()), 0);
  std::iota(group_of.begin(), group_of.end(), 0);
  const int longest = run_length(graph, settings);
  int first = 0;
  int run = 0;
  for (const int end : block_ends(graph)) {
    if (end - first == 1) {
      group_of[static_cast<std::size_t>(first)] = first - run;
      run = run + 1 == longest ? 0 : run + 1;
    } else {
      if (end - first <= settings.group_size) std::fill(group_of.begin() + first, group_of.begin() + end, first);
      run = 0;
    }
    first = end;
  }
  return group_of;
}

}  // namespace remora
