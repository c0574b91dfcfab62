// SPDX-License-Identifier: Apache-2.0
//
// One problem to solve: a graph, a budget and limits, validated, indexed and constant.
//
// Everything downstream (evaluator, CP model, search, bound) reads an Instance and nothing else. Ops are numbered by
// the input topological order, so OpId v is also v's position and the stage that its first compute ends. Tensors that
// no op produces are inputs of the graph: they count in base_memory() and appear in no list of inputs.
//
// Where ops have several modes (model/modes.hpp), the amounts asked without a mode are the minimum over all modes: a
// lower bound for them is one for every choice. A workspace asked without a mode is reduced by the maximum that an op's
// `in_place` may save, and may then be negative.
//
// An Instance is safe to share between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/api.hpp"
#include "model/graph.hpp"
#include "model/modes.hpp"
#include "model/schedule.hpp"
#include "model/table.hpp"
#include "model/types.hpp"

namespace remora {

struct Problem {
  /// Maximum memory at any step, fixed memory and graph inputs included.
  Bytes budget = Bytes::max();
  /// C_v: how often an op may run, the first compute counted; an op's own limit may be smaller. At least 1.
  int max_computes = 2;
  /// Which of the two problems of remora-schedule 1 is stated.
  OrderMode order = OrderMode::input;
};

class REMORA_API Instance {
 public:
  /// Throws InputError where `validate(*graph)` would, for no graph, and for a negative budget or max_computes < 1.
  Instance(std::shared_ptr<const Graph> graph, const Problem& problem);

  [[nodiscard]] const Graph& graph() const { return *graph_; }
  [[nodiscard]] const std::shared_ptr<const Graph>& shared_graph() const { return graph_; }
  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] Bytes budget() const { return problem_.budget; }

  [[nodiscard]] int op_count() const { return static_cast<int>(graph_->ops.size()); }
  [[nodiscard]] int tensor_count() const { return static_cast<int>(graph_->tensors.size()); }
  [[nodiscard]] Ids<OpId> ops() const { return Ids<OpId>(graph_->ops.size()); }
  [[nodiscard]] Ids<TensorId> tensors() const { return Ids<TensorId>(graph_->tensors.size()); }

  [[nodiscard]] Duration duration(OpId op) const { return durations_[op]; }
  [[nodiscard]] Bytes workspace(OpId op) const { return workspaces_[op]; }
  /// C_v of this op: 1 where recomputing is not allowed or would be useless; no more than most_computes allows.
  [[nodiscard]] int max_computes(OpId op) const { return max_computes_[op]; }
  /// The produced tensors that `op` reads by some mode, each once.
  [[nodiscard]] std::span<const TensorId> inputs(OpId op) const { return inputs_[op]; }
  [[nodiscard]] std::span<const TensorId> outputs(OpId op) const { return outputs_[op]; }

  [[nodiscard]] Bytes size(TensorId tensor) const { return sizes_[tensor]; }
  [[nodiscard]] bool keep(TensorId tensor) const { return (*graph_)[tensor].keep; }
  /// The produced tensors that must be resident at the end.
  [[nodiscard]] std::span<const TensorId> kept() const { return kept_; }
  /// None for an input of the graph.
  [[nodiscard]] OpId producer(TensorId tensor) const { return producers_[tensor]; }
  /// The ops that read the tensor by some mode, in input order, each once.
  [[nodiscard]] std::span<const OpId> users(TensorId tensor) const { return users_[tensor]; }

