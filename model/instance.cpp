// SPDX-License-Identifier: Apache-2.0
#include "model/instance.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "model/error.hpp"

namespace remora {

Instance::Instance(std::shared_ptr<const Graph> graph, const InstanceOptions& options,
                   std::shared_ptr<const ComputeOptions> compute_options)
    : graph_(std::move(graph)), options_(options), compute_options_(std::move(compute_options)) {
  if (graph_ == nullptr) throw InputError("graph", "there is none");
  validate(*graph_);
  if (options_.budget < Bytes(0)) throw InputError("budget", "must not be negative");
  if (options_.max_computes < 1) throw InputError("max_computes", "must be at least 1");
  index_tensors();
  index_ops();
  if (has_options()) index_options();
  limit_computes();
}

Instance Instance::with_budget(Bytes budget) const {
  if (budget < Bytes(0)) throw InputError("budget", "must not be negative");
  Instance copy = *this;
  copy.options_.budget = budget;
  return copy;
}

void Instance::index_tensors() {
  const auto tensors = graph_->tensors.size();
  producers_.assign(tensors, OpId::none());
  sizes_.reserve(tensors);
  for (const Tensor& tensor : graph_->tensors) sizes_.push_back(tensor.size);
  for (int v = 0; v < op_count(); ++v) {
    for (const TensorId t : graph_->ops[static_cast<std::size_t>(v)].outputs) producers_[t] = OpId(v);
  }
  base_memory_ = graph_->fixed_memory;
  for (std::size_t t = 0; t < tensors; ++t) {
    if (!producers_[t].valid()) base_memory_ += sizes_[t];
  }
}

void Instance::index_ops() {
  std::vector<std::vector<OpId>> users(graph_->tensors.size());
  for (int v = 0; v < op_count(); ++v) {
    const Op& op = graph_->ops[static_cast<std::size_t>(v)];
    std::vector<TensorId> inputs;
    for (const TensorId t : op.inputs) {
      if (producers_[t].valid() && std::find(inputs.begin(), inputs.end(), t) == inputs.end()) inputs.push_back(t);
    }
    for (const TensorId t : inputs) {
      inputs_.push(t);
      users[t].push_back(OpId(v));
    }
    inputs_.end_row();
    durations_.push_back(op.duration);
    workspaces_.push_back(op.workspace);
  }
  for (const auto& row : users) {
    for (const OpId v : row) users_.push(v);
    users_.end_row();
  }
}

void Instance::limit_computes() {
  Wide all_computes = 0;
  for (int v = 0; v < op_count(); ++v) {
    const OpId id(v);
    const Op& op = graph_->ops[static_cast<std::size_t>(v)];
    footprints_.push_back(least_footprint(id));
    baseline_duration_ += durations_[id];
    // Nobody reads what a dead end computes a second time, unless it must be there at the end.
    const bool useful = std::any_of(op.outputs.begin(), op.outputs.end(),
                                    [&](TensorId t) { return !users_[t].empty() || graph_->tensors[t].keep; });
    const int own = op.recompute && useful ? op.max_computes.value_or(options_.max_computes) : 1;
    // The staged form computes an op once a stage at most: in the stages from its first compute to the last one.
    const int stages = options_.order == OrderMode::input ? op_count() - v + 1 : std::numeric_limits<int>::max();
    max_computes_.push_back(std::min({own, options_.max_computes, stages, most_computes(id) / lightest(id)}));
    all_computes += Wide{longest(id).count()} * max_computes_.back();
  }
  if (all_computes > std::numeric_limits<std::int64_t>::max()) {
    throw InputError("max_computes", "the durations of so many computes don't fit in 64 bits");
  }
  all_recomputes_ = Duration(static_cast<std::int64_t>(all_computes)) - baseline_duration_;
}

}  // namespace remora
