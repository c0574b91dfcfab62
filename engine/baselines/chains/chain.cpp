// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/chains/chain.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/search/solution.hpp"
#include "model/evaluate.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

/// Tensors and their total size; pinned ones are left out.
class TensorSet {
 public:
  explicit TensorSet(const Instance& instance) : instance_(instance), members_(instance.tensor_count(), false) {}

  void add(TensorId t) {
    if (contains(t) || is_pinned(instance_, t)) return;
    members_[t] = true;
    size_ += instance_.size(t);
  }
  void remove(TensorId t) {
    if (!contains(t)) return;
    members_[t] = false;
    size_ -= instance_.size(t);
  }
  [[nodiscard]] bool contains(TensorId t) const { return members_[t]; }
  [[nodiscard]] Bytes size() const { return size_; }

 private:
  const Instance& instance_;
  Table<TensorId, bool> members_;
  Bytes size_{};
};

class ChainCosts {
 public:
  ChainCosts(const Instance& instance, std::span<const TrainingBlock> blocks)
      : instance_(instance),
        blocks_(blocks.begin(), blocks.end()),
        forward_(blocks.back().forward.end),
        gradients_(gradients_in_flight()),
        alive_(instance) {}

  Chain run() {
    Chain chain;
    chain.gradient = gradients_before(forward_);
    chain.blocks.reserve(blocks_.size());
    for (std::size_t b = 0; b < blocks_.size(); ++b) chain.blocks.push_back(block_costs(b));
    return chain;
  }

 private:
  /// Before each backward op, and at the end: the gradients that it or a later op reads, or that must be kept.
  [[nodiscard]] std::vector<Bytes> gradients_in_flight() const {
    const int ops = instance_.op_count();
    std::vector<Bytes> change(at(ops - forward_) + 2);
    for (int op = forward_; op < ops; ++op) {
      for (const TensorId t : instance_.outputs(OpId(op))) {
        const auto users = instance_.users(t);
        if (users.empty() && !instance_.keep(t)) continue;
        const int last = instance_.keep(t) ? ops : int{users.back()};
        change[at(op + 1 - forward_)] += instance_.size(t);
        change[at(last + 1 - forward_)] -= instance_.size(t);
      }
    }
    std::partial_sum(change.begin(), change.end(), change.begin());
    return change;
  }

  [[nodiscard]] Bytes gradients_before(int op) const { return gradients_[at(op - forward_)]; }

  [[nodiscard]] std::vector<TensorId> inputs(std::size_t b) const {
    return b == blocks_.size() ? std::vector<TensorId>() : inputs_of(instance_, blocks_, b);
  }

  [[nodiscard]] Bytes size_of(std::span<const TensorId> tensors) const {
    Bytes total;
    for (const TensorId t : tensors) total += instance_.size(t);
    return total;
  }

  [[nodiscard]] bool is_read_in(const OpRange& range, TensorId t) const {
    const auto users = instance_.users(t);
    return std::any_of(users.begin(), users.end(), [&](OpId user) { return range.contains(user); });
  }

  [[nodiscard]] bool is_read_in(const OpRange& range, std::span<const TensorId> tensors) const {
    return std::any_of(tensors.begin(), tensors.end(), [&](TensorId t) { return is_read_in(range, t); });
  }

  /// Tensors of the block's own forward ops that its backward ops read.
  [[nodiscard]] std::vector<TensorId> read_behind(const TrainingBlock& block) const {
    std::vector<TensorId> tensors;
    for (int op = block.forward.first; op < block.forward.end; ++op) {
      for (const TensorId t : instance_.outputs(OpId(op))) {
        if (is_read_in(block.backward, t) && !is_pinned(instance_, t)) tensors.push_back(t);
      }
    }
    return tensors;
  }

  /// Runs those forward ops of the block that these tensors need, or all. The tensors stay to the end of the run,
  /// everything else until its last reader in it. Reckoned from the end: alive is what is read further on.
  [[nodiscard]] BlockRun run_forward(const TrainingBlock& block, std::span<const TensorId> staying, bool all) {
    BlockRun run;
    const auto alive = [&](TensorId t) { return alive_.contains(t); };
    for (const TensorId t : staying) alive_.add(t);
    for (int v = block.forward.end - 1; v >= block.forward.first; --v) {
      const OpId op(v);
      const auto outputs = instance_.outputs(op);
      if (!all && std::none_of(outputs.begin(), outputs.end(), alive)) continue;
      for (const TensorId t : outputs) alive_.add(t);
      for (const TensorId t : instance_.inputs(op)) {
        if (block.forward.contains(instance_.producer(t))) alive_.add(t);
      }
      run.peak = std::max(run.peak, alive_.size() + instance_.workspace(op));
      if (instance_.max_computes(op) > 1) run.duration += instance_.duration(op);
      for (const TensorId t : outputs) alive_.remove(t);
    }
    return run;
  }

  /// The block's backward ops, beside what they read of its forward ops and the gradients in flight.
  [[nodiscard]] BlockRun run_backward(const TrainingBlock& block) {
    BlockRun run;
    for (int v = block.backward.end - 1; v >= block.backward.first; --v) {
      const OpId op(v);
      for (const TensorId t : instance_.inputs(op)) {
        if (block.forward.contains(instance_.producer(t))) alive_.add(t);
      }
      const Bytes resident = alive_.size() + gradients_before(v) + size_of(instance_.outputs(op));
      run.peak = std::max(run.peak, resident + instance_.workspace(op));
      run.duration += instance_.duration(op);
    }
    for (int v = block.forward.first; v < block.forward.end; ++v) {
      for (const TensorId t : instance_.outputs(OpId(v))) alive_.remove(t);
    }
    return run;
  }

