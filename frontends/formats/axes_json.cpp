// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/axes_json.hpp"

#include <limits>
#include <string>

namespace remora::json {
namespace {

Cut read_cut(const Node& node, const NameTable<TensorId>& tensors, const Graph& graph, std::int64_t extent) {
  node.expect_object();
  const auto number = [&](std::string_view key, std::int64_t most) -> std::optional<std::int64_t> {
    return node.has(key) ? std::optional(node.at(key).integer(1, most)) : std::nullopt;
  };
  const CutNumbers numbers{
      .rows = number("rows", kMaxAxisNumber),
      .stride = number("stride", std::numeric_limits<std::int64_t>::max()),
      .step = number("step", kMaxAxisNumber).value_or(1),
      .offset = node.has("offset") ? node.at("offset").integer(-kMaxAxisNumber, kMaxAxisNumber) : 0,
      .length = number("length", kMaxAxisNumber)};
  const Node name = node.at("tensor");
  const TensorId tensor = tensors.resolve(name);
  return complete_cut(tensor, graph[tensor].size, extent, numbers);
}

void write_cut(std::string& out, const Cut& cut, const Graph& graph, std::int64_t extent) {
  const Tensor& tensor = graph[cut.tensor];
  ObjectText object(out);
  object.string("tensor", tensor.name);
  const Cut usual = complete_cut(cut.tensor, tensor.size, extent, {.step = cut.step});
  if (cut.rows != usual.rows) object.integer("rows", cut.rows);
  if (cut.stride != complete_cut(cut.tensor, tensor.size, extent, {.rows = cut.rows}).stride) {
    object.integer("stride", cut.stride.count());
  }
  if (cut.step != 1) object.integer("step", cut.step);
  if (cut.offset != 0) object.integer("offset", cut.offset);
  if (cut.length != cut.step) object.integer("length", cut.length);
  object.close();
}

}  // namespace

Cut complete_cut(TensorId tensor, Bytes size, std::int64_t extent, const CutNumbers& numbers) {
  const std::int64_t rows = numbers.rows.value_or(saturating_product(extent, numbers.step));
  return {.tensor = tensor,
          .rows = rows,
          .stride = Bytes(numbers.stride.value_or(rows > 0 ? size.count() / rows : 0)),
          .step = numbers.step,
          .offset = numbers.offset,
          .length = numbers.length.value_or(numbers.step)};
}

std::vector<Axis> read_axes(const Node& node, const NameTable<TensorId>& tensors, const Graph& graph) {
  node.expect_array();
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < node.size(); ++i) {
    const Node entry = node.element(i);
    entry.expect_object();
    Axis axis{.extent = entry.at("extent").integer(1, kMaxAxisNumber)};
    if (entry.has("cut")) {
      const Node cuts = entry.at("cut");
      cuts.expect_array();
      for (std::size_t j = 0; j < cuts.size(); ++j) {
        const Node cut = cuts.element(j);
        axis.cuts.push_back(read_cut(cut, tensors, graph, axis.extent));
      }
    }
    if (entry.has("sum")) axis.sums = tensors.resolve_all(entry.at("sum"));
    axis.workspace = amount<Bytes>(entry, "workspace");
    axes.push_back(std::move(axis));
  }
  return axes;
}

void write_axes(ObjectText& object, std::string& out, const Op& op, const Graph& graph) {
  object.key("axes");
  for (const Axis& axis : op.axes) {
    out += &axis == op.axes.data() ? "[" : ", ";
    ObjectText entry(out);
    entry.integer("extent", axis.extent);
    if (!axis.cuts.empty()) {
      entry.key("cut");
      for (const Cut& cut : axis.cuts) {
        out += &cut == axis.cuts.data() ? "[" : ", ";
        write_cut(out, cut, graph, axis.extent);
      }
      out += ']';
    }
    const auto name = [&](TensorId tensor) -> const std::string& { return graph[tensor].name; };
    if (!axis.sums.empty()) entry.names("sum", axis.sums, name);
    if (axis.workspace > Bytes()) entry.integer("workspace", axis.workspace.count());
    entry.close();
  }
  out += ']';
}

}  // namespace remora::json
