// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/extension/problem.hpp"

#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora::python {

SolveOptions options_from(const OptionTexts& texts) {
  SolveOptions options;
  for (const auto& [name, text] : texts) set_option(options, name, text);
  check_options(options);
  return options;
}

Unbudgeted unbudgeted(std::shared_ptr<const Graph> graph, const ProblemRequest& request, const SolveOptions& options) {
  const remora::Problem usual = default_problem(options.strategy);
  const int most = request.max_computes.value_or(usual.max_computes);
  if (most < 1) throw InputError("max_computes", "must be at least 1, but is " + std::to_string(most));
  OrderRequest order = usual.order == OrderMode::free ? OrderRequest::free : OrderRequest::input;
  if (request.order) order = order_request_from_name(*request.order, "order");
  return {.instance = Instance(std::move(graph), {.max_computes = most}, request.modes),
          .more_computes = !request.max_computes,
          .order = order};
}

Problem state_problem(std::shared_ptr<const Graph> graph, const ProblemRequest& request, const std::string& budget,
                      const SolveOptions& options, const std::atomic<bool>* cancel) {
  const auto [unlimited, more_computes, order] = unbudgeted(std::move(graph), request, options);
  const Bytes fixed = unlimited.graph().fixed_memory;
  Bytes bytes;
  try {
    bytes = parse_budget(budget, fixed, baseline_peak(unlimited));
  } catch (const InputError& error) {
    throw InputError("budget", error.what());
  }
  const Instance instance = unlimited.with_budget(bytes);
  OrderChoice choice = settle_order(instance, order, options, cancel);
  Instance settled = with_order(instance, choice.mode);
  return {.instance = std::move(settled), .more_computes = more_computes, .choice = std::move(choice)};
}

OrderMode fixed_order(OrderRequest order, const std::string& why) {
  if (order == OrderRequest::automatic) throw InputError("order", "auto chooses for one budget; " + why);
  return order == OrderRequest::free ? OrderMode::free : OrderMode::input;
}

}  // namespace remora::python
