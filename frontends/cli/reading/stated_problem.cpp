// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/stated_problem.hpp"

#include <utility>

#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/budgets.hpp"
#include "model/evaluate.hpp"

namespace remora::cli {
namespace {

OrderMode mode_of(OrderRequest request) {
  return request == OrderRequest::free ? OrderMode::free : OrderMode::input;
}

}  // namespace

StatedProblem state_problem(const std::shared_ptr<const Graph>& graph, const ProblemRequest& request,
                            const std::string& budget, const SolveOptions& options, const std::atomic<bool>* cancel) {
  const Instance unlimited(graph, {.max_computes = request.max_computes});
  const Instance instance = unlimited.with_budget(parse_budget(budget, graph->fixed_memory, baseline_peak(unlimited)));
  OrderChoice choice = settle_order(instance, request.order, options, cancel);
  Instance stated = with_order(instance, choice.mode);
  return {.instance = std::move(stated), .choice = std::move(choice)};
}

bool is_asked(const ProblemRequest& request, const Schedule& schedule) {
  return schedule.solver.max_computes == request.max_computes &&
         (request.order == OrderRequest::automatic || schedule.order == mode_of(request.order));
}

Problem problem_of_all(const ProblemRequest& request) {
  if (request.order == OrderRequest::automatic) {
    throw UsageError(
        "--order: auto chooses for one budget; a sweep keeps to the input order (free is for --batch-size and for "
        "methods that do not search)");
  }
  return {.max_computes = request.max_computes, .order = mode_of(request.order)};
}

}  // namespace remora::cli
