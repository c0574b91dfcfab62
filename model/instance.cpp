// SPDX-License-Identifier: Apache-2.0
#include "model/instance.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "model/error.hpp"

namespace remora {
namespace {

void check_budget(Bytes budget) {
  if (budget < Bytes(0)) throw InputError("budget", "must not be negative");
}

void check_problem(const Problem& problem) {
  check_budget(problem.budget);
  if (problem.max_computes < 1) throw InputError::of_option("max_computes", "must be at least 1");
}

}  // namespace

Instance::Instance(std::shared_ptr<const Graph> graph, const Problem& problem)
    : graph_(std::move(graph)), problem_(problem) {
  if (graph_ == nullptr) throw InputError("graph", "there is none");
  validate(*graph_);
  check_problem(problem_);
  has_modes_ = remora::has_modes(*graph_);
  index_tensors();
  index_ops();
  index_in_place();
  if (has_modes_) index_modes();
  index_footprints();
  limit_computes();
}

Instance Instance::with_budget(Bytes budget) const {
  check_budget(budget);
  Instance copy = *this;
  copy.problem_.budget = budget;
  return copy;
}

Instance Instance::with_problem(const Problem& problem) const {
  check_problem(problem);
  Instance copy = *this;
  copy.problem_ = problem;
  copy.limit_computes();
  return copy;
}

void Instance::index_tensors() {
  producers_.assign(tensor_count(), OpId::none());
  sizes_.reserve(tensor_count());
  for (const Tensor& tensor : graph_->tensors) sizes_.push_back(tensor.size);
  for (const OpId v : ops()) {
    for (const TensorId t : (*graph_)[v].outputs) {
      producers_[t] = v;
      outputs_.push(t);
    }
    outputs_.end_row();
  }
  base_memory_ = graph_->fixed_memory;
  for (const TensorId t : tensors()) {
    if (!producers_[t].valid()) {
      base_memory_ += sizes_[t];
    } else if (keep(t)) {
      kept_.push_back(t);
    }
  }
}

void Instance::index_ops() {
  // Several reads of one tensor by one op are one.
  Table<TensorId, OpId> last_reader(tensor_count(), OpId::none());
  for (const OpId v : ops()) {
    const Op& op = (*graph_)[v];
    for (const TensorId t : op.inputs) {
      if (producers_[t].valid() && std::exchange(last_reader[t], v) != v) inputs_.push(t);
    }
    inputs_.end_row();
    durations_.push_back(op.duration);
    workspaces_.push_back(op.workspace);
  }
  users_ = {tensor_count(), [&](const auto& put) {
              for (const OpId v : ops()) {
                for (const TensorId t : inputs_[v]) put(t, v);
              }
            }};
}

/// After index_ops. Of graph inputs nothing is saved; ops of which the modes speak say their inner peaks there.
void Instance::index_in_place() {
  for (const OpId v : ops()) {
    if ((*graph_)[v].in_place.empty() || (*graph_)[v].modes) continue;
    InnerPeak peak{.workspace = workspaces_[v]};
    for (const InPlace& pair : (*graph_)[v].in_place) {
      if (!producers_[pair.input].valid() || sizes_[pair.output] == Bytes(0)) continue;
      peak.freed.emplace_back(pair.input, sizes_[pair.output]);
      workspaces_[v] -= std::min(sizes_[pair.output], sizes_[pair.input]);
    }
    if (peak.freed.empty()) continue;
    if (in_place_.empty()) in_place_.resize(op_count());
    in_place_[v].push_back(std::move(peak));
    has_inner_ = true;
  }
}

void Instance::index_footprints() {
  for (const OpId v : ops()) {
    footprints_.push_back(min_footprint(v));
    baseline_duration_ += durations_[v];
  }
}

void Instance::limit_computes() {
  Wide all_computes = 0;
  max_computes_.clear();
  for (const OpId v : ops()) {
    const Op& op = (*graph_)[v];
    // Nobody reads what a dead end computes a second time, unless it must be there at the end.
    const bool useful =
        std::any_of(op.outputs.begin(), op.outputs.end(), [&](TensorId t) { return !users_[t].empty() || keep(t); });
    const int own = op.recompute && useful ? op.max_computes.value_or(problem_.max_computes) : 1;
    // The staged form computes an op once a stage at most: in the stages from its first compute to the last one.
    const int stages = problem_.order == OrderMode::input ? op_count() - v + 1 : std::numeric_limits<int>::max();
    max_computes_.push_back(std::min({own, problem_.max_computes, stages, most_computes(v) / lightest(v)}));
    all_computes += Wide{longest_duration(op).count()} * max_computes_.back();
  }
  if (all_computes > std::numeric_limits<std::int64_t>::max()) {
    throw InputError::of_option("max_computes", "the durations of that many runs exceed 64 bits");
  }
  all_recomputes_ = Duration(static_cast<std::int64_t>(all_computes)) - baseline_duration_;
}

}  // namespace remora
