// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "frontends/hlo/loops.hpp"
#include "frontends/hlo/reader.hpp"
#include "frontends/hlo/repeat.hpp"
#include "frontends/hlo/sliceable.hpp"
#include "frontends/python/extension/casters.hpp"
#include "frontends/python/extension/graph.hpp"
#include "frontends/python/extension/problem.hpp"
#include "frontends/python/extension/schedule.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;

std::shared_ptr<hlo::LoweredModule> read_hlo(const nb::bytes& bytes, const std::string& source, const Machine& machine,
                                             const std::string& body) {
  std::string content(bytes.c_str(), bytes.size());
  const nb::gil_scoped_release unlocked;
  return std::make_shared<hlo::LoweredModule>(hlo::lower_module(std::move(content), source, machine, body));
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

/// In the slices of a schedule of the sliceable graph.
nb::bytes in_slices(const hlo::LoweredModule& module, const ScheduleHandle& schedule) {
  ensure(schedule.schedule.slices.has_value(), "hlo: the schedule has slices");
  std::string bytes;
  {
    const nb::gil_scoped_release unlocked;
    const hlo::SliceableGraph sliceable = hlo::sliceable_graph(module);
    bytes = hlo::slice_module(module, sliceable, regions_of(sliceable.graph, schedule.schedule.slices->regions));
  }
  return nb::bytes(bytes.data(), bytes.size());
}

SliceRunRow slice_run_of(const hlo::LoweredModule& module) {
  const SliceRun run = hlo::slice_run(module.machine);
  return {run.overhead, run.bandwidth, run.temporaries, run.copies};
}

/// A pair of loops of a module that stays in memory with it.
struct PairHandle {
  std::shared_ptr<const hlo::LoweredModule> module;
  hlo::LoopPair pair;
};

const hlo::Computation& backward_body(const PairHandle& handle) {
  return handle.module->module.computations[handle.pair.backward.body];
}

std::vector<PairHandle> pairs_of(const std::shared_ptr<hlo::LoweredModule>& module) {
  std::vector<PairHandle> handles;
  const nb::gil_scoped_release unlocked;
  for (hlo::LoopPair& pair : hlo::loop_pairs(*module)) handles.push_back({module, std::move(pair)});
  return handles;
}

nb::bytes rewritten_pair(const PairHandle& handle, const std::vector<std::int32_t>& tensors, std::size_t slots) {
  std::vector<TensorId> saved;
  for (const std::int32_t tensor : tensors) {
    ensure(tensor >= 0 && static_cast<std::size_t>(tensor) < handle.pair.values.size(), "hlo: a value of the pair");
    saved.emplace_back(tensor);
  }
  std::string bytes;
  {
    const nb::gil_scoped_release unlocked;
    bytes = hlo::rewrite_pair(*handle.module, handle.pair, saved, slots);
  }
  return nb::bytes(bytes.data(), bytes.size());
}

}  // namespace

void bind_hlo(nb::module_& module) {
  nb::class_<PairHandle>(module, "HloPair")
      .def_prop_ro("graph", [](const PairHandle& self) { return new GraphHandle(self.pair.graph); })
      .def_prop_ro("name", [](const PairHandle& self) { return self.pair.graph.name; })
      .def_prop_ro("trips", [](const PairHandle& self) { return self.pair.forward.trips(); })
      .def_prop_ro("stacked", [](const PairHandle& self) { return self.pair.stacked; })
      .def_prop_ro("body", [](const PairHandle& self) { return backward_body(self).name; })
      .def("repeated",
           [](const PairHandle& self, std::int64_t slots) {
             return hlo::Slots{static_cast<std::int64_t>(self.pair.forward.trips()) - 1, slots - 1}.repeated();
           })
      .def("rewrite", &rewritten_pair, nb::arg("saved"), nb::arg("slots") = 0);
  nb::class_<hlo::LoweredModule>(module, "HloModule")
      .def_static("read", &read_hlo, nb::arg("content"), nb::arg("source"), nb::arg("machine"), nb::arg("body") = "")
      .def("graph", [](const hlo::LoweredModule& self) { return new GraphHandle(self.graph); })
      .def_ro("outputs", &hlo::LoweredModule::outputs)
      .def_ro("donated", &hlo::LoweredModule::donated)
      .def_prop_ro(
          "temporaries", [](const hlo::LoweredModule& self) { return hlo::assigned_temporaries(self.module); },
          nb::call_guard<nb::gil_scoped_release>())
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
      .def("pairs", &pairs_of)
      .def("sliceable_graph",
           [](const hlo::LoweredModule& self) { return new GraphHandle(hlo::sliceable_graph(self).graph); })
      .def_prop_ro("slice_run", &slice_run_of)
      .def("in_slices", &in_slices, nb::arg("schedule"))
      .def("bodies",
           [](const hlo::LoweredModule& self) {
             std::vector<std::tuple<std::string, Bytes, std::int64_t>> bodies;
             for (const hlo::LoopBody& one : hlo::loop_bodies(self)) {
               bodies.emplace_back(one.computation, one.size, one.runs);
             }
             return bodies;
           })
      .def("largest_loop",
           [](const hlo::LoweredModule& self) {
             const std::optional<hlo::LoopMemory> loop = hlo::largest_loop(self);
             return loop ? std::tuple(loop->name, loop->place, loop->size, loop->inside, loop->is_checkpointed)
                         : std::tuple(std::string(), std::string(), Bytes(0), Bytes(0), false);
           })
      .def(
          "source_line",
          [](const hlo::LoweredModule& self, std::int32_t op) {
            const std::size_t instruction = self.instructions.at(static_cast<std::size_t>(op));
            return hlo::source_line(*self.bytes, self.module,
                                    self.module.computations[self.computation].instructions[instruction]);
          },
          nb::arg("op"))
      .def("rewrite", &rewritten, nb::arg("graph"), nb::arg("ops"));
}

}  // namespace remora::python
