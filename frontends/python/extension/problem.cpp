// SPDX-License-Identifier: Apache-2.0
#include "frontends/python/extension/problem.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "frontends/python/extension/casters.hpp"
#include "model/error.hpp"
#include "model/modes.hpp"
#include "model/quote.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;

std::vector<TensorId> checked(const GraphHandle& graph, const std::vector<TensorId>& tensors) {
  for (const TensorId tensor : tensors) (void)graph.tensor_id(tensor);
  return tensors;
}

std::vector<InnerPeak> peaks_from(const GraphHandle& graph, const std::vector<InnerPeakRow>& rows) {
  std::vector<InnerPeak> peaks;
  for (const auto& [workspace, freed] : rows) {
    InnerPeak& peak = peaks.emplace_back(InnerPeak{.workspace = workspace});
    for (const TensorId tensor : checked(graph, freed)) peak.freed.push_back({tensor});
  }
  return peaks;
}

Mode mode_from(const GraphHandle& graph, const ModeRow& row) {
  const auto& [duration, workspace, sizes, unread, computes, inner] = row;
  return {.duration = duration,
          .workspace = workspace,
          .output_sizes = sizes,
          .unread = checked(graph, unread),
          .computes = computes,
          .inner = peaks_from(graph, inner)};
}

OpModes op_modes_from(const GraphHandle& graph, const OpModesRow& row) {
  const auto& [op, further, follows, unread, computes, inner, most] = row;
  OpModes modes{.op = graph.op_id(op),
                .unread = checked(graph, unread),
                .computes = computes,
                .inner = peaks_from(graph, inner),
                .most_computes = most.value_or(kNoMostComputes)};
  if (follows.valid()) modes.follows = graph.op_id(follows);
  for (const auto& mode : further) {
    modes.further.push_back(mode ? std::optional(mode_from(graph, *mode)) : std::nullopt);
  }
  return modes;
}

/// Null for no rows. Throws InputError for numbers that nothing has and ops mentioned twice.
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

Asked asked_of(const GraphHandle& graph, const OptionTexts& texts, std::optional<int> max_computes,
               const std::optional<std::string>& order, const std::vector<OpModesRow>& modes,
               const std::vector<std::string>& slices, const SliceRunRow& run) {
  Request request{.max_computes = max_computes, .modes = modes_from(graph, modes), .options = options_from(texts)};
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
             const std::optional<std::string>& order, const std::vector<OpModesRow>& modes,
             const std::vector<std::string>& slices, const SliceRunRow& run) {
            new (made) Asked(asked_of(graph, options, max_computes, order, modes, slices, run));
          },
          nb::arg("graph"), nb::arg("options"), nb::arg("max_computes").none(), nb::arg("order").none(),
          nb::arg("modes"), nb::arg("slices"), nb::arg("slice_run"));
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
