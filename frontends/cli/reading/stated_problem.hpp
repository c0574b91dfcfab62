// SPDX-License-Identifier: Apache-2.0
//
// From what the command line asks for to the instance that is solved.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "engine/base/options.hpp"
#include "engine/order_choice.hpp"
#include "model/graph.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora::cli {

/// What is asked of every graph: how often an op may run, and in which order.
struct ProblemRequest {
  int max_computes = 2;
  OrderRequest order = OrderRequest::input;
};

struct StatedProblem {
  Instance instance;
  /// Without a reason where the user chose.
  OrderChoice choice{};
};

/// `budget`: as --budget takes it. With --order auto the order is chosen here (choose_order), which takes a moment on
/// large graphs. Throws UsageError for a bad budget.
StatedProblem state_problem(const std::shared_ptr<const Graph>& graph, const ProblemRequest& request,
                            const std::string& budget, const SolveOptions& options, const std::atomic<bool>* cancel);

/// Whether a schedule of this order and limit is of the problem asked for.
bool is_asked(const ProblemRequest& request, const Schedule& schedule);

/// The problem of a command that solves many at once, which leaves nothing to choose. Throws UsageError.
Problem problem_of_all(const ProblemRequest& request);

}  // namespace remora::cli
