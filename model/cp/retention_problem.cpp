// SPDX-License-Identifier: Apache-2.0
#include "model/cp/retention_problem.hpp"

#include <algorithm>
#include <limits>

namespace remora::cp {
namespace {

/// After every event: the use of a tensor that must be there at the end.
constexpr Moment kEnd{std::numeric_limits<Stage>::max(), 0};

}  // namespace

RetentionProblem::RetentionProblem(const Instance& instance, std::span<const Recompute> plan,
                                   std::span<const OpId> free_ops, const Limits& limits, const Inferences& inferences)
    : instance_(instance), limits_(limits), inferences_(inferences) {
  collect_free_ops(plan, free_ops);
  collect_events();
  collect_touched();
  anchor_touched();
  collect_rest_memory();
  bound_useful_stages();
}

void RetentionProblem::collect_free_ops(std::span<const Recompute> plan, std::span<const OpId> free_ops) {
  free_of_op_.assign(static_cast<std::size_t>(instance_.op_count()), FreeId::none());
  for (const OpId op : free_ops) {
    const int copies = instance_.max_computes(op) - 1;
    if (copies < 1) continue;
    free_of_op_[op] = FreeId(free_ops_.size());
    free_ops_.push_back({op, instance_.duration(op), instance_.workspace(op), copy_count(), copies});
    copy_owner_.insert(copy_owner_.end(), static_cast<std::size_t>(copies), free_of_op_[op]);
  }
  incumbent_.assign(copy_owner_.size(), absent());
  std::vector<std::int32_t> seen(free_ops_.size(), 0);
  for (const Recompute& recompute : plan) {
    const FreeId owner = free_of_op_[recompute.op];
    if (!owner.valid()) {
      rest_plan_.push_back(recompute);
      rest_extra_ += instance_.duration(recompute.op);
    } else if (seen[owner] < free_ops_[owner].copies) {
      incumbent_[static_cast<std::size_t>(free_ops_[owner].first_copy) + static_cast<std::size_t>(seen[owner]++)] =
          recompute.stage;
    }
  }
}

void RetentionProblem::collect_events() {
  auto next = rest_plan_.begin();
  for (Stage stage = 0; stage <= instance_.op_count(); ++stage) {
    stage_begin_.push_back(static_cast<std::int32_t>(fixed_events_.size()));
    for (; next != rest_plan_.end() && next->stage == stage; ++next) fixed_events_.push_back({stage, next->op});
    if (stage < instance_.op_count()) fixed_events_.push_back({stage, stage});
  }
  stage_begin_.push_back(static_cast<std::int32_t>(fixed_events_.size()));
}

TouchedId RetentionProblem::touch(TensorId tensor) {
  TouchedId& id = touched_of_tensor_[tensor];
  if (!id.valid()) {
    id = TouchedId(touched_.size());
    touched_.push_back({tensor, instance_.size(tensor), free_of_op_[instance_.producer(tensor)]});
  }
  return id;
}

void RetentionProblem::collect_touched() {
  touched_of_tensor_.assign(static_cast<std::size_t>(instance_.tensor_count()), TouchedId::none());
  for (const FreeOp& free : free_ops_) {
    for (const TensorId t : instance_.outputs(free.op)) outputs_.push(touch(t));
    outputs_.end_row();
    for (const TensorId t : instance_.inputs(free.op)) inputs_.push(touch(t));
    inputs_.end_row();
  }
}

void RetentionProblem::anchor_touched() {
  // One pass over the fixed events sorts every touched tensor's computes and uses by moment.
  std::vector<std::vector<Anchor>> computes(touched_.size());
  std::vector<std::vector<Anchor>> uses(touched_.size());
  for (std::size_t position = 0; position < fixed_events_.size(); ++position) {
    const Anchor anchor{fixed_events_[position], static_cast<std::int32_t>(2 * position + 1)};
    const OpId op(anchor.moment.op);
    for (const TensorId t : instance_.outputs(op)) {
      if (const TouchedId id = touched_of_tensor_[t]; id.valid()) computes[id].push_back(anchor);
    }
    for (const TensorId t : instance_.inputs(op)) {
      if (const TouchedId id = touched_of_tensor_[t]; id.valid()) uses[id].push_back(anchor);
    }
  }
  const auto last_slot = static_cast<std::int32_t>(2 * fixed_events_.size());
  for (std::size_t t = 0; t < touched_.size(); ++t) {
    if (instance_.keep(touched_[t].tensor)) uses[t].push_back({kEnd, last_slot});
    for (const Anchor& anchor : computes[t]) fixed_computes_.push(anchor);
    fixed_computes_.end_row();
    for (const Anchor& anchor : uses[t]) fixed_uses_.push(anchor);
    fixed_uses_.end_row();
    for (const OpId user : instance_.users(touched_[t].tensor)) {
      if (free_of_op_[user].valid()) free_users_.push(free_of_op_[user]);
    }
    free_users_.end_row();
  }
}

void RetentionProblem::collect_rest_memory() {
  // Untouched tensors are neither written nor read by free ops: the fixed events settle their intervals.
  const std::size_t slots = 2 * fixed_events_.size() + 1;
  rest_memory_.assign(slots + 1, Bytes(0));
  std::vector<std::int32_t> first(static_cast<std::size_t>(instance_.tensor_count()), -1);
  std::vector<std::int32_t> last(first.size(), -1);
  const auto close = [&](TensorId t) {
    if (first[static_cast<std::size_t>(t)] < 0) return;
    rest_memory_[static_cast<std::size_t>(first[static_cast<std::size_t>(t)])] += instance_.size(t);
    rest_memory_[static_cast<std::size_t>(last[static_cast<std::size_t>(t)]) + 1] -= instance_.size(t);
  };
  for (std::size_t position = 0; position < fixed_events_.size(); ++position) {
    const OpId op(fixed_events_[position].op);
    const auto slot = static_cast<std::int32_t>(2 * position + 1);
    for (const TensorId t : instance_.inputs(op)) last[static_cast<std::size_t>(t)] = slot;
    for (const TensorId t : instance_.outputs(op)) {
      if (touched_of_tensor_[t].valid()) continue;
      close(t);
      first[static_cast<std::size_t>(t)] = last[static_cast<std::size_t>(t)] = slot;
    }
  }
  for (int t = 0; t < instance_.tensor_count(); ++t) {
    if (touched_of_tensor_[static_cast<std::size_t>(t)].valid()) continue;
    if (instance_.keep(TensorId(t))) last[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(slots) - 1;
    close(TensorId(t));
  }
  Bytes resident = instance_.base_memory();
  for (std::size_t slot = 0; slot < slots; ++slot) {
    resident += rest_memory_[slot];
    rest_memory_[slot] = resident;
  }
  rest_memory_.pop_back();
  for (std::size_t position = 0; position < fixed_events_.size(); ++position) {
    rest_memory_[2 * position + 1] += instance_.workspace(OpId(fixed_events_[position].op));
  }
}

void RetentionProblem::bound_useful_stages() {
  latest_useful_.assign(free_ops_.size(), static_cast<Stage>(instance_.op_count()));
  if (!inferences_.useless_recompute) return;
  for (std::size_t f = free_ops_.size(); f-- > 0;) {
    Stage latest = 0;
    for (const TouchedId t : outputs_[FreeId(f)]) {
      if (!fixed_uses_[t].empty()) latest = std::max(latest, fixed_uses_[t].back().moment.stage);
      for (const FreeId user : free_users_[t]) latest = std::max(latest, latest_useful_[user]);
    }
    latest_useful_[f] = std::min(latest, static_cast<Stage>(instance_.op_count()));
  }
}

int RetentionProblem::gap_slot(Stage stage, OpId op) const {
  std::int32_t position = stage_begin_[static_cast<std::size_t>(stage)];
  const std::int32_t end = stage_begin_[static_cast<std::size_t>(stage) + 1];
  while (position < end && fixed_events_[static_cast<std::size_t>(position)].op < op) ++position;
  return 2 * position;
}

RetentionProblem::StageRange RetentionProblem::stages_between(OpId op, Moment after, Moment before) {
  const Stage first = op > after.op ? after.stage : after.stage + 1;
  return {first, last_stage_before(op, before)};
}

RecomputePlan RetentionProblem::plan_with(std::span<const Stage> copy_stages) const {
  RecomputePlan plan = rest_plan_;
  for (std::size_t copy = 0; copy < copy_stages.size(); ++copy) {
    if (copy_stages[copy] != absent()) plan.push_back({copy_stages[copy], free_ops_[copy_owner_[copy]].op});
  }
  std::sort(plan.begin(), plan.end());
  return plan;
}

}  // namespace remora::cp
