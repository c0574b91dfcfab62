// SPDX-License-Identifier: Apache-2.0
//
// The one evaluator: from a sequence of op computes to retention intervals, memory at every step, peak and duration.
//
// Each use of a tensor is served by the latest earlier run of its producer; a run uses what its mode reads. A run's
// output is retained from that step to the last use that it serves; an unused output is released at once; a `keep`
// tensor's last output is retained to the end. Inside a step with inner peaks, an input whose retention ends there is
// released when the peak says. For a given sequence no other choice of releases needs less memory at any step.
//
//     sequence  A B C D A E        a: [0,2] [4,5]   b: [1,3]   c: [2,3]   d: [3,5]   e: [5,5]
//     memory    1 2 3 3 2 3        (unit sizes: figure 1 of Kumar et al. 2019)
#pragma once

#include <span>
#include <vector>

#include "model/api.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// The stretch for which one run's output stays in memory, in steps, both ends included.
struct RetentionInterval {
  TensorId tensor{};
  int first_step = 0;
  int last_step = 0;
  Bytes size{};
};

struct Evaluation {
  /// By first step.
  std::vector<RetentionInterval> intervals{};
  /// Memory at each step, base memory and workspace included.
  std::vector<Bytes> memory{};
  /// The largest memory; base memory where there is no step.
  Bytes peak{};
  int peak_step = -1;
  Duration duration{};
};

/// Evaluates a sequence in which what every compute reads is computed earlier (else std::logic_error).
/// O(steps + their inputs and outputs). Of ops alone: every compute takes mode 0.
REMORA_API Evaluation evaluate(const Instance& instance, std::span<const OpId> sequence);
REMORA_API Evaluation evaluate(const Instance& instance, std::span<const Compute> sequence);

/// True if every run takes a mode that its op offers, every follower the mode of the leader's run that serves it, and
/// no op's runs weigh more than its most_computes (model/modes.hpp).
REMORA_API bool modes_hold(const Instance& instance, std::span<const Compute> sequence);

/// The sequence as steps with their releases, in the written form.
REMORA_API std::vector<Step> steps_of(const Instance& instance, std::span<const OpId> sequence);
REMORA_API std::vector<Step> steps_of(const Instance& instance, std::span<const Compute> sequence);

/// The sequence as a schedule of the instance's problem whose budget is its own peak: feasible, bounded from below by
/// the duration of every op once. `verify` checks if it is one (order, runs allowed). Throws as evaluate().
REMORA_API Schedule schedule_of(const Instance& instance, std::span<const OpId> sequence);
REMORA_API Schedule schedule_of(const Instance& instance, std::span<const Compute> sequence);

/// Every op once, in the input order.
REMORA_API Order input_order(const Instance& instance);

/// The peak of the input order without recompute.
REMORA_API Bytes baseline_peak(const Instance& instance);

}  // namespace remora
