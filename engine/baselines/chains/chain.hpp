// SPDX-License-Identifier: Apache-2.0
//
// A chain of blocks to train, as Rotor and Rockmate see it (Beaumont et al. 2019; Zhao et al. 2023, appendix C): what
// it costs to run a block's forward part with or without keeping what its backward part needs.
//
//     x0 -> [block 0] -> x1 -> [block 1] -> x2 ...    forward
//     d0 <- [block 0] <- d1 <- [block 1] <- d2 ...    backward; block b's reads d_(b+1), what an option saved, x_b
//
// Nothing here knows of ops: a block may be a group of a hierarchy with one option for each schedule of its inside.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/baselines/chains/block_chain.hpp"
#include "model/instance.hpp"
#include "model/sequence.hpp"
#include "model/types.hpp"

namespace remora {

/// One run of a block's forward or backward part.
struct BlockRun {
  Duration duration{};
  /// The most memory at any moment of the run, of everything that is the block's own: its outputs, what it saves or
  /// saved, temporaries, for backward runs the gradients d_(b+1) and d_b too. Its input x_b is not counted, and neither
  /// is, for forward runs, any gradient.
  Bytes peak{};
};

/// One way to run a block such that its backward part can run.
struct BlockOption {
  /// Memory kept from the forward run until the backward run: all of the block's own that the latter reads,
  /// the output x_(b+1) if that is among it.
  Bytes saved{};
  /// True if the backward run reads x_b, which then stays too, and x_(b+1). The papers' always read x_b.
  bool reads_input = true;
  bool reads_output = false;
  BlockRun forward{};
  /// The same where the blocks behind are done already, so that the output is not wanted for its own sake. The last
  /// block of a chain always runs so.
  BlockRun alone{};
  BlockRun backward{};
};

struct ChainBlock {
  /// x_b.
  Bytes input{};
  /// d_b: what is in memory between the backward runs of blocks b and b-1 on behalf of the latter and those before it.
  Bytes gradient{};
  /// The forward run that saves nothing but its output.
  BlockRun pass{};
  /// At least one.
  std::vector<BlockOption> options{};
};

struct Chain {
  std::vector<ChainBlock> blocks{};
  /// Memory allocated for the last block's backward run before it; 0 where the loss belongs to the last block.
  Bytes gradient{};
};

/// One run of a schedule.
struct ChainStep {
  enum class Kind {
    pass_on,  ///< forward without saving; the input x_b is released (the papers' F_none)
    pass,     ///< forward without saving; the input stays (F_ck)
    save,     ///< forward with an option (F_all, F^o); the input stays if the backward run reads it
    alone,    ///< the same with the output not wanted
    backward
  };
  Kind kind = Kind::pass;
  int block = 0;
  /// Number among the block's; -1 for runs that save nothing.
  int option = -1;

  friend bool operator==(const ChainStep&, const ChainStep&) = default;
};

/// From the blocks of a training graph to the chain of costs that Rotor's dynamic program takes.
///
/// Each block has one option, to save all that its backward ops read. Peaks are sums over what is alive at each op of
/// the block alone, so they are exact for the block's own tensors; what makes them conservative is that a block's input
/// counts as long as the block runs forward and, if its backward ops read it, as long as they run.
///
/// Durations are of the ops that may run again; what runs once adds the same to every schedule. `alone` runs only what
/// the backward ops need, the last block excepted, whose one run is the first one.
///
/// O(ops + edges). The amounts leave out the base memory and pinned tensors.
Chain chain_costs(const Instance& instance, std::span<const TrainingBlock> blocks);

/// Base memory and the pinned tensors of the first `forward` ops: resident beside the chain.
Bytes memory_beside_chain(const Instance& instance, int forward);

/// Memory of a chain for the schedule that runs everything once, counted as RotorTable counts; one option a block.
Bytes memory_to_save_all(const Chain& chain);

// From a schedule of a chain of blocks to a plan of ops: the first run of a block's forward part is its ops' first
// computes, every further run, forward only, recomputes the ops that may run again, in the stage of the next backward
// op. Between two backward blocks a schedule's forward runs ascend, so that the plan is of the staged form.

/// Without recomputes that nobody reads. O(steps of the plan + their inputs and outputs).
RecomputePlan expand(const Instance& instance, std::span<const TrainingBlock> blocks, std::span<const ChainStep> steps);

/// No more than `most` blocks: as many neighbours at a time joined to one as that takes.
std::vector<TrainingBlock> coarsened(std::span<const TrainingBlock> blocks, std::size_t most);

/// The shortest offered plan within the budget; without any, the one with the lowest peak.
class PlanChoice {
 public:
  explicit PlanChoice(const Instance& instance) : instance_(instance) {}

  /// True if the plan holds the budget. One evaluation.
  bool offer(const RecomputePlan& plan);

  /// True if any plan held the budget.
  [[nodiscard]] bool holds() const { return offers_ > 0 && peak_ <= instance_.budget(); }
  /// The best plan's sequence; empty before the first offer.
  [[nodiscard]] const Sequence& best() const { return best_; }
  [[nodiscard]] std::int64_t offers() const { return offers_; }

 private:
  const Instance& instance_;
  Sequence best_;
  Duration duration_{};
  Bytes peak_{};
  std::int64_t offers_ = 0;
};

}  // namespace remora
