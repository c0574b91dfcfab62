// SPDX-License-Identifier: Apache-2.0
//
// One problem to solve: a graph, a budget and limits, validated, indexed and constant.
//
// Everything downstream (evaluator, CP model, search, bound) reads an Instance and nothing else. Ops are numbered by
// the input topological order, so OpId v is also v's position and the stage that its first compute ends. Tensors that
// no op produces are inputs of the graph: they count in base_memory() and appear in no list of inputs.
//
// An Instance is safe to share between threads.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/adjacency.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"
#include "model/types.hpp"

namespace remora {

struct InstanceOptions {
  /// What memory may hold at any step, fixed memory and graph inputs included.
  Bytes budget = Bytes::max();
  /// C_v: how often an op may run, the first compute counted; an op's own limit may be smaller. At least 1.
  int max_computes = 2;
};

class Instance {
 public:
  /// Throws InputError where `validate(*graph)` would, and for a negative budget or max_computes < 1.
  Instance(std::shared_ptr<const Graph> graph, const InstanceOptions& options);

  [[nodiscard]] const Graph& graph() const { return *graph_; }
  [[nodiscard]] const std::shared_ptr<const Graph>& shared_graph() const { return graph_; }
  [[nodiscard]] const InstanceOptions& options() const { return options_; }
  [[nodiscard]] Bytes budget() const { return options_.budget; }

  [[nodiscard]] int op_count() const { return static_cast<int>(graph_->ops.size()); }
  [[nodiscard]] int tensor_count() const { return static_cast<int>(graph_->tensors.size()); }

  [[nodiscard]] Duration duration(OpId op) const { return durations_[op]; }
  [[nodiscard]] Bytes workspace(OpId op) const { return graph_->ops[op].workspace; }
  /// C_v of this op: 1 where recomputing is not allowed or would serve nobody.
  [[nodiscard]] int max_computes(OpId op) const { return max_computes_[op]; }
  /// The produced tensors that `op` reads, each once.
  [[nodiscard]] std::span<const TensorId> inputs(OpId op) const { return inputs_[op]; }
  [[nodiscard]] std::span<const TensorId> outputs(OpId op) const { return graph_->ops[op].outputs; }

  [[nodiscard]] Bytes size(TensorId tensor) const { return sizes_[tensor]; }
  [[nodiscard]] bool keep(TensorId tensor) const { return graph_->tensors[tensor].keep; }
  /// None for an input of the graph.
  [[nodiscard]] OpId producer(TensorId tensor) const { return producers_[tensor]; }
  /// The ops that read the tensor, in input order, each once.
  [[nodiscard]] std::span<const OpId> users(TensorId tensor) const { return users_[tensor]; }

  /// Fixed memory and the graph's inputs: resident at every step.
  [[nodiscard]] Bytes base_memory() const { return base_memory_; }
  /// Every op once.
  [[nodiscard]] Duration baseline_duration() const { return baseline_duration_; }
  /// What all recomputes that are allowed cost together.
  [[nodiscard]] Duration all_recomputes() const { return all_recomputes_; }
  /// What must be resident at once while `op` runs: base memory, its inputs, outputs and workspace.
  [[nodiscard]] Bytes footprint(OpId op) const { return footprints_[op]; }

  /// The same graph with another budget; O(ops + edges).
  [[nodiscard]] Instance with_budget(Bytes budget) const;

 private:
  void index_tensors();
  void index_ops();
  void limit_computes();

  std::shared_ptr<const Graph> graph_;
  InstanceOptions options_;
  std::vector<Duration> durations_;
  std::vector<int> max_computes_;
  std::vector<Bytes> footprints_;
  std::vector<Bytes> sizes_;
  std::vector<OpId> producers_;
  Adjacency<OpId, TensorId> inputs_;
  Adjacency<TensorId, OpId> users_;
  Bytes base_memory_{};
  Duration baseline_duration_{};
  Duration all_recomputes_{};
};

}  // namespace remora
