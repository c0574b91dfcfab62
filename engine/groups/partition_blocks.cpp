// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/partition_blocks.hpp"

#include <algorithm>

namespace remora {

PartitionBlocks::PartitionBlocks(const PartitionGraph& graph)
    : graph_(graph),
      count_(graph.node_count()),
      blocks_(static_cast<std::size_t>(graph.node_count())),
      mark_(blocks_.size(), 0),
      seen_(static_cast<std::size_t>(graph.value_count()), 0) {
  block_of_.reserve(blocks_.size());
  for (int node = 0; node < count_; ++node) {
    Block& block = blocks_[static_cast<std::size_t>(node)];
    const auto values = graph.values(node);
    block.nodes = {node};
    block.values.assign(values.begin(), values.end());
    for (const int value : values) block.bytes += graph.value(value).size.count();
    block.units = graph.unit_count(node);
    block_of_.push_back(node);
  }
}

void PartitionBlocks::mark(std::span<const int> blocks) {
  ++round_;
  for (const int block : blocks) mark_[static_cast<std::size_t>(block)] = round_;
}

bool PartitionBlocks::crosses(int value) const {
  const PartitionValue& touched = graph_.value(value);
  if (!is_marked(touched.producer)) return true;
  return !std::all_of(touched.readers.begin(), touched.readers.end(), [&](int node) { return is_marked(node); });
}

std::int64_t PartitionBlocks::border_bytes(std::span<const int> blocks) {
  mark(blocks);
  const int largest = *std::max_element(blocks.begin(), blocks.end(), [&](int block, int other) {
    return at(block).values.size() < at(other).values.size();
  });
  const std::vector<int>& counted = at(largest).values;
  std::int64_t bytes = at(largest).bytes;
  for (const int block : blocks) {
    if (block == largest) continue;
    for (const int value : at(block).values) {
      std::int64_t& seen = seen_[static_cast<std::size_t>(value)];
      if (seen == round_) continue;
      seen = round_;
      const std::int64_t size = graph_.value(value).size.count();
      if (crosses(value)) bytes += size;
      if (std::binary_search(counted.begin(), counted.end(), value)) bytes -= size;
    }
  }
  return bytes;
}

int PartitionBlocks::merge(std::span<const int> blocks) {
  const std::int64_t bytes = border_bytes(blocks);
  Block merged{.bytes = bytes};
  for (const int block : blocks) {
    const Block& part = at(block);
    merged.nodes.insert(merged.nodes.end(), part.nodes.begin(), part.nodes.end());
    for (const int value : part.values) {
      if (crosses(value)) merged.values.push_back(value);
    }
    merged.units += part.units;
  }
  std::sort(merged.nodes.begin(), merged.nodes.end());
  std::sort(merged.values.begin(), merged.values.end());
  merged.values.erase(std::unique(merged.values.begin(), merged.values.end()), merged.values.end());
  const int number = *std::max_element(blocks.begin(), blocks.end());
  for (const int block : blocks) blocks_[static_cast<std::size_t>(block)] = {};
  for (const int node : merged.nodes) block_of_[static_cast<std::size_t>(node)] = number;
  blocks_[static_cast<std::size_t>(number)] = std::move(merged);
  count_ -= static_cast<int>(blocks.size()) - 1;
  return number;
}

}  // namespace remora
