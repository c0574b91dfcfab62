// SPDX-License-Identifier: Apache-2.0
//
// GraphHandle as remora._engine.Graph. Numbers instead of handles: remora/graph.py makes Tensor and Op of them.
#include <algorithm>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "frontends/formats/json.hpp"
#include "frontends/python/extension/casters.hpp"
#include "frontends/python/extension/graph.hpp"
#include "frontends/python/extension/schedule.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/instance.hpp"

namespace remora::python {
namespace {

namespace nb = nanobind;

Graph read_text(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string_view::npos) throw InputError("", "the text is empty: not a graph");
  if (text[first] != '{') throw InputError("", "not a remora-graph; `remora convert` makes one of an ONNX model");
  return json::read_graph(json::Text(text));
}

GraphHandle* read_graph(const nb::bytes& text) {
  const std::string_view view(text.c_str(), text.size());
  const nb::gil_scoped_release unlocked;
  return new GraphHandle(read_text(view), text::sha256_hex(view));
}

std::string write_graph(const GraphHandle& graph) {
  const auto snapshot = graph.snapshot();
  const nb::gil_scoped_release unlocked;
  return text::written([&](std::ostream& out) { json::write_graph(out, *snapshot); });
}

std::pair<Duration, Bytes> baseline_of(const GraphHandle& graph) {
  const auto snapshot = graph.snapshot();
  const nb::gil_scoped_release unlocked;
  const Instance instance(snapshot, {});
  return {instance.baseline_duration(), baseline_peak(instance)};
}

const Tensor& at(const GraphHandle& graph, const std::int32_t id, const Tensor*) {
  return graph.read()[graph.tensor_id(id)];
}

const Op& at(const GraphHandle& graph, const std::int32_t id, const Op*) {
  return graph.read()[graph.op_id(id)];
}

/// How Python reads a member of a tensor or an op.
template <class Thing, class Value>
auto get(Value Thing::*member) {
  return [member](const GraphHandle& self, std::int32_t id) {
    return at(self, id, static_cast<const Thing*>(nullptr)).*member;
  };
}

template <class Amount>
Amount checked(Amount amount, const char* place) {
  if (amount >= Amount()) return amount;
  throw InputError(place, "must not be negative, but is " + std::to_string(amount.count()));
}

std::vector<InnerPeak> peaks_from(const std::vector<InnerPeakRow>& rows) {
  std::vector<InnerPeak> peaks;
  for (const auto& [workspace, freed] : rows) {
    InnerPeak& peak = peaks.emplace_back(InnerPeak{.workspace = workspace});
    for (const auto& [tensor, most] : freed) peak.freed.emplace_back(tensor, most);
  }
  return peaks;
}

/// `sizes`: the outputs' of the graph.
std::optional<OpModes> modes_from(const std::optional<OpModesRow>& row, const std::vector<Bytes>& sizes) {
  if (!row) return std::nullopt;
  const auto& [further, follows, unread, computes, inner, most] = *row;
  OpModes modes{.follows = follows,
                .unread = unread,
                .computes = computes,
                .inner = peaks_from(inner),
                .most_computes = most.value_or(kNoMostComputes)};
  for (const auto& mode : further) {
    modes.further.emplace_back();
    if (!mode) continue;
    const auto& [duration, workspace, own_sizes, own_unread, own_computes, own_inner] = *mode;
    modes.further.back() = Mode{.duration = duration,
                                .workspace = workspace,
                                .output_sizes = own_sizes.value_or(sizes),
                                .unread = own_unread,
                                .computes = own_computes,
                                .inner = peaks_from(own_inner)};
  }
  return modes;
}

std::vector<InnerPeakRow> rows_of(const std::vector<InnerPeak>& peaks) {
  std::vector<InnerPeakRow> rows;
  for (const InnerPeak& peak : peaks) {
    auto& [workspace, freed] = rows.emplace_back();
    workspace = peak.workspace;
    for (const FreedInput& input : peak.freed) freed.emplace_back(input.tensor, input.most);
  }
  return rows;
}

std::optional<OpModesRow> modes_row(const GraphHandle& graph, std::int32_t id) {
  const auto& modes = graph.read()[graph.op_id(id)].modes;
  if (!modes) return std::nullopt;
  const bool is_limited = modes->most_computes != kNoMostComputes;
  OpModesRow row{{},
                 modes->follows,
                 modes->unread,
                 modes->computes,
                 rows_of(modes->inner),
                 is_limited ? std::optional(modes->most_computes) : std::nullopt};
  for (const auto& mode : modes->further) {
    auto& own = std::get<0>(row).emplace_back();
    if (mode)
      own.emplace(mode->duration, mode->workspace, mode->output_sizes, mode->unread, mode->computes,
                  rows_of(mode->inner));
  }
  return row;
}

void set_modes(GraphHandle& graph, std::int32_t id, const std::optional<OpModesRow>& row) {
  std::vector<Bytes> sizes;
  for (const TensorId t : graph.read()[graph.op_id(id)].outputs) sizes.push_back(graph.read()[t].size);
  graph.set_modes(id, modes_from(row, sizes));
}

std::int32_t add_op(GraphHandle& graph, std::string name, Duration duration, std::vector<TensorId> inputs,
                    std::vector<TensorId> outputs, const std::vector<NewTensor>& made, Bytes workspace,
                    std::string type, bool recompute, std::optional<int> max_computes, std::string_view phase,
                    OpId backward_of, std::vector<OpId> after, std::vector<TakenStorage> in_place,
                    std::vector<NewAxis> axes, const std::optional<OpModesRow>& modes) {
  std::vector<Bytes> sizes;
  sizes.reserve(outputs.size() + made.size());
  for (const TensorId t : outputs) sizes.push_back(graph.read()[graph.tensor_id(t)].size);
  for (const NewTensor& tensor : made) sizes.emplace_back(std::get<1>(tensor));
  return graph.add_op({.name = std::move(name),
                       .type = std::move(type),
                       .duration = duration,
                       .workspace = workspace,
                       .inputs = std::move(inputs),
                       .outputs = std::move(outputs),
                       .recompute = recompute,
                       .max_computes = max_computes,
                       .phase = phase_from(phase, "phase"),
                       .backward_of = backward_of,
                       .after = std::move(after),
                       .modes = modes_from(modes, sizes)},
                      made, {std::move(in_place), std::move(axes)});
}

/// By number of the tensor.
using AxisRow =
    std::tuple<std::int64_t,
               std::vector<std::tuple<TensorId, std::int64_t, Bytes, std::int64_t, std::int64_t, std::int64_t>>,
               std::vector<TensorId>, Bytes>;

std::vector<AxisRow> axis_rows(const GraphHandle& graph, std::int32_t id) {
  std::vector<AxisRow> rows;
  for (const Axis& axis : graph.read()[graph.op_id(id)].axes) {
    rows.emplace_back(axis.extent, std::tuple_element_t<1, AxisRow>(), axis.sums, axis.workspace);
    auto& cuts = std::get<1>(rows.back());
    for (const Cut& cut : axis.cuts) {
      cuts.emplace_back(cut.tensor, cut.rows, cut.stride, cut.step, cut.offset, cut.length);
    }
  }
  return rows;
}

void bind_tensors(nb::class_<GraphHandle>& graph) {
  graph.def("add_tensor", &GraphHandle::add_tensor, nb::arg("name"), nb::arg("size"), nb::arg("keep"))
      .def("tensor_count", [](const GraphHandle& self) { return self.read().tensors.size(); })
      .def("find_tensor", &GraphHandle::find_tensor, nb::arg("name"))
      .def("producer", &GraphHandle::producer, nb::arg("tensor"))
      .def("users", &GraphHandle::users, nb::arg("tensor"))
      .def("tensor_name", get(&Tensor::name))
      .def("tensor_size", get(&Tensor::size))
      .def("tensor_keep", get(&Tensor::keep))
      .def("set_tensor_size", [](GraphHandle& self, std::int32_t id,
                                 Bytes size) { self.change()[self.tensor_id(id)].size = checked(size, "size"); })
      .def("set_tensor_keep",
           [](GraphHandle& self, std::int32_t id, bool keep) { self.change()[self.tensor_id(id)].keep = keep; });
}

void bind_ops(nb::class_<GraphHandle>& graph) {
  graph
      .def("add_op", &add_op, nb::arg("name"), nb::arg("duration"), nb::arg("inputs"), nb::arg("outputs"),
           nb::arg("made"), nb::arg("workspace"), nb::arg("type"), nb::arg("recompute"), nb::arg("max_computes").none(),
           nb::arg("phase"), nb::arg("backward_of"), nb::arg("after"), nb::arg("in_place"), nb::arg("axes"),
           nb::arg("modes").none())
      .def("op_count", [](const GraphHandle& self) { return self.read().ops.size(); })
      .def("find_op", &GraphHandle::find_op, nb::arg("name"))
      .def("op_name", get(&Op::name))
      .def("op_type", get(&Op::type))
      .def("op_duration", get(&Op::duration))
      .def("op_workspace", get(&Op::workspace))
      .def("op_inputs", get(&Op::inputs))
      .def("op_outputs", get(&Op::outputs))
      .def("op_after", get(&Op::after))
      .def("op_recompute", get(&Op::recompute))
      .def("op_max_computes", get(&Op::max_computes))
      .def("op_backward_of", get(&Op::backward_of))
      .def("op_phase",
           [](const GraphHandle& self, std::int32_t id) { return phase_name(self.read()[self.op_id(id)].phase); })
      .def("op_in_place",
           [](const GraphHandle& self, std::int32_t id) {
             std::vector<std::pair<TensorId, TensorId>> pairs;
             for (const auto& [output, input] : self.read()[self.op_id(id)].in_place) pairs.emplace_back(output, input);
             return pairs;
           })
      .def("op_axes", &axis_rows)
      .def("op_modes", &modes_row)
      .def("set_op_modes", &set_modes, nb::arg("op"), nb::arg("modes").none())
      .def("set_op_duration",
           [](GraphHandle& self, std::int32_t id, Duration duration) {
             self.change()[self.op_id(id)].duration = checked(duration, "duration");
           })
      .def("set_op_workspace",
           [](GraphHandle& self, std::int32_t id, Bytes workspace) {
             self.change()[self.op_id(id)].workspace = checked(workspace, "workspace");
           })
      .def("set_op_recompute", [](GraphHandle& self, std::int32_t id,
                                  bool recompute) { self.change()[self.op_id(id)].recompute = recompute; })
      .def(
          "set_op_max_computes",
          [](GraphHandle& self, std::int32_t id, std::optional<int> most) {
            self.change()[self.op_id(id)].max_computes = most;
          },
          nb::arg("op"), nb::arg("max_computes").none());
}

template <class Rows>
std::vector<std::string> names_of(const Rows& rows) {
  std::vector<std::string> names;
  names.reserve(rows.size());
  for (const auto& row : rows) names.push_back(row.name);
  return names;
}

/// Name, fixed memory, ops that can run there.
std::vector<std::tuple<std::string, Bytes, int>> device_rows(const DeviceGraphHandle& handle) {
  std::vector<std::tuple<std::string, Bytes, int>> rows;
  for (const DeviceId d : handle.graph->devices.ids()) {
    const auto runs = std::count_if(handle.graph->runs.begin(), handle.graph->runs.end(), [&](const auto& costs) {
      return std::any_of(costs.begin(), costs.end(), [&](const RunCost& cost) { return cost.device == d; });
    });
    rows.emplace_back(handle.graph->devices[d].name, handle.graph->devices[d].fixed_memory, static_cast<int>(runs));
  }
  return rows;
}

std::vector<std::pair<DeviceId, DeviceId>> link_rows(const DeviceGraphHandle& handle) {
  std::vector<std::pair<DeviceId, DeviceId>> rows;
  for (const Link& link : handle.graph->links) rows.emplace_back(link.from, link.to);
  return rows;
}

void bind_devices(nb::module_& module) {
  const auto read = [](const nb::bytes& bytes) {
    const std::string_view text(bytes.c_str(), bytes.size());
    return DeviceGraphHandle{std::make_shared<const DeviceGraph>(json::read_device_graph(json::Text(text))),
                             text::sha256_hex(text)};
  };
  nb::class_<DeviceGraphHandle>(module, "DeviceGraph")
      .def_static("read", read)
      .def("write",
           [](const DeviceGraphHandle& self) {
             return text::written([&](std::ostream& out) { json::write_graph(out, *self.graph); });
           })
      .def_prop_ro("name", [](const DeviceGraphHandle& self) { return self.graph->graph.name; })
      .def_prop_ro("unit", [](const DeviceGraphHandle& self) { return text::duration_unit_of(self.graph->graph); })
      .def_prop_ro("devices", &device_rows)
      .def_prop_ro("links", &link_rows)
      .def_prop_ro("ops", [](const DeviceGraphHandle& self) { return names_of(self.graph->graph.ops); })
      .def_prop_ro("tensors", [](const DeviceGraphHandle& self) { return names_of(self.graph->graph.tensors); });
  module.def("names_devices", [](const nb::bytes& bytes) {
    return json::names_devices(json::Text(std::string_view(bytes.c_str(), bytes.size())));
  });
}

}  // namespace

