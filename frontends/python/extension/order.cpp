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
#include "frontends/python/extension/casters.hpp"
#include "frontends/python/extension/graph.hpp"
#include "frontends/python/extension/problem.hpp"
#include "frontends/python/extension/watched_run.hpp"
#include "model/error.hpp"
#include "model/graph.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;

std::pair<FoundOrder, nb::object> order_graph(const Asked& asked, const std::optional<std::string>& target,
                                              const nb::object& improved, nb::object stop) {
  WatchedRun watch(std::move(stop));
  OrderCallbacks callbacks{.cancel = &watch.cancel()};
  if (!improved.is_none()) {
    callbacks.improved = [&](double seconds, Bytes peak) {
      watch.call([&] { improved(nb::make_tuple(seconds, peak)); });
    };
  }
  FoundOrder found;
  watch.run([&] {
    const Bytes enough = target ? amount_from(*target, asked.request, "target") : Bytes();
    found = find_order(asked.request, enough, callbacks);
  });
  return {std::move(found), watch.interruption()};
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
  nb::class_<FoundOrder>(module, "FoundOrder")
      .def_ro("ops", &FoundOrder::order)
      .def_ro("peak", &FoundOrder::peak)
      .def_ro("lower_bound", &FoundOrder::lower_bound)
      .def_ro("input_peak", &FoundOrder::input_peak)
      .def_ro("seconds", &FoundOrder::seconds)
      .def_ro("work", &FoundOrder::work);
  module.def("order", &order_graph, nb::arg("request"), nb::arg("target").none(), nb::arg("improved").none(),
             nb::arg("stop").none());
  module.def("reordered", &reordered_graph, nb::arg("graph"), nb::arg("ops"));
}

}  // namespace remora::python
