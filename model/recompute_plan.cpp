// SPDX-License-Identifier: Apache-2.0
#include "model/recompute_plan.hpp"

#include <algorithm>
#include <optional>

#include "model/ensure.hpp"

namespace remora {
namespace {

/// The plan of the sequence, or nothing if it is not of the staged form.
std::optional<RecomputePlan> staged_plan(const Instance& instance, std::span<const OpId> sequence) {
  RecomputePlan plan;
  int stage = 0;
  for (const OpId op : sequence) {
    if (op == stage) {
      ++stage;
      continue;
    }
    const Recompute next{stage, op};
    if (!op.valid() || op > stage || (!plan.empty() && plan.back() >= next)) return std::nullopt;
    plan.push_back(next);
  }
  if (stage != instance.op_count()) return std::nullopt;
  return plan;
}

/// For each step of the sequence, whether some later step (or the end) reads what it computes.
std::vector<bool> useful_steps(const Instance& instance, std::span<const OpId> sequence) {
  Table<OpId, std::int32_t> latest(instance.op_count(), -1);
  std::vector<bool> useful(sequence.size(), false);
  const auto use = [&](TensorId t) { useful[at(latest[instance.producer(t)])] = true; };
  for (std::size_t step = 0; step < sequence.size(); ++step) {
    for (const TensorId t : instance.inputs(sequence[step])) use(t);
    latest[sequence[step]] = static_cast<int>(step);
  }
  for (const TensorId t : instance.tensors()) {
    if (instance.keep(t) && instance.producer(t).valid()) use(t);
  }
  return useful;
}

}  // namespace

std::vector<OpId> sequence_of(const Instance& instance, std::span<const Recompute> plan) {
  std::vector<OpId> sequence;
  sequence.reserve(at(instance.op_count()) + plan.size());
  auto next = plan.begin();
  for (int stage = 0; stage <= instance.op_count(); ++stage) {
    for (; next != plan.end() && next->stage == stage; ++next) sequence.push_back(next->op);
    if (stage < instance.op_count()) sequence.emplace_back(stage);
  }
  return sequence;
}

bool is_staged(const Instance& instance, std::span<const OpId> sequence) {
  return staged_plan(instance, sequence).has_value();
}

RecomputePlan plan_of(const Instance& instance, std::span<const OpId> sequence) {
  auto plan = staged_plan(instance, sequence);
  ensure(plan.has_value(), "plan_of: the sequence is not of the staged form");
  return *std::move(plan);
}

RecomputePlan without_useless(const Instance& instance, RecomputePlan plan) {
  for (;;) {
    const auto sequence = sequence_of(instance, plan);
    const auto useful = useful_steps(instance, sequence);
    RecomputePlan kept;
    std::size_t step = 0;
    for (const Recompute& recompute : plan) {
      // In stage k, k first computes lie before the stage's recomputes.
      if (useful[step++ + at(recompute.stage)]) kept.push_back(recompute);
    }
    if (kept.size() == plan.size()) return plan;
    plan = std::move(kept);
  }
}

RecomputePlan within_limits(const Instance& instance, RecomputePlan plan) {
  Table<OpId, int> computes(instance.op_count(), 1);
  std::erase_if(
      plan, [&](const Recompute& recompute) { return ++computes[recompute.op] > instance.max_computes(recompute.op); });
  return plan;
}

Duration extra_duration(const Instance& instance, std::span<const Recompute> plan) {
  Duration total;
  for (const Recompute& recompute : plan) total += instance.duration(recompute.op);
  return total;
}

}  // namespace remora
