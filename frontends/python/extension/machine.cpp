// SPDX-License-Identifier: Apache-2.0
#include "frontends/machine/machine.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <nanobind/stl/array.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "frontends/python/extension/casters.hpp"

namespace remora::python {

namespace nb = nanobind;

void bind_machine(nb::module_& module) {
  nb::class_<Machine>(module, "Machine")
      .def(
          "__init__",
          [](Machine* self, std::string name, double rate, double bandwidth, double launch) {
            new (self) Machine{
                .name = std::move(name), .bandwidth = bandwidth, .launch_overhead = launch, .rates = {{"fp32", rate}}};
          },
          nb::arg("name"), nb::arg("rate"), nb::arg("bandwidth"), nb::arg("launch"))
      .def_static("read", &read_machine, nb::arg("text"), nb::arg("place"))
      .def_static("known", [] { return known_machines(); })
      .def_static(
          "find", [](const std::string& name) { return find_machine(name); }, nb::arg("name"), nb::rv_policy::reference)
      .def(
          "seconds",
          [](const Machine& self, const std::string& of, const std::string& numbers, std::int64_t operations,
             std::int64_t moved, const std::vector<std::int64_t>& made) {
            return self.seconds(
                {.of = op_class_named(of), .numbers = numbers, .operations = operations, .moved = moved, .made = made});
          },
          nb::arg("of"), nb::arg("numbers"), nb::arg("operations"), nb::arg("moved"), nb::arg("made"))
      .def_ro("name", &Machine::name)
      .def_ro("memory", &Machine::memory)
      .def_ro("bandwidth", &Machine::bandwidth)
      .def_ro("rates", &Machine::rates)
      .def_ro("multiprocessors", &Machine::multiprocessors)
      .def_ro("launch", &Machine::launch_overhead)
      .def_ro("host", &Machine::host)
      .def_ro("context", &Machine::context)
      .def_ro("workspaces", &Machine::workspaces)
      .def_ro("efficiency", &Machine::efficiency)
      .def_ro("range", &Machine::range)
      .def_ro("fitted", &Machine::fitted)
      .def_ro("source", &Machine::source)
      .def_ro("kind", &Machine::kind)
      .def_ro("aliases", &Machine::aliases);
}

}  // namespace remora::python
