// SPDX-License-Identifier: Apache-2.0
//
// Facts that hold however often ops run. A schedule that is proved for C computes an op may be beaten with more of
// them:
//
//     by reads        a recompute serves a read: those of its readers' first computes, of their recomputes, of the end
//     by stages       in the input order an op runs once a stage at most
//     by time         an op of duration d runs no more than (extra - 1) / d times again where all of it takes less than `extra`
//
// Where these allow no op more than C evaluations, the proof for C holds for any number. Otherwise the period relaxation is solved, which
// needs no columns for the evaluations of an op: where it allows each op as many as these limits do, its bound holds for any number
// (engine/bound/periods).
#pragma once

#include <atomic>
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
  /// `extra`: what a known schedule takes beyond the baseline; the largest duration if none is known. `bound`: what is proved already.
  /// The instance's own number of computes does not matter.
  AnyNumber(const Instance& instance, Duration extra, Duration bound = Duration(0));

  [[nodiscard]] Duration extra() const { return extra_; }

  /// True if no op may run more often than the instance allows in a shorter schedule.
  [[nodiscard]] bool is_within(const Instance& stated) const;

  /// Steps of the proof for any number, of which bound() says the result; empty where there is none. They share a
  /// state: one thread at a time, and cutoffs that do not rise. May outlive this. `seconds`: the time limit.
  [[nodiscard]] Prover::Step steps(double seconds);
  /// The first of them, then those of the period relaxation of `stated`, which allows fewer computes and outlives them; empty where
  /// there are none.
  [[nodiscard]] Prover::Step steps_before(const Instance& stated, double seconds);

  /// No schedule with any number of computes takes less beyond the baseline. From any thread.
  [[nodiscard]] Duration bound() const;

 private:
  struct Proof {
    Proof(Instance stated, Duration below) : instance(std::move(stated)), extra(below), periods(instance) {}
    ProofUpdate step(ProofLimits limits);

    Instance instance;
    /// The limits hold for schedules that take less than this.
    Duration extra;
    PeriodProof periods;
    std::atomic<std::int64_t> bound{0};
  };

  const Instance& instance_;
  Duration extra_;
  Duration known_bound_;
  /// By op: how often it runs at most in a shorter schedule.
  Table<OpId, int> most_;
  std::shared_ptr<Proof> proof_{};
};

}  // namespace remora
