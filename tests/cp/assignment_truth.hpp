// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "model/cp/retention_problem.hpp"
#include "tests/cp/small_problem.hpp"

namespace remora::test {

/// What is true of the values, whatever the problem's limits. Of the problem only the numbering of variables, the
/// moments of its events and sequence_with are used.
Assignment truth_of(const cp::RetentionProblem& problem, const std::vector<int>& values);

/// The step of the sequence at which the event of that moment takes place.
std::size_t step_at(const cp::RetentionProblem& problem, const std::vector<int>& values, cp::Moment moment);

/// When the copy runs; it must not be absent.
cp::Moment moment_of_copy(const cp::RetentionProblem& problem, const std::vector<int>& values, cp::CopyId copy);

}  // namespace remora::test