  /// True if any op has modes of its own (Op::modes).
  [[nodiscard]] bool has_modes() const { return has_modes_; }
  /// How many modes the op has, mode 0 and those it lacks included.
  [[nodiscard]] int mode_count(OpId op) const;
  [[nodiscard]] bool offers(OpId op, ModeNumber mode) const;
  /// The amounts of a mode that the op offers.
  [[nodiscard]] Duration duration(OpId op, ModeNumber mode) const;
  [[nodiscard]] Bytes workspace(OpId op, ModeNumber mode) const;
  /// The mode's inner peaks, instead of a workspace if there are any. For an op without modes, that of the graph's
  /// `in_place`: the inputs' storage that the outputs take over is released before it.
  [[nodiscard]] std::span<const InnerPeak> inner(OpId op, ModeNumber mode) const;
  /// True if some mode, of any op or of this one, has inner peaks.
  [[nodiscard]] bool has_inner() const { return has_inner_; }
  [[nodiscard]] bool has_inner(OpId op) const;
  /// True if some op has an inner peak by the graph's `in_place`.
  [[nodiscard]] bool has_in_place() const { return !in_place_.empty(); }
  /// The tensor's size where its producer was computed with the mode.
  [[nodiscard]] Bytes size(TensorId tensor, ModeNumber mode) const;
  /// Its size by the mode of its producer, which it has, that leaves most.
  [[nodiscard]] Bytes largest(TensorId tensor) const;
  /// Maximum weight of the op's runs together, and the weight of each by its mode, at least 1.
  [[nodiscard]] int most_computes(OpId op) const;
  [[nodiscard]] int computes(OpId op, ModeNumber mode) const;
  /// True if some mode, of any op or of this one, leaves an input unread.
  [[nodiscard]] bool reads_differ() const { return reads_differ_; }
  [[nodiscard]] bool reads_differ(OpId op) const { return reads_differ_ && !readers_[op].empty(); }
  /// The modes that read the tensor, one of the op's inputs: a bit each, set for those the op lacks, too.
  [[nodiscard]] std::uint64_t readers(OpId op, TensorId input) const;
  [[nodiscard]] bool reads(OpId op, ModeNumber mode, TensorId input) const {
    return !reads_differ_ || (readers(op, input) >> static_cast<unsigned>(mode) & 1U) != 0;
  }
  /// The op whose mode each compute of `op` takes over, or none; and the other way round.
  [[nodiscard]] OpId leader(OpId op) const { return has_modes_ ? leaders_[op] : OpId::none(); }
  [[nodiscard]] std::span<const OpId> followers(OpId op) const;

  /// Fixed memory and the graph's inputs: resident at every step.
  [[nodiscard]] Bytes base_memory() const { return base_memory_; }
  /// Every op once, by its shortest mode.
  [[nodiscard]] Duration baseline_duration() const { return baseline_duration_; }
  /// Maximum duration of all allowed runs, each by its longest mode, beyond the baseline.
  [[nodiscard]] Duration all_recomputes() const { return all_recomputes_; }
  /// Bytes that must be resident at once while `op` runs: base memory, its inputs, outputs and workspace; by the mode
  /// that needs least, every input at its smallest size, at its highest inner peak with everything released that may
  /// be.
  [[nodiscard]] Bytes footprint(OpId op) const { return footprints_[op]; }

  /// The same graph, which is not validated again, with another budget or another problem; O(ops + edges). They throw
  /// InputError where the constructor would for the problem.
  [[nodiscard]] Instance with_budget(Bytes budget) const;
  [[nodiscard]] Instance with_problem(const Problem& problem) const;

 private:
  void index_tensors();
  void index_ops();
  void index_in_place();
  void index_modes();
  void index_readers();
  void index_followers();
  void index_footprints();
  void limit_computes();
  [[nodiscard]] const OpModes* further(OpId op) const;
  [[nodiscard]] const Mode& further(OpId op, ModeNumber mode) const;
  [[nodiscard]] std::span<const TensorId> unread(OpId op, ModeNumber mode) const;
  [[nodiscard]] Bytes min_footprint(OpId op) const;
  [[nodiscard]] int lightest(OpId op) const;
  [[nodiscard]] Bytes min_workspace(OpId op, ModeNumber mode) const;

  std::shared_ptr<const Graph> graph_;
  Problem problem_;
  Table<OpId, Duration> durations_;
  Table<OpId, Bytes> workspaces_;
  Table<OpId, int> max_computes_;
  Table<OpId, Bytes> footprints_;
  Table<TensorId, Bytes> sizes_;
  Table<TensorId, OpId> producers_;
  /// By op, at most one; no rows where no op has an `in_place` that could ever save something.
  Table<OpId, std::vector<InnerPeak>> in_place_;
  std::vector<TensorId> kept_;
  Adjacency<OpId, TensorId> inputs_;
  Adjacency<OpId, TensorId> outputs_;
  Adjacency<TensorId, OpId> users_;
  /// Only where ops have modes: the op's leader and its followers.
  Table<OpId, OpId> leaders_;
  Adjacency<OpId, OpId> followers_;
  /// For inputs_, the modes that read each; empty rows where every mode reads all, no rows where all ops do so.
  Adjacency<OpId, std::uint64_t> readers_;
  bool has_modes_ = false;
  bool reads_differ_ = false;
  bool has_inner_ = false;
  Bytes base_memory_{};
  Duration baseline_duration_{};
  Duration all_recomputes_{};
};

/// Makes the mode, inner peaks aside, the only one of an op of the instance's graph, or of a copy: first runs keep the
/// graph's order, whatever they read.
REMORA_API void run_by(const Instance& instance, const Mode& mode, OpId op, Graph& graph);

}  // namespace remora
