// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/extension/problem.hpp"

#include <string>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "frontends/python/extension/casters.hpp"
#include "model/error.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;

Asked asked_of(const GraphHandle& graph, const OptionTexts& texts, std::optional<int> max_computes,
               const std::optional<std::string>& order, const std::vector<std::string>& slices,
               const SliceRunRow& run) {
  Request request{.max_computes = max_computes, .options = options_from(texts)};
  request.slices = slices_asked(slices);
  const auto& [overhead, bandwidth, temporaries, copies] = run;
  request.slices.run = {.overhead = overhead, .temporaries = temporaries, .copies = copies, .bandwidth = bandwidth};
  if (order) request.order = order_request_from_name(*order);
  check_request(request);
  request.graph = graph.snapshot();
  return {std::move(request), graph.sha256()};
}

}  // namespace

SolveOptions options_from(const OptionTexts& texts) {
  SolveOptions options;
  for (const auto& [name, text] : texts) set_option(options, name, text);
  check_options(options);
  return options;
}

void bind_request(nb::module_& module) {
  nb::class_<Asked>(module, "Request")
      .def(
          "__init__",
          [](Asked* made, const GraphHandle& graph, const OptionTexts& options, std::optional<int> max_computes,
             const std::optional<std::string>& order, const std::vector<std::string>& slices,
             const SliceRunRow& run) { new (made) Asked(asked_of(graph, options, max_computes, order, slices, run)); },
          nb::arg("graph"), nb::arg("options"), nb::arg("max_computes").none(), nb::arg("order").none(),
          nb::arg("slices"), nb::arg("slice_run"));
}

Bytes amount_from(const std::string& text, const Request& request, const std::string& argument) {
  try {
    return budget_of(text, request);
  } catch (const InputError& error) {
    // Otherwise the error is in the graph.
    if (!error.place().empty()) throw;
    throw InputError(argument, error.what());
  }
}

}  // namespace remora::python
