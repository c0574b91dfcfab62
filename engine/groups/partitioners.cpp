// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/partitioners.hpp"

#include <algorithm>

#include "engine/groups/partition_graph.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

/// For each k the bytes of the values that are touched both before node k and from it on.
std::vector<std::int64_t> crossing_bytes(const PartitionGraph& graph) {
  std::vector<std::int64_t> bytes(at(graph.node_count()) + 1, 0);
  for (int v = 0; v < graph.value_count(); ++v) {
    const PartitionValue& value = graph.value(v);
    const int first = std::min(value.producer, value.readers.front());
    const int last = std::max(value.producer, value.readers.back());
    bytes[at(first) + 1] += value.size.count();
    bytes[at(last) + 1] -= value.size.count();
  }
  for (std::size_t k = 1; k < bytes.size(); ++k) bytes[k] += bytes[k - 1];
  return bytes;
}

/// The most nodes of an interval: enough that intervals of half the length come to the top size.
int interval_length(int nodes, const PartitionSettings& settings) {
  const std::int64_t wanted = (2 * static_cast<std::int64_t>(nodes) + settings.top_size - 1) / settings.top_size;
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 2, settings.group_size));
}

}  // namespace

std::vector<int> IntervalPartition::group(const PartitionGraph& graph, const PartitionSettings& settings) const {
  const std::vector<std::int64_t> bytes = crossing_bytes(graph);
  const int nodes = graph.node_count();
  const int longest = interval_length(nodes, settings);
  std::vector<int> group_of(at(nodes), 0);
  int group = 0;
  for (int first = 0; first < nodes; ++group) {
    const int least = std::min(nodes, first + std::max(2, (longest + 1) / 2));
    const int most = std::min(nodes, first + longest);
    int cut = most;
    for (int k = most - 1; k >= least; --k) {
      if (bytes[at(k)] < bytes[at(cut)]) cut = k;
    }
    // The end of the graph is no better a cut than others; what is left then would be a short interval.
    if (most == nodes) cut = nodes;
    std::fill(group_of.begin() + first, group_of.begin() + cut, group);
    first = cut;
  }
  return group_of;
}

PartitionSettings partition_settings(const SolveOptions& options) {
  return {.group_size = options.group_size, .top_size = options.top_size};
}

}  // namespace remora
