// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "frontends/bench/best_known.hpp"
#include "frontends/bench/process.hpp"
#include "frontends/bench/result.hpp"
#include "frontends/bench/suite.hpp"
#include "model/schedule.hpp"

namespace remora::bench {

/// Fills in what the contender's answer says, if it is one to the question: for the budget and the baseline of the
/// result, in time, with a bound that its own schedule does not contradict; and if a schedule, one that verifies.
/// Otherwise the run has `failed`, `note` says why, and no figure of it is taken. Returns the schedule if there is one.
std::optional<Schedule> read_answer(const ProcessOutcome& outcome, const std::string& path, const Graph& graph,
                                    Result& result);

/// The verified schedule as a claim; nothing where it is not of the staged form.
std::optional<BestKnown> best_known_of(const SuiteInstance& instance, const Schedule& schedule,
                                       const std::shared_ptr<const Graph>& graph, const Result& result);

}  // namespace remora::bench
