// SPDX-License-Identifier: Apache-2.0
#include "engine/ask/any_number.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "engine/ask/problem.hpp"

namespace remora {
namespace {

/// By op: the first compute, and recomputes of which each serves a read. Readers come behind their producers.
Table<OpId, int> computes_that_pay(const Instance& instance, Duration extra) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  Table<OpId, int> most(instance.op_count(), 1);
  for (int v = instance.op_count(); v-- > 0;) {
    const OpId op(v);
    const Op& own = instance.graph()[op];
    std::int64_t again = own.recompute ? own.max_computes.value_or(kMost) - 1 : 0;
    if (instance.problem().order == OrderMode::input) again = std::min<std::int64_t>(again, instance.op_count() - v);
    if (instance.duration(op) > Duration(0)) {
      again = std::min(again, std::max<std::int64_t>(0, extra.count() - 1) / instance.duration(op).count());
    }
    std::int64_t reads = 0;
    for (const TensorId t : instance.outputs(op)) {
      reads += instance.keep(t) ? 1 : 0;
      for (const OpId reader : instance.users(t)) reads += most[reader];
    }
    most[op] = static_cast<int>(std::min({1 + again, 1 + reads, kMost}));
  }
  return most;
}

}  // namespace

AnyNumber::AnyNumber(const Instance& instance, Duration extra)
    : instance_(instance), extra_(extra), most_(computes_that_pay(instance, extra)) {}

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
