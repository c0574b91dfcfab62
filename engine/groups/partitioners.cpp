// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/partitioners.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <tuple>
#include <utility>

#include "engine/groups/partition_graph.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

struct Candidate {
  /// Ascending; fewer than two: dropped.
  std::vector<int> blocks{};
  /// Raised whenever the blocks change, so that older entries of the heap are known.
  int version = 0;
};

/// What the heap is ordered by, the best first.
struct Entry {
  double score = 0;
  bool is_scattered = false;
  int first = 0;
  int size = 0;
  int candidate = 0;
  int version = 0;

  friend bool operator>(const Entry& a, const Entry& b) {
    return std::tie(a.score, a.is_scattered, a.first, a.size, a.candidate) >
           std::tie(b.score, b.is_scattered, b.first, b.size, b.candidate);
  }
};

class Greedy {
 public:
  Greedy(const PartitionGraph& graph, const PartitionSettings& settings)
      : settings_(settings), blocks_(graph), candidates_of_(at(graph.node_count())), met_in_(0) {
    for (auto& nodes : candidate_groups(graph, settings.group_size))
      candidates_.push_back({.blocks = std::move(nodes)});
    met_in_.assign(candidates_.size(), 0);
    heap_.reserve(candidates_.size());
    for (std::size_t c = 0; c < candidates_.size(); ++c) {
      for (const int block : candidates_[c].blocks) of_block(block).push_back(static_cast<int>(c));
      heap_.push_back(entry(static_cast<int>(c)));
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  std::vector<int> run() {
    double last_score = -1;
    while (!heap_.empty() && !settings_.ends()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      const Entry best = heap_.back();
      heap_.pop_back();
      if (is_stale(best)) continue;
      if (blocks_.count() <= settings_.top_size && best.score != last_score) break;
      last_score = best.score;
      wrap(best.candidate);
      if (heap_.size() > 2 * candidates_.size()) drop_stale();
    }
    return blocks_.blocks_of_nodes();
  }

 private:
  [[nodiscard]] Candidate& candidate(int c) { return candidates_[at(c)]; }
  [[nodiscard]] std::vector<int>& of_block(int block) { return candidates_of_[at(block)]; }
  [[nodiscard]] bool is_stale(const Entry& entry) { return candidate(entry.candidate).version != entry.version; }

  [[nodiscard]] Entry entry(int c) {
    const std::vector<int>& blocks = candidate(c).blocks;
    Entry made{.candidate = c, .version = candidate(c).version};
    int last = -1;
    std::int64_t units = 0;
    made.first = blocks_.nodes(blocks.front()).front();
    for (const int block : blocks) {
      const auto nodes = blocks_.nodes(block);
      made.first = std::min(made.first, nodes.front());
      last = std::max(last, nodes.back());
      made.size += static_cast<int>(nodes.size());
      units += blocks_.unit_count(block);
    }
    made.is_scattered = last - made.first + 1 > made.size;
    made.score =
        static_cast<double>(blocks_.border_bytes(blocks)) * std::pow(static_cast<double>(units), settings_.alpha);
    return made;
  }

  /// Merges the candidate's blocks and updates all others that meet them.
  void wrap(int chosen) {
    const std::vector<int> merged = std::exchange(candidate(chosen).blocks, {});
    std::vector<int> meeting;
    ++round_;
    for (const int block : merged) {
      for (const int c : of_block(block)) {
        int& met = met_in_[at(c)];
        if (met == round_ || candidate(c).blocks.size() < 2) continue;
        met = round_;
        meeting.push_back(c);
      }
      of_block(block) = {};
    }
    const int block = blocks_.merge(merged);
    std::vector<int> alive;
    for (const int c : meeting) {
      if (take_in(c, merged, block)) alive.push_back(c);
    }
    of_block(block) = std::move(alive);
  }

  /// Puts the new block in place of those that it was made of; false if the candidate is dropped.
  bool take_in(int c, const std::vector<int>& merged, int block) {
    std::vector<int>& blocks = candidate(c).blocks;
    std::vector<int> others;
    std::set_difference(blocks.begin(), blocks.end(), merged.begin(), merged.end(), std::back_inserter(others));
    others.insert(std::lower_bound(others.begin(), others.end(), block), block);
    std::size_t size = 0;
    for (const int other : others) size += blocks_.nodes(other).size();
    if (size > at(settings_.group_size)) others = {};
    blocks = std::move(others);
    ++candidate(c).version;
    if (blocks.size() < 2) {
      blocks = {};
      return false;
    }
    heap_.push_back(entry(c));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    return true;
  }

  void drop_stale() {
    const auto stale = [&](const Entry& entry) { return is_stale(entry); };
    heap_.erase(std::remove_if(heap_.begin(), heap_.end(), stale), heap_.end());
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  PartitionSettings settings_;
  PartitionBlocks blocks_;
  std::vector<Candidate> candidates_;
  std::vector<std::vector<int>> candidates_of_;
  std::vector<int> met_in_;
  int round_ = 0;
  std::vector<Entry> heap_;
};

}  // namespace

std::vector<int> HPartition::group(const PartitionGraph& graph, const PartitionSettings& settings) const {
  return Greedy(graph, settings).run();
}

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
  std::vector<int> group_of(at(graph.node_count()), 0);
  std::iota(group_of.begin(), group_of.end(), 0);
  const int longest = run_length(graph, settings);
  int first = 0;
  int run = 0;
  for (const int end : block_ends(graph)) {
    if (end - first == 1) {
      group_of[at(first)] = first - run;
      run = run + 1 == longest ? 0 : run + 1;
    } else {
      if (end - first <= settings.group_size) std::fill(group_of.begin() + first, group_of.begin() + end, first);
      run = 0;
    }
    first = end;
  }
  return group_of;
}

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
  return {.group_size = options.group_size, .top_size = options.top_size};
}

}  // namespace remora
