// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/free_order.hpp"

#include <algorithm>
#include <cstdint>

namespace remora {
namespace {

/// For each op the set of its ancestors, a bit an op: by data or by `after`.
class Ancestors {
 public:
  explicit Ancestors(const Instance& instance) : words_((static_cast<std::size_t>(instance.op_count()) + 63) / 64) {
    bits_.assign(words_ * static_cast<std::size_t>(instance.op_count()), 0);
    for (int v = 0; v < instance.op_count(); ++v) {
      const OpId op(v);
      for (const TensorId t : instance.inputs(op)) add(op, instance.producer(t));
      for (const OpId earlier : instance.graph().ops[op].after) add(op, earlier);
    }
  }

  [[nodiscard]] bool contains(OpId op, OpId ancestor) const {
    const auto index = static_cast<std::size_t>(std::int32_t{ancestor});
    return (row(op)[index / 64] >> (index % 64) & 1U) != 0;
  }

 private:
  [[nodiscard]] const std::uint64_t* row(OpId op) const {
    return bits_.data() + words_ * static_cast<std::size_t>(std::int32_t{op});
  }
  void add(OpId op, OpId ancestor) {
    std::uint64_t* own = bits_.data() + words_ * static_cast<std::size_t>(std::int32_t{op});
    const std::uint64_t* theirs = row(ancestor);
    for (std::size_t word = 0; word < words_; ++word) own[word] |= theirs[word];
    const auto index = static_cast<std::size_t>(std::int32_t{ancestor});
    own[index / 64] |= std::uint64_t{1} << (index % 64);
  }

  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

/// Whether the tensor is certainly needed after `op`'s first compute, beside being read by `op` itself.
bool needed_later(const Instance& instance, const Ancestors& ancestors, TensorId tensor, OpId op) {
  const auto users = instance.users(tensor);
  return instance.keep(tensor) ||
         std::any_of(users.begin(), users.end(), [&](OpId user) { return ancestors.contains(user, op); });
}

/// What the op's outputs hold across the event if it is not recomputed.
Bytes held_across(const Instance& instance, const Ancestors& ancestors, OpId op, OpId event) {
  const auto used = instance.inputs(event);
  Bytes total;
  for (const TensorId t : instance.outputs(op)) {
    const bool read_here = std::find(used.begin(), used.end(), t) != used.end();
    if (!read_here && needed_later(instance, ancestors, t, event)) total += instance.size(t);
  }
  return total;
}

}  // namespace

CoverProblem free_order_relaxation(const Instance& instance) {
  CoverProblem problem;
  problem.all_recomputes = instance.all_recomputes();
  for (int k = 0; k < instance.op_count(); ++k) {
    problem.excess.push_back(instance.footprint(OpId(k)) - instance.budget());
  }
  if (instance.op_count() > kMostOpsOfFreeRelaxation) return problem;
  const Ancestors ancestors(instance);
  for (int v = 0; v < instance.op_count(); ++v) {
    const OpId op(v);
    CoverItem item{op, instance.duration(op), {}, 1};
    for (int k = v + 1; k < instance.op_count(); ++k) {
      if (!ancestors.contains(OpId(k), op)) continue;
      const Bytes held = held_across(instance, ancestors, op, OpId(k));
      if (held == Bytes(0)) continue;
      problem.excess[static_cast<std::size_t>(k)] += held;
      const bool goes_on = !item.gaps.empty() && item.gaps.back().last == k - 1 && item.gaps.back().size == held;
      if (goes_on) {
        item.gaps.back().last = k;
      } else {
        item.gaps.push_back({k, k, held});
      }
    }
    if (!item.gaps.empty() && instance.max_computes(op) > 1) problem.items.push_back(std::move(item));
  }
  return problem;
}

}  // namespace remora
