// SPDX-License-Identifier: Apache-2.0
//
// remora._engine: what the package remora (frontends/python/remora) stands on. It is no interface of its own: numbers
// stand for tensors and ops, and arguments come checked.
#include <string>
#include <tuple>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "engine/base/options.hpp"
#include "engine/base/schema.hpp"
#include "engine/bound/cover_mip.hpp"
#include "engine/bound/highs.hpp"
#include "frontends/python/extension/graph.hpp"
#include "frontends/python/extension/problem.hpp"
#include "frontends/python/extension/schedule.hpp"
#include "model/error.hpp"

namespace {

namespace nb = nanobind;

/// remora.InputError with the place of the fault.
void translate(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const remora::InputError& error) {
    const nb::object type = nb::module_::import_("remora.errors").attr("InputError");
    PyErr_SetObject(type.ptr(), type(error.place(), error.fault()).ptr());
  }
}

using Row = std::tuple<std::string, std::string, std::string, std::string, std::string>;

std::vector<Row> option_table() {
  std::vector<Row> rows;
  for (const remora::OptionRow& row : remora::option_rows()) {
    rows.emplace_back(row.name, row.type, row.initial, row.range, row.help);
  }
  return rows;
}

}  // namespace

NB_MODULE(_engine, module) {
  nb::register_exception_translator(&translate);
  nb::set_leak_warnings(false);
  module.def("version", &remora::version)
      .def("engine_schema", &remora::engine_schema)
      .def("option_table", &option_table)
      .def("strategy_names", &remora::strategy_names)
      .def("has_cbc", &remora::cover_mip_available)
      .def("offer_highs", &remora::offer_highs)
      .def("highs_name", [] { return remora::find_highs().name; });
  remora::python::bind_graph(module);
  remora::python::bind_request(module);
  remora::python::bind_schedule(module);
  remora::python::bind_solve(module);
  remora::python::bind_sweep(module);
  remora::python::bind_order(module);
  remora::python::bind_place(module);
  remora::python::bind_pipeline(module);
  remora::python::bind_machine(module);
  remora::python::bind_hlo(module);
  remora::python::bind_report(module);
}