  [[nodiscard]] ChainBlock block_costs(std::size_t b) {
    const TrainingBlock& block = blocks_[b];
    const std::vector<TensorId> outputs = inputs(b + 1);
    const std::vector<TensorId> read = read_behind(block);
    std::vector<TensorId> all = read;
    for (const TensorId t : outputs) {
      if (!is_read_in(block.backward, t)) all.push_back(t);
    }
    const bool reads_output = is_read_in(block.backward, outputs);
    const bool is_last = b + 1 == blocks_.size();
    return {.input = size_of(inputs(b)),
            .gradient = gradients_before(block.backward.end),
            .pass = run_forward(block, outputs, true),
            .options = {{.saved = size_of(reads_output ? all : read),
                         .reads_input = is_read_in(block.backward, inputs(b)),
                         .reads_output = reads_output,
                         .forward = run_forward(block, all, true),
                         .alone = run_forward(block, read, is_last),
                         .backward = run_backward(block)}}};
  }

  const Instance& instance_;
  std::vector<TrainingBlock> blocks_;
  int forward_;
  std::vector<Bytes> gradients_;
  /// Empty between runs.
  TensorSet alive_;
};

}  // namespace

Chain chain_costs(const Instance& instance, std::span<const TrainingBlock> blocks) {
  return ChainCosts(instance, blocks).run();
}

Bytes memory_beside_chain(const Instance& instance, int forward) {
  Bytes total = instance.base_memory();
  for (int op = 0; op < forward; ++op) {
    for (const TensorId t : instance.outputs(OpId(op))) {
      if (is_pinned(instance, t)) total += instance.size(t);
    }
  }
  return total;
}

Bytes memory_to_save_all(const Chain& chain) {
  Bytes below;
  Bytes most;
  bool owns_input = true;
  for (std::size_t b = 0; b < chain.blocks.size(); ++b) {
    const BlockOption& option = chain.blocks[b].options.front();
    const Bytes input = owns_input ? chain.blocks[b].input : Bytes(0);
    const Bytes staying = option.reads_input ? input : Bytes(0);
    const bool is_last = b + 1 == chain.blocks.size();
    const Bytes forward = chain.gradient + (is_last ? option.alone.peak : option.forward.peak);
    most = std::max({most, below + input + forward, below + staying + option.backward.peak});
    below += staying + option.saved;
    owns_input = !option.reads_output;
  }
  return most;
}

namespace {

/// Strikes out the recomputes that nobody reads before the op's next compute. Pinned tensors are served by their first
/// compute, so that reading them is no reason to recompute. One pass from the end, over what is still to be read.
RecomputePlan without_unread(const Instance& instance, const RecomputePlan& plan) {
  Table<TensorId, bool> to_read(instance.tensor_count(), false);
  const auto run = [&](OpId op) {
    for (const TensorId t : instance.outputs(op)) to_read[t] = false;
    for (const TensorId t : instance.inputs(op)) to_read[t] = !is_pinned(instance, t);
  };
  RecomputePlan kept;
  auto next = plan.rbegin();
  for (Stage stage{instance.op_count()}; stage >= 0; --stage) {
    if (stage < instance.op_count()) run(OpId(stage));
    for (; next != plan.rend() && next->stage == stage; ++next) {
      const auto outputs = instance.outputs(next->op);
      const auto is_read = [&](TensorId t) { return to_read[t]; };
      if (std::none_of(outputs.begin(), outputs.end(), is_read)) continue;
      run(next->op);
      kept.push_back(*next);
    }
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace

RecomputePlan expand(const Instance& instance, std::span<const TrainingBlock> blocks,
                     std::span<const ChainStep> steps) {
  RecomputePlan plan;
  std::vector<bool> ran(blocks.size(), false);
  /// The stage of the next backward block.
  Stage stage{blocks.back().forward.end};
  for (const ChainStep& step : steps) {
    const auto b = at(step.block);
    if (step.kind == ChainStep::Kind::backward) {
      stage = Stage{blocks[b].backward.end};
      continue;
    }
    for (int op = blocks[b].forward.first; ran[b] && op < blocks[b].forward.end; ++op) {
      if (instance.max_computes(OpId(op)) > 1) plan.push_back({stage, OpId(op)});
    }
    ran[b] = true;
  }
  return without_unread(instance, plan);
}

std::vector<TrainingBlock> coarsened(std::span<const TrainingBlock> blocks, std::size_t most) {
  const std::size_t parts = std::min(most, blocks.size());
  // Part k has the blocks b with b * parts / blocks = k, rounded down: all parts are as even as can be.
  const auto part = [&](std::size_t b) { return b * parts / blocks.size(); };
  std::vector<TrainingBlock> joined;
  joined.reserve(most);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    if (b == 0 || part(b) != part(b - 1)) {
      joined.push_back(blocks[b]);
      continue;
    }
    joined.back().forward.end = blocks[b].forward.end;
    joined.back().backward.first = blocks[b].backward.first;
  }
  return joined;
}

bool PlanChoice::offer(const RecomputePlan& plan) {
  auto sequence = sequence_of(instance_, plan);
  const Evaluation evaluation = evaluate(instance_, sequence);
  if (offers_++ == 0 || better(instance_, evaluation.peak, evaluation.duration, peak_, duration_)) {
    best_ = std::move(sequence);
    duration_ = evaluation.duration;
    peak_ = evaluation.peak;
  }
  return evaluation.peak <= instance_.budget();
}

}  // namespace remora
