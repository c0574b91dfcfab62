// SPDX-License-Identifier: Apache-2.0
//
// Interface between solve() and the literature's methods (engine/baselines): an Instance in, one sequence of
// computes out, and what the method can say about the optimum.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/base/work.hpp"
#include "model/instance.hpp"

namespace remora {

struct MethodInput {
  const Instance& instance;
  const SolveOptions& options;
  /// Deadline of the whole solve; slow methods stop there with their best result.
  const Deadline& deadline;
  /// They also stop after so much effort.
  Effort most = INT64_MAX;
};

/// The effort of making a plan and evaluating it once.
inline Effort effort_of_plan(const Instance& instance) {
  constexpr Effort kEffortOfOp = 2;
  return kEffortOfOp * instance.op_count();
}

struct MethodResult {
  /// Any order in which every op's inputs are computed earlier, every op at least once; empty if there is none to show.
  /// Which releases go with it is the evaluator's business.
  Sequence sequence{};
  /// No schedule of the instance's problem takes less time beyond the baseline; 0 where the method proves nothing.
  Duration lower_bound{};
  /// Units of work done, of the method's own kind.
  std::int64_t work = 0;
  /// A short remark for the user: why there is no schedule, which parameter was taken. May be empty.
  std::string note{};
};

/// The same instance and options give the same sequence, unless a deadline cut it short.
using Method = MethodResult (*)(const MethodInput& input);

}  // namespace remora
