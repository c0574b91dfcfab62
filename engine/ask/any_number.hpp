// SPDX-License-Identifier: Apache-2.0
//
// What holds however often ops run. A schedule that is proved for C computes an op may be beaten with more of them:
//
//     by reads        a recompute serves a read: those of its readers' first computes, of their recomputes, of the end
//     by stages       in the input order an op runs once a stage at most
//     by time         an op of duration d runs no more than (extra - 1) / d times again where all of it takes less than `extra`
//
// Where these allow no more than C computes, the proof is one for any number. Else the period relaxation is asked, which needs no
// columns for the computes of an op: with as many computes as could pay, its bound holds for any number (engine/bound/periods).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/bound/periods/period_proof.hpp"
#include "engine/search/prover.hpp"
#include "model/instance.hpp"
#include "model/types.hpp"

namespace remora {

/// By op: how often it runs at most in a schedule in which each recompute serves a read. `again`: the recomputes that stages and time
/// allow. The graph must be valid. O(edges).
Table<OpId, int> computes_that_pay(const Graph& graph, const std::function<std::int64_t(OpId)>& again);

class AnyNumber {
 public:
  /// `extra`: what a known schedule takes beyond the baseline. Of the instance its number of computes does not matter.
  AnyNumber(const Instance& instance, Duration extra);

  /// Whether no op may run more often than the instance allows in a shorter schedule.
  [[nodiscard]] bool is_within(const Instance& stated) const;

  /// Steps of the proof for any number, of which bound() says the result; empty where there is none. They share a state: one thread at
  /// a time, and ceilings that do not rise. May outlive this.
  [[nodiscard]] Prover::Step steps();

  /// No schedule with any number of computes takes less beyond the baseline. Not while steps are taken.
  [[nodiscard]] Duration bound() const { return proof_ ? std::min(extra_, proof_->bound) : Duration(0); }

 private:
  struct Proof {
    explicit Proof(Instance stated) : instance(std::move(stated)), periods(instance) {}

    Instance instance;
    PeriodProof periods;
    Duration bound{};
  };

  const Instance& instance_;
  Duration extra_;
  /// By op: how often it runs at most in a shorter schedule.
  Table<OpId, int> most_;
  std::shared_ptr<Proof> proof_{};
};

}  // namespace remora
