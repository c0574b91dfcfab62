// SPDX-License-Identifier: Apache-2.0
#include "model/free_sequence.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "model/evaluate.hpp"
#include "model/recompute_plan.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

/// By op: whether `after` says anything about it, as the one who waits or as the one who is waited for.
Table<OpId, bool> bound_by_after(const Instance& instance) {
  Table<OpId, bool> bound(instance.op_count());
  for (OpId op{0}; op < instance.op_count(); op = OpId(op + 1)) {
    for (const OpId earlier : instance.graph().ops[op].after) bound[op] = bound[earlier] = true;
  }
  return bound;
}

/// By step: whether it is read, or what it writes stays to the end because it must.
std::vector<bool> serving_steps(const Instance& instance, std::span<const OpId> sequence) {
  std::vector<bool> serves(sequence.size(), false);
  const int last = static_cast<int>(sequence.size()) - 1;
  for (const RetentionInterval& interval : evaluate(instance, sequence).intervals) {
    const bool stays = instance.keep(interval.tensor) && interval.last_step == last;
    if (interval.last_step > interval.first_step || stays) serves[at(interval.first_step)] = true;
  }
  return serves;
}

/// Takes useless computes out, one pass; false if there is none. Of an op's computes one stays.
bool drop_useless(const Instance& instance, const Table<OpId, bool>& bound, std::vector<OpId>& sequence) {
  const std::vector<bool> serves = serving_steps(instance, sequence);
  Table<OpId, int> left(instance.op_count());
  for (const OpId op : sequence) ++left[op];
  Table<OpId, bool> seen(left.size());
  std::vector<OpId> kept;
  kept.reserve(sequence.size());
  for (std::size_t step = 0; step < sequence.size(); ++step) {
    const OpId op = sequence[step];
    const bool may_go = left[op] > 1 && (seen[op] || !bound[op]);
    seen[op] = true;
    if (may_go && !serves[step]) {
      --left[op];
    } else {
      kept.push_back(op);
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

bool is_permitted(const Instance& instance, const std::vector<OpId>& sequence) {
  return is_free_sequence(instance, sequence) &&
         (instance.problem().order == OrderMode::free || is_staged(instance, sequence));
}

std::vector<OpId> without_useless(const Instance& instance, std::vector<OpId> sequence) {
  if (std::ssize(sequence) == instance.op_count()) return sequence;
  const Table<OpId, bool> bound = bound_by_after(instance);
  while (drop_useless(instance, bound, sequence)) {
  }
  return sequence;
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

std::vector<OpId> first_computes(const Instance& instance, std::span<const OpId> sequence) {
  Table<OpId, bool> seen(instance.op_count());
  std::vector<OpId> order;
  order.reserve(seen.size());
  for (const OpId op : sequence) {
    if (!seen[op]) order.push_back(op);
    seen[op] = true;
  }
  return order;
}

}  // namespace remora
