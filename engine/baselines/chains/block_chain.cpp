// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/chains/block_chain.hpp"

#include <algorithm>

#include "model/table.hpp"

namespace remora {
namespace {

/// The last of the first `forward` ops that reads the tensor, or none.
OpId last_forward_reader(const Instance& instance, TensorId tensor, int forward) {
  const auto users = instance.users(tensor);
  const auto end = std::partition_point(users.begin(), users.end(), [&](OpId op) { return op < forward; });
  return end == users.begin() ? OpId::none() : *std::prev(end);
}

/// Counts, for every position, the stretches that cover it: added in any order, summed once.
class Coverage {
 public:
  explicit Coverage(std::size_t positions) : counts_(positions + 1, 0) {}

  /// Positions [first, end).
  void add(std::size_t first, std::size_t end) {
    if (first >= end) return;
    ++counts_[first];
    --counts_[end];
  }
  [[nodiscard]] std::vector<int> sum() const {
    std::vector<int> sums(counts_.size() - 1, 0);
    int covered = 0;
    for (std::size_t at = 0; at < sums.size(); ++at) sums[at] = covered += counts_[at];
    return sums;
  }

 private:
  std::vector<int> counts_;
};

/// Goes from the separators' blocks to blocks that keep the chain's promises, by striking cuts out. Cut c separates
/// block c from block c+1.
class Joiner {
 public:
  Joiner(const Instance& instance, int forward)
      : instance_(instance),
        forward_(forward),
        separators_(separators(instance, forward)),
        block_of_(at(forward), 0),
        struck_(separators_.size()) {
    std::size_t block = 0;
    for (int op = 0; op < forward; ++op) {
      block_of_[at(op)] = block;
      if (separators_[block] == op) ++block;
    }
  }

  std::vector<TrainingBlock> run() {
    assign_backward();
    for (int op = forward_; op < instance_.op_count(); ++op) strike_reads(OpId(op));
    return joined(struck_.sum());
  }

 private:
  [[nodiscard]] std::size_t block_of(OpId op) const { return block_of_[at(op)]; }
  [[nodiscard]] std::size_t backward_block(int op) const { return backward_[at(op - forward_)]; }
  void strike(std::size_t block, std::size_t other) { struck_.add(std::min(block, other), std::max(block, other)); }

  /// The last block whose forward tensors the op reads, pinned ones left out; nothing if there is none.
  [[nodiscard]] std::optional<std::size_t> last_read(OpId op) const {
    std::optional<std::size_t> last;
    for (const TensorId t : instance_.inputs(op)) {
      const OpId producer = instance_.producer(t);
      if (producer < forward_ && !is_pinned(instance_, t)) last = std::max(last.value_or(0), block_of(producer));
    }
    return last;
  }

  /// The block that a backward op belongs to, `current` that of the op before it.
  [[nodiscard]] std::size_t wanted(OpId op, std::size_t current) const {
    const OpId of = instance_.graph()[op].backward_of;
    const auto last = last_read(op);
    // In Checkmate's graphs the backward op of a layer also reads what the next layer wrote: it is that one's.
    if (of.valid() && of < forward_) return std::max(block_of(of), last.value_or(0));
    return std::min(last.value_or(current), current);
  }

  void assign_backward() {
    backward_.reserve(at(instance_.op_count() - forward_));
    std::size_t current = separators_.size() - 1;
    for (int op = forward_; op < instance_.op_count(); ++op) {
      const std::size_t block = wanted(OpId(op), current);
      if (block > current) strike(current, block);
      current = std::min(current, block);
      backward_.push_back(current);
    }
  }

  /// Joins what a backward op reads beyond its own block and the separator before it.
  void strike_reads(OpId op) {
    const std::size_t own = backward_block(op);
    for (const TensorId t : instance_.inputs(op)) {
      const OpId producer = instance_.producer(t);
      if (producer >= forward_ || is_pinned(instance_, t)) continue;
      const std::size_t block = block_of(producer);
      if (block + 1 == own && separators_[block] == producer) continue;
      strike(block, own);
    }
  }

  [[nodiscard]] std::vector<TrainingBlock> joined(const std::vector<int>& struck) const {
    std::vector<TrainingBlock> blocks;
    int first = 0;
    int backward_end = instance_.op_count();
    int backward = backward_end;
    for (std::size_t cut = 0; cut < separators_.size(); ++cut) {
      const bool is_last = cut + 1 == separators_.size();
      if (!is_last && struck[cut] > 0) continue;
      while (backward > forward_ && backward_block(backward - 1) <= cut) --backward;
      blocks.push_back({{first, separators_[cut] + 1}, {backward, backward_end}});
      first = separators_[cut] + 1;
      backward_end = backward;
    }
    return blocks;
  }

  const Instance& instance_;
  int forward_;
  std::vector<OpId> separators_;
  /// The block of each forward op.
  std::vector<std::size_t> block_of_;
  /// The block of each backward op; it never increases along the input order.
  std::vector<std::size_t> backward_;
  Coverage struck_;
};

}  // namespace

std::optional<int> forward_part(const Instance& instance) {
  const auto& ops = instance.graph().ops;
  const auto is_forward = [](const Op& op) { return op.phase == Phase::forward || op.phase == Phase::loss; };
  const auto last = std::find_if(ops.rbegin(), ops.rend(), is_forward);
  if (last == ops.rend()) return std::nullopt;
  const auto is_backward = [](const Op& op) { return op.phase == Phase::backward; };
  if (!std::any_of(last.base(), ops.end(), is_backward)) return std::nullopt;
  return static_cast<int>(last.base() - ops.begin());
}

bool is_pinned(const Instance& instance, TensorId tensor) {
  if (instance.keep(tensor)) return true;
  return instance.max_computes(instance.producer(tensor)) < 2 && !instance.users(tensor).empty();
}

std::vector<OpId> separators(const Instance& instance, int forward) {
  Coverage crossed(at(forward));
  for (int op = 0; op < forward; ++op) {
    for (const TensorId t : instance.outputs(OpId(op))) {
      const OpId reader = last_forward_reader(instance, t, forward);
      if (!reader.valid() || is_pinned(instance, t)) continue;
      crossed.add(at(op) + 1, at(reader));
    }
  }
  const std::vector<int> crossing = crossed.sum();
  std::vector<OpId> found;
  for (int op = 0; op < forward; ++op) {
    if (crossing[at(op)] == 0) found.emplace_back(op);
  }
  return found;
}

std::vector<TrainingBlock> block_chain(const Instance& instance, int forward) {
  return Joiner(instance, forward).run();
}

std::vector<TensorId> inputs_of(const Instance& instance, const std::vector<TrainingBlock>& blocks, std::size_t b) {
  std::vector<TensorId> inputs;
  if (b == 0) return inputs;
  const TrainingBlock& block = blocks[b];
  for (const TensorId t : instance.outputs(OpId(block.forward.first - 1))) {
    const auto users = instance.users(t);
    const auto is_reader = [&](OpId op) { return block.forward.contains(op) || block.backward.contains(op); };
    if (!is_pinned(instance, t) && std::any_of(users.begin(), users.end(), is_reader)) inputs.push_back(t);
  }
  return inputs;
}

}  // namespace remora
