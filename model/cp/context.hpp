// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/cp/retention_problem.hpp"
#include "model/cp/retention_profile.hpp"

namespace remora::cp {

/// What all spaces of one engine share: the constant problem, the profile that follows the search around, and the bound
/// that every further solution must beat. Used by one thread at a time; spaces hold a pointer to it.
struct Context {
  explicit Context(const RetentionProblem& constant)
      : problem(constant), profile(constant), extra_below(constant.limits().extra_below) {}

  const RetentionProblem& problem;
  RetentionProfile profile;
  /// Exact objective bound: extra duration must be strictly below. It only ever falls.
  Duration extra_below;
};

}  // namespace remora::cp
