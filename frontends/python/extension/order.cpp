// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "engine/base/deadline.hpp"
#include "engine/base/tasks.hpp"
#include "engine/order/minimise_peak.hpp"
#include "frontends/python/extension/answer.hpp"
#include "frontends/python/extension/graph.hpp"
#include "frontends/python/extension/problem.hpp"
#include "frontends/python/extension/watched_run.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/graph.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;

struct OrderAnswer {
  /// The ops' numbers in the order found.
  std::vector<std::int32_t> ops{};
  std::int64_t peak = 0;
  std::int64_t lower_bound = 0;
  std::int64_t input_peak = 0;
  double seconds = 0;
  std::int64_t work = 0;
};

OrderAnswer search_order(const std::shared_ptr<const Graph>& graph, const SolveOptions& options,
                         const std::optional<std::string>& target, const nb::object& improved, WatchedRun& watch) {
  const Deadline deadline(options.time_limit, &watch.cancel());
  const Instance instance(graph, {});
  const OrderProblem problem(instance);
  const Bytes input_peak = baseline_peak(instance);
  OrderSettings settings{.work_limit = options.work_limit,
                         .threads = thread_count(options),
                         .seed = static_cast<std::uint64_t>(options.seed)};
  if (target) {
    try {
      settings.target = parse_budget(*target, graph->fixed_memory, input_peak);
    } catch (const InputError& error) {
      throw InputError("target", error.what());
    }
  }
  if (!improved.is_none()) {
    settings.improved = [&](const std::vector<NodeId>&, Bytes peak) {
      watch.call([&] { improved(nb::make_tuple(deadline.elapsed(), peak.count())); });
    };
  }
  const OrderResult result = minimise_peak(problem, settings, [&] { return deadline.reached(); });
  const Order order(problem.sequence_of(result.order));
  ensure(evaluate(instance, order).peak == result.peak, "order: its peak is another than its search says");
  return {.ops = {order.begin(), order.end()},
          .peak = result.peak.count(),
          .lower_bound = result.lower_bound.count(),
          .input_peak = input_peak.count(),
          .seconds = deadline.elapsed(),
          .work = result.work};
}

std::pair<OrderAnswer, nb::object> order_graph(const GraphHandle& graph, const OptionTexts& texts,
                                               const std::optional<std::string>& target, nb::object improved,
                                               nb::object stop) {
  const SolveOptions options = options_from(texts);
  WatchedRun watch(std::move(stop));
  const auto snapshot = graph.snapshot();
  OrderAnswer answer;
  watch.run([&] { answer = search_order(snapshot, options, target, improved, watch); });
  return {std::move(answer), watch.interruption()};
}

GraphHandle* reordered_graph(const GraphHandle& graph, const std::vector<std::int32_t>& ops) {
  const Graph& of = graph.read();
  std::vector<bool> listed(of.ops.size());
  Order order;
  for (const std::int32_t op : ops) {
    order.push_back(graph.op_id(op));
    if (listed[static_cast<std::size_t>(op)])
      throw InputError("ops", "the op " + of.ops[order.back()].name + " is there twice");
    listed[static_cast<std::size_t>(op)] = true;
  }
  if (order.size() != of.ops.size()) throw InputError("ops", "an order has every op once");
  Graph made = reordered(of, order);
  validate(made);
  return new GraphHandle(std::move(made));
}

}  // namespace

void bind_order(nb::module_& module) {
  nb::class_<OrderAnswer>(module, "OrderAnswer")
      .def_ro("ops", &OrderAnswer::ops)
      .def_ro("peak", &OrderAnswer::peak)
      .def_ro("lower_bound", &OrderAnswer::lower_bound)
      .def_ro("input_peak", &OrderAnswer::input_peak)
      .def_ro("seconds", &OrderAnswer::seconds)
      .def_ro("work", &OrderAnswer::work);
  module.def("order", &order_graph, nb::arg("graph"), nb::arg("options"), nb::arg("target").none(),
             nb::arg("improved").none(), nb::arg("stop").none());
  module.def("reordered", &reordered_graph, nb::arg("graph"), nb::arg("ops"));
}

}  // namespace remora::python
