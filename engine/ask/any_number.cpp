// SPDX-License-Identifier: Apache-2.0
#include "engine/ask/any_number.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

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
  constexpr std::int64_t kMaximum = std::numeric_limits<int>::max();
  Table<TensorId, std::int64_t> reads(graph.tensors.size(), 0);
  Table<OpId, int> most(graph.ops.size(), 1);
  for (std::size_t v = graph.ops.size(); v-- > 0;) {
    const OpId op(v);
    const Op& own = graph[op];
    std::int64_t pays = 0;
    for (const TensorId t : own.outputs) pays += reads[t] + (graph[t].keep ? 1 : 0);
    const std::int64_t allowed = own.recompute ? own.max_computes.value_or(kMaximum) - 1 : 0;
    most[op] = static_cast<int>(1 + std::min({pays, allowed, kMaximum - 1, allowed > 0 ? again(op) : 0}));
    for (const TensorId t : own.inputs) reads[t] += most[op];
  }
  return most;
}

AnyNumber::AnyNumber(const Instance& instance, Duration extra, Duration bound)
    : instance_(instance), extra_(extra), known_bound_(bound), most_(most_computes(instance, extra)) {}

bool AnyNumber::is_within(const Instance& stated) const {
  // Where a mode weighs more than one compute, a larger number allows others.
  const auto weighs_more = [&](OpId op) {
    for (ModeNumber mode = 0; mode < stated.mode_count(op); ++mode) {
      if (stated.offers(op, mode) && stated.computes(op, mode) > 1) return true;
    }
    return false;
  };
  if (std::ranges::any_of(stated.ops(), weighs_more)) return false;
  return std::ranges::all_of(stated.ops(), [&](OpId op) { return most_[op] <= stated.max_computes(op); });
}

ProofUpdate AnyNumber::Proof::step(ProofLimits limits) {
  limits.cutoff = std::min(limits.cutoff, extra);
  ProofUpdate update = periods.step(limits);
  bound = std::max(bound.load(), update.bound.count());
  return update;
}

Prover::Step AnyNumber::steps(double seconds) {
  if (!has_plans(instance_)) return {};
  if (!PeriodProof::is_within_reach(instance_, seconds)) return {};
  if (!proof_) {
    int most = 1;
    std::int64_t left = std::numeric_limits<std::int64_t>::max();
    for (const OpId op : instance_.ops()) {
      // All of these are to fit in 64 bits.
      if (instance_.duration(op).count() > left / most_[op]) return {};
      left -= instance_.duration(op).count() * most_[op];
      most = std::max(most, most_[op]);
    }
    // Each op has its own limit: the relaxation says more of an op that runs twice at most.
    auto graph = std::make_shared<Graph>(instance_.graph());
    for (const OpId op : instance_.ops()) graph->ops[op].max_computes = most_[op];
    Problem problem = instance_.problem();
    problem.max_computes = most;
    proof_ = std::make_shared<Proof>(Instance(std::move(graph), problem), extra_);
  }
  return [proof = proof_](const ProofLimits& limits) { return proof->step(limits); };
}

Prover::Step AnyNumber::steps_before(const Instance& stated, double seconds) {
  const Prover::Step first = steps(seconds);
  if (!first) return {};
  return [first, own = std::make_shared<PeriodProof>(stated), is_first = true](const ProofLimits& limits) mutable {
    if (!std::exchange(is_first, false)) return own->step(limits);
    ProofUpdate update = first(limits);
    // If one relaxation fails, the other may still succeed.
    update.finished = update.infeasible || update.bound >= limits.cutoff;
    return update;
  };
}

Duration AnyNumber::bound() const {
  return std::min(extra_, proof_ ? std::max(known_bound_, Duration(proof_->bound.load())) : known_bound_);
}

}  // namespace remora
