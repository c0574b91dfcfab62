// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "engine/ask/ask.hpp"
#include "frontends/python/extension/answer.hpp"
#include "frontends/python/extension/graph.hpp"
#include "frontends/python/extension/problem.hpp"
#include "frontends/python/extension/watched_run.hpp"
#include "model/error.hpp"
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

OrderAnswer search_order(const Request& request, const std::optional<std::string>& target, const nb::object& improved,
                         WatchedRun& watch) {
  OrderCallbacks callbacks{.cancel = &watch.cancel()};
  if (!improved.is_none()) {
    callbacks.improved = [&](double seconds, Bytes peak) {
      watch.call([&] { improved(nb::make_tuple(seconds, peak.count())); });
    };
  }
  const Bytes enough = target ? amount_from(*target, request, "target") : Bytes();
  const FoundOrder found = find_order(request, enough, callbacks);
  return {.ops = {found.order.begin(), found.order.end()},
          .peak = found.peak.count(),
          .lower_bound = found.lower_bound.count(),
          .input_peak = found.input_peak.count(),
          .seconds = found.seconds,
          .work = found.work};
}

std::pair<OrderAnswer, nb::object> order_graph(const GraphHandle& graph, const OptionTexts& texts,
                                               const std::optional<std::string>& target, nb::object improved,
                                               nb::object stop) {
  const Request request = request_from(graph, texts, std::nullopt, std::nullopt);
  WatchedRun watch(std::move(stop));
  OrderAnswer answer;
  watch.run([&] { answer = search_order(request, target, improved, watch); });
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
