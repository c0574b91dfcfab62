// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "frontends/hlo/reader.hpp"
#include "frontends/python/extension/casters.hpp"
#include "frontends/python/extension/graph.hpp"
#include "frontends/python/extension/schedule.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;

hlo::LoweredModule* read_hlo(const nb::bytes& bytes, const std::string& source, const std::string& device,
                             double peak_flops, double bandwidth, double launch_overhead) {
  std::string content(bytes.c_str(), bytes.size());
  const nb::gil_scoped_release unlocked;
  return new hlo::LoweredModule(hlo::lower_module(
      std::move(content), source,
      {.name = device, .peak_flops = peak_flops, .bandwidth = bandwidth, .launch_overhead = launch_overhead}));
}

std::vector<OpId> checked(const hlo::LoweredModule& module, const GraphHandle& graph,
                          const std::vector<std::int32_t>& ops) {
  std::vector<OpId> sequence;
  sequence.reserve(ops.size());
  for (const std::int32_t op : ops) sequence.push_back(graph.op_id(op));
  ensure(graph.read().ops.size() == module.graph.ops.size(), "hlo: the graph is the module's");
  return sequence;
}

nb::bytes rewritten(const hlo::LoweredModule& module, const GraphHandle& graph, const std::vector<std::int32_t>& ops) {
  const std::vector<OpId> sequence = checked(module, graph, ops);
  std::string bytes;
  {
    const nb::gil_scoped_release unlocked;
    bytes = hlo::rewrite_module(module, sequence);
  }
  return nb::bytes(bytes.data(), bytes.size());
}

}  // namespace

void bind_hlo(nb::module_& module) {
  nb::class_<hlo::LoweredModule>(module, "HloModule")
      .def_static("read", &read_hlo, nb::arg("content"), nb::arg("source"), nb::arg("device"), nb::arg("peak_flops"),
                  nb::arg("bandwidth"), nb::arg("launch_overhead"))
      .def("graph", [](const hlo::LoweredModule& self) { return new GraphHandle(self.graph); })
      .def_ro("outputs", &hlo::LoweredModule::outputs)
      .def_ro("donated", &hlo::LoweredModule::donated)
      .def_ro("temporaries", &hlo::LoweredModule::temporaries)
      .def(
          "stale_reads",
          [](const hlo::LoweredModule& self, const GraphHandle& graph, const std::vector<std::int32_t>& ops) {
            return hlo::stale_reads(self, checked(self, graph, ops));
          },
          nb::arg("graph"), nb::arg("ops"))
      .def(
          "mended",
          [](const hlo::LoweredModule& self, const GraphHandle& graph, const std::vector<std::int32_t>& ops) {
            return hlo::mended(self, checked(self, graph, ops));
          },
          nb::arg("graph"), nb::arg("ops"))
      .def("rewrite", &rewritten, nb::arg("graph"), nb::arg("ops"));
}

}  // namespace remora::python
