// SPDX-License-Identifier: Apache-2.0

#include "model/sequence.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "model/error.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

/// The plan of the sequence, or nothing if it is not of the staged form.
std::optional<RecomputePlan> staged_plan(const Instance& instance, std::span<const OpId> sequence) {
  RecomputePlan plan;
  Stage stage{0};
  for (const OpId op : sequence) {
    if (Stage{op} == stage) {
      ++stage;
      continue;
    }
    const Recompute next{stage, op};
    if (!op.valid() || Stage{op} > stage || (!plan.empty() && plan.back() >= next)) return std::nullopt;
    plan.push_back(next);
  }
  if (stage != instance.op_count()) return std::nullopt;
  return plan;
}

}  // namespace

int stages_of(const Instance& instance) {
  return instance.op_count() + (instance.kept().empty() ? 0 : 1);
}

Sequence sequence_of(const Instance& instance, std::span<const Recompute> plan) {
  Sequence sequence;
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

RecomputePlan within_limits(const Instance& instance, RecomputePlan plan) {
  Table<OpId, int> computes(instance.op_count(), 1);
  std::erase_if(
      plan, [&](const Recompute& recompute) { return ++computes[recompute.op] > instance.max_computes(recompute.op); });
  return plan;
}

std::vector<Compute> within_limits(const Instance& instance, std::span<const Compute> sequence) {
  std::vector<Compute> allowed;
  Table<OpId, int> computes(instance.op_count());
  for (const Compute& run : sequence) {
    if (++computes[run.op] <= instance.max_computes(run.op)) allowed.push_back(run);
  }
  return allowed;
}

Duration extra_duration(const Instance& instance, std::span<const Recompute> plan) {
  Duration total;
  for (const Recompute& recompute : plan) total += instance.duration(recompute.op);
  return total;
}

namespace {

/// Steps from the last to the first: what is resident before a step is what it and later ones read of earlier ones.
class BackwardReplay {
 public:
  explicit BackwardReplay(const Instance& instance)
      : instance_(instance),
        is_needed_(instance.tensor_count(), false),
        resident_(instance.base_memory()),
        peak_(instance.base_memory()) {
    for (const TensorId t : instance.kept()) need(t);
  }

  [[nodiscard]] bool serves(OpId op) const {
    return std::ranges::any_of(instance_.outputs(op), [&](TensorId t) { return is_needed_[t]; });
  }

  void run(OpId op) {
    Bytes here;
    for (const TensorId t : instance_.outputs(op)) {
      here += instance_.size(t);
      if (!is_needed_[t]) continue;
      is_needed_[t] = false;
      resident_ -= instance_.size(t);
    }
    here += workspace(op);
    for (const TensorId t : instance_.inputs(op)) need(t);
    peak_ = std::max(peak_, resident_ + here);
  }

  [[nodiscard]] Bytes peak() const { return peak_; }
  [[nodiscard]] bool has_all() const { return resident_ == instance_.base_memory(); }

 private:
  void need(TensorId t) {
    if (is_needed_[t]) return;
    is_needed_[t] = true;
    resident_ += instance_.size(t);
  }

  /// Beyond all that the step reads and writes. An inner peak may release inputs that no later step needs.
  [[nodiscard]] Bytes workspace(OpId op) const {
    if (!instance_.has_inner()) return instance_.workspace(op);
    const auto peaks = instance_.inner(op, 0);
    if (peaks.empty()) return instance_.workspace(op, 0);
    return highest_peak(peaks, [&](TensorId t) { return is_needed_[t] ? Bytes() : instance_.size(t); });
  }

  const Instance& instance_;
  Table<TensorId, bool> is_needed_;
  Bytes resident_{};
  Bytes peak_{};
};

}  // namespace

PlanEvaluation evaluate_plan(const Instance& instance, RecomputePlan plan) {
  PlanEvaluation result;
  BackwardReplay replay(instance);
  std::size_t next = plan.size();
  std::size_t first_kept = plan.size();
  for (int stage = instance.op_count(); stage >= 0; --stage) {
    if (stage < instance.op_count()) replay.run(OpId(stage));
    for (; next > 0 && plan[next - 1].stage == stage; --next) {
      const Recompute recompute = plan[next - 1];
      if (!replay.serves(recompute.op)) continue;
      replay.run(recompute.op);
      result.extra += instance.duration(recompute.op);
      plan[--first_kept] = recompute;
    }
  }
  ensure(replay.has_all(), "evaluate: an op comes before the producer of its input");
  plan.erase(plan.begin(), plan.begin() + static_cast<std::ptrdiff_t>(first_kept));
  result.plan = std::move(plan);
  result.peak = replay.peak();
  return result;
}

namespace {

/// By op: whether `after` says anything about it, as the one who waits or as the one who is waited for.
Table<OpId, bool> bound_by_after(const Instance& instance) {
  Table<OpId, bool> bound(instance.op_count());
  for (OpId op{0}; op < instance.op_count(); op = OpId(op + 1)) {
    for (const OpId earlier : instance.graph().ops[op].after) bound[op] = bound[earlier] = true;
  }
  return bound;
}

/// Takes useless computes out, one pass; false if there is none. Of an op's computes one stays.
bool drop_useless(const Instance& instance, const Table<OpId, bool>& bound, std::vector<Compute>& sequence) {
  const std::vector<bool> useful = useful_steps(instance, ops_of(sequence));
  Table<OpId, int> left(instance.op_count());
  for (const Compute& run : sequence) ++left[run.op];
  Table<OpId, bool> seen(left.size());
  std::vector<Compute> kept;
  kept.reserve(sequence.size());
  for (std::size_t step = 0; step < sequence.size(); ++step) {
    const OpId op = sequence[step].op;
    const bool may_go = left[op] > 1 && (seen[op] || !bound[op]);
    seen[op] = true;
    if (may_go && !useful[step]) {
      --left[op];
    } else {
      kept.push_back(sequence[step]);
    }
  }
  const bool dropped = kept.size() < sequence.size();
  sequence = std::move(kept);
  return dropped;
}

}  // namespace

bool is_free_sequence(const Instance& instance, std::span<const OpId> sequence) {
  Table<OpId, int> computes(instance.op_count());
  const auto done = [&](OpId op) { return computes[op] > 0; };
  for (const OpId op : sequence) {
    if (!op.valid() || op >= instance.op_count()) return false;
    const auto inputs = instance.inputs(op);
    if (!std::all_of(inputs.begin(), inputs.end(), [&](TensorId t) { return done(instance.producer(t)); }))
      return false;
    const auto& after = instance.graph().ops[op].after;
    if (!std::all_of(after.begin(), after.end(), done)) return false;
    if (++computes[op] > instance.max_computes(op)) return false;
  }
  return std::all_of(computes.begin(), computes.end(), [](int count) { return count > 0; });
}

bool is_permitted(const Instance& instance, const Sequence& sequence) {
  return is_free_sequence(instance, sequence) &&
         (instance.problem().order == OrderMode::free || is_staged(instance, sequence));
}

std::vector<bool> useful_steps(const Instance& instance, std::span<const OpId> sequence) {
  Table<OpId, std::int32_t> latest(instance.op_count(), -1);
  std::vector<bool> useful(sequence.size(), false);
  const auto use = [&](TensorId t) { useful[at(latest[instance.producer(t)])] = true; };
  for (std::size_t step = 0; step < sequence.size(); ++step) {
    for (const TensorId t : instance.inputs(sequence[step])) use(t);
    latest[sequence[step]] = static_cast<int>(step);
  }
  for (const TensorId t : instance.kept()) use(t);
  return useful;
}

std::vector<Compute> without_useless(const Instance& instance, std::vector<Compute> sequence) {
  if (std::ssize(sequence) == instance.op_count()) return sequence;
  const Table<OpId, bool> bound = bound_by_after(instance);
  while (drop_useless(instance, bound, sequence)) {
  }
  return sequence;
}

Sequence without_useless(const Instance& instance, Sequence sequence) {
  return ops_of(without_useless(instance, computes_of(sequence)));
}

std::vector<std::size_t> recompute_steps(const Instance& instance, std::span<const OpId> sequence) {
  Table<OpId, bool> seen(instance.op_count());
  std::vector<std::size_t> steps;
  for (std::size_t step = 0; step < sequence.size(); ++step) {
    if (seen[sequence[step]]) steps.push_back(step);
    seen[sequence[step]] = true;
  }
  return steps;
}

std::size_t next_use(const Instance& instance, std::span<const OpId> sequence, std::size_t step, TensorId tensor) {
  for (std::size_t later = step + 1; later < sequence.size(); ++later) {
    const auto inputs = instance.inputs(sequence[later]);
    if (std::find(inputs.begin(), inputs.end(), tensor) != inputs.end()) return later;
  }
  return sequence.size();
}

Order first_computes(const Instance& instance, std::span<const OpId> sequence) {
  Table<OpId, bool> seen(instance.op_count());
  Order order;
  order.reserve(seen.size());
  for (const OpId op : sequence) {
    if (!seen[op]) order.push_back(op);
    seen[op] = true;
  }
  return order;
}

}  // namespace remora
