// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/extension/problem.hpp"

#include <algorithm>
#include <string>

#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/quote.hpp"
#include "model/sequence.hpp"

namespace remora::python {
namespace {

std::vector<TensorId> tensors_from(const GraphHandle& graph, const Numbers& numbers) {
  std::vector<TensorId> tensors;
  for (const std::int32_t number : numbers) tensors.push_back(graph.tensor_id(number));
  return tensors;
}

std::vector<InnerPeak> peaks_from(const GraphHandle& graph, const std::vector<InnerPeakRow>& rows) {
  std::vector<InnerPeak> peaks;
  for (const auto& [workspace, freed] : rows) {
    InnerPeak& peak = peaks.emplace_back(InnerPeak{.workspace = Bytes(workspace)});
    for (const std::int32_t tensor : freed) peak.freed.push_back({graph.tensor_id(tensor)});
  }
  return peaks;
}

Mode mode_from(const GraphHandle& graph, const ModeRow& row) {
  const auto& [duration, workspace, sizes, unread, computes, inner] = row;
  Mode mode{.duration = Duration(duration),
            .workspace = Bytes(workspace),
            .unread = tensors_from(graph, unread),
            .computes = computes,
            .inner = peaks_from(graph, inner)};
  for (const std::int64_t size : sizes) mode.output_sizes.emplace_back(size);
  return mode;
}

OpModes op_modes_from(const GraphHandle& graph, const OpModesRow& row) {
  const auto& [op, further, follows, unread, computes, inner, most] = row;
  OpModes modes{.op = graph.op_id(op),
                .unread = tensors_from(graph, unread),
                .computes = computes,
                .inner = peaks_from(graph, inner),
                .most_computes = most.value_or(kNoMostComputes)};
  if (follows >= 0) modes.follows = graph.op_id(follows);
  for (const auto& mode : further) {
    modes.further.push_back(mode ? std::optional(mode_from(graph, *mode)) : std::nullopt);
  }
  return modes;
}

std::vector<Compute> computes_in(const Schedule& schedule) {
  std::vector<Compute> computes;
  for (const Step& step : schedule.steps) computes.push_back({step.op, step.mode});
  return computes;
}

}  // namespace

std::shared_ptr<const Modes> modes_from(const GraphHandle& graph, const std::vector<OpModesRow>& rows) {
  if (rows.empty()) return nullptr;
  auto modes = std::make_shared<Modes>();
  for (const OpModesRow& row : rows) modes->push_back(op_modes_from(graph, row));
  std::sort(modes->begin(), modes->end(), [](const OpModes& a, const OpModes& b) { return a.op < b.op; });
  for (std::size_t i = 1; i < modes->size(); ++i) {
    if ((*modes)[i - 1].op != (*modes)[i].op) continue;
    throw InputError("modes", "the op " + quote(graph.read()[(*modes)[i].op].name) + " is there twice");
  }
  return modes;
}

Verdict verify_modes(const Instance& instance, const Schedule& schedule) {
  const std::vector<Compute> computes = computes_in(schedule);
  const Sequence ops = ops_of(computes);
  if (!is_permitted(instance, ops)) return {.errors = {"not a sequence of the stated problem"}};
  if (!modes_hold(instance, computes))
    return {.errors = {"a step takes a mode that its op or its leader does not have"}};
  const Evaluation evaluation = evaluate(instance, computes);
  Verdict verdict{.duration = evaluation.duration,
                  .peak = evaluation.peak,
                  .peak_step = evaluation.peak_step,
                  .recomputes = static_cast<int>(ops.size()) - instance.op_count()};
  const auto expect = [&](bool holds, const char* error) {
    if (!holds) verdict.errors.emplace_back(error);
  };
  expect(evaluation.peak <= schedule.budget, "the peak is above the budget");
  expect(evaluation.peak == schedule.peak_memory, "peak_memory is not what the steps take");
  expect(evaluation.duration == schedule.duration, "duration is not that of the steps");
  expect(steps_of(instance, computes) == schedule.steps, "the releases are not those behind the last uses");
  return verdict;
}

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