void bind_graph(nb::module_& module) {
  nb::class_<GraphHandle> graph(module, "Graph");
  graph.def(nb::init<std::string>(), nb::arg("name"))
      .def_static("read", &read_graph, nb::arg("text"))
      .def("write", &write_graph)
      .def("copy", [](const GraphHandle& self) { return new GraphHandle(self.read(), self.sha256()); })
      .def("validate", [](const GraphHandle& self) { validate(self.read()); })
      .def("equals", [](const GraphHandle& self, const GraphHandle& other) { return self.read() == other.read(); })
      .def("baseline", &baseline_of)
      .def_prop_rw(
          "name", [](const GraphHandle& self) { return self.read().name; },
          [](GraphHandle& self, std::string name) { self.change().name = std::move(name); })
      .def_prop_rw(
          "fixed_memory", [](const GraphHandle& self) { return self.read().fixed_memory; },
          [](GraphHandle& self, Bytes bytes) { self.change().fixed_memory = checked(bytes, "fixed_memory"); })
      .def_prop_rw(
          "meta", [](const GraphHandle& self) { return self.read().meta; },
          [](GraphHandle& self, std::string meta) { self.change().meta = std::move(meta); });
  bind_tensors(graph);
  bind_ops(graph);
  bind_devices(module);
}

}  // namespace remora::python
