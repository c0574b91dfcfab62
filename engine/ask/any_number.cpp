// SPDX-License-Identifier: Apache-2.0
#include "engine/ask/any_number.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "engine/ask/problem.hpp"

namespace remora {
namespace {

/// By stages and by time.
Table<OpId, int> most_computes(const Instance& instance, Duration extra) {
  return computes_that_pay(instance.graph(), [&](OpId op) {
    std::int64_t again = std::numeric_limits<std::int64_t>::max();
    if (instance.problem().order == OrderMode::input) again = instance.op_count() - op;
    if (instance.duration(op) > Duration(0)) {
      again = std::min(again, std::max<std::int64_t>(0, extra.count() - 1) / instance.duration(op).count());
    }
    return again;
  });
}

}  // namespace

Table<OpId, int> computes_that_pay(const Graph& graph, const std::function<std::int64_t(OpId)>& again) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  Table<TensorId, std::int64_t> reads(graph.tensors.size(), 0);
  Table<OpId, int> most(graph.ops.size(), 1);
  for (std::size_t v = graph.ops.size(); v-- > 0;) {
    const OpId op(v);
    const Op& own = graph[op];
    std::int64_t pays = 0;
    for (const TensorId t : own.outputs) pays += reads[t] + (graph[t].keep ? 1 : 0);
    const std::int64_t allowed = own.recompute ? own.max_computes.value_or(kMost) - 1 : 0;
    most[op] = static_cast<int>(1 + std::min({pays, allowed, kMost - 1, allowed > 0 ? again(op) : 0}));
    for (const TensorId t : own.inputs) reads[t] += most[op];
  }
  return most;
}

AnyNumber::AnyNumber(const Instance& instance, Duration extra)
    : instance_(instance), extra_(extra), most_(most_computes(instance, extra)) {}

bool AnyNumber::is_within(const Instance& stated) const {
  // Where a mode weighs more than one compute, a larger number allows others.
  const auto weighs_more = [&](OpId op) {
    for (ModeNumber mode = 0; mode < stated.mode_count(op); ++mode) {
      if (stated.offers(op, mode) && stated.computes(op, mode) > 1) return true;
    }
    return false;
  };
  if (stated.has_modes() && std::ranges::any_of(stated.ops(), weighs_more)) return false;
  return std::ranges::all_of(stated.ops(), [&](OpId op) { return most_[op] <= stated.max_computes(op); });
}

Prover::Step AnyNumber::steps() {
  if (instance_.has_modes() || instance_.problem().order != OrderMode::input) return {};
  if (!PeriodProof::is_within_reach(instance_)) return {};
  int most = 1;
  for (const OpId op : instance_.ops()) most = std::max(most, most_[op]);
  // So many computes of all ops are to fit in 64 bits.
  if (instance_.baseline_duration().count() > std::numeric_limits<std::int64_t>::max() / most) return {};
  if (!proof_) proof_ = std::make_shared<Proof>(with_computes(instance_, most));
  return [proof = proof_](const ProofLimits& limits) {
    ProofNews news = proof->periods.step(limits);
    proof->bound = std::max(proof->bound, news.bound);
    return news;
  };
}

}  // namespace remora
