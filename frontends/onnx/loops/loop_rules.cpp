// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/loops/loop_rules.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "frontends/onnx/model/elementwise.hpp"
#include "model/table.hpp"

namespace remora::onnx_frontend {

std::optional<std::vector<std::int64_t>> LoopContext::constant(std::size_t k) const {
  const Value& value = network.values[node.inputs[k]];
  if (value.constant.empty() && element_count(value.shape) > 0) return std::nullopt;
  return value.constant;
}

std::optional<std::vector<std::int64_t>> LoopContext::setting(std::string_view name, std::size_t k) const {
  if (node.attributes.has(name)) return list(name);
  return has_input(k) ? constant(k) : std::vector<std::int64_t>{};
}

bool LoopContext::wants_gradient_of(std::int64_t k) const {
  return std::ranges::find(gradients_of, k) != gradients_of.end();
}

LoopNest empty_nest(const LoopContext& context) {
  // A rule may speak of inputs that a node leaves out.
  constexpr std::size_t kPlaces = 9;
  LoopNest nest;
  nest.inputs.resize(std::max(context.node.inputs.size(), kPlaces));
  nest.outputs.resize(std::max(context.node.outputs.size(), kPlaces));
  return nest;
}

LoopDims loop_over(LoopNest& nest, const Shape& shape, const std::vector<std::size_t>& uncut) {
  LoopDims dims;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const bool is_cut = std::ranges::find(uncut, k) == uncut.end();
    dims.push_back({.loop = is_cut ? nest.add_loop(shape[k]) : kNoLoop, .extent = shape[k]});
  }
  return dims;
}

LoopDims uncut_dims(const Shape& shape) {
  LoopDims dims;
  for (const std::int64_t extent : shape) dims.push_back({.extent = extent});
  return dims;
}

std::optional<LoopDims> broadcast_dims(const Shape& shape, const LoopDims& to) {
  if (shape.size() > to.size()) return std::nullopt;
  LoopDims dims;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const LoopDim& dim = to[to.size() - shape.size() + k];
    if (shape[k] == 1) continue;
    if (shape[k] != dim.extent) return std::nullopt;
    dims.push_back(dim);
  }
  return dims;
}

/// Some are called as the shape rules are.
namespace rules {
namespace {

using Uncut = std::vector<std::size_t>;

/// Every input broadcasts to the first result, and other results have its shape. `uncut`: dimensions of it.
LoopNest broadcast_nest(const LoopContext& context, const Uncut& uncut = {}) {
  LoopNest nest = empty_nest(context);
  const LoopDims dims = loop_over(nest, context.output(0), uncut);
  for (std::size_t k = 0; k < nest.outputs.size(); ++k) {
    if (context.has_output(k)) nest.outputs[k] = broadcast_dims(context.output(k), dims);
  }
  for (std::size_t k = 0; k < nest.inputs.size(); ++k) {
    if (context.has_input(k)) nest.inputs[k] = broadcast_dims(context.input(k), dims);
  }
  return nest;
}

std::optional<LoopNest> elementwise(const LoopContext& context) {
  return broadcast_nest(context);
}

/// The second input is a shape.
std::optional<LoopNest> expand(const LoopContext& context) {
  LoopNest nest = broadcast_nest(context);
  nest.inputs[1].reset();
  return nest;
}

/// The first input and the first result are alike but for what is uncut; the rest is whole.
LoopNest first_nest(const LoopContext& context, const Uncut& uncut) {
  LoopNest nest = empty_nest(context);
  nest.inputs[0] = loop_over(nest, context.input(0), uncut);
  nest.outputs[0] = nest.inputs[0];
  return nest;
}

Uncut from(std::size_t first, std::size_t rank) {
  Uncut uncut;
  for (std::size_t k = first; k < rank; ++k) uncut.push_back(k);
  return uncut;
}

/// Softmax and its like: before opset 13, all dimensions from the axis on are normalized together.
std::optional<LoopNest> softmax(const LoopContext& context) {
  const bool is_old = context.network.opset < 13;
  const Shape& shape = context.input(0);
  const auto axis = axis_of(context.attribute("axis", is_old ? 1 : -1), shape.size());
  if (!axis) return std::nullopt;
  return first_nest(context, is_old ? from(*axis, shape.size()) : Uncut{*axis});
}

/// Along one dimension: LpNormalization.
std::optional<LoopNest> along_axis(const LoopContext& context) {
  const auto axis = axis_of(context.attribute("axis", -1), context.input(0).size());
  if (!axis) return std::nullopt;
  return first_nest(context, {*axis});
}

std::optional<LoopNest> cumulative(const LoopContext& context) {
  const auto axis = context.has_input(1) ? context.constant(1) : std::nullopt;
  if (!axis || axis->size() != 1) return std::nullopt;
  const auto position = axis_of(axis->front(), context.input(0).size());
  if (!position) return std::nullopt;
  return first_nest(context, {*position});
}

/// A row of a triangle depends on where it is: only matrices of a batch are alike.
std::optional<LoopNest> triangle(const LoopContext& context) {
  const std::size_t rank = context.input(0).size();
  return rank < 2 ? std::nullopt : std::optional(first_nest(context, {rank - 2, rank - 1}));
}

/// Scales of a whole tensor, or of the rows of one dimension.
std::optional<LoopNest> quantization(const LoopContext& context) {
  LoopNest nest = first_nest(context, {});
  const Shape& shape = context.input(0);
  const auto axis = axis_of(context.attribute("axis", 1), shape.size());
  if (context.attribute("block_size", 0) != 0) return nest;
  for (std::size_t k = 1; k < nest.inputs.size(); ++k) {
    const bool is_row = context.has_input(k) && context.input(k).size() == 1 && axis &&
                        context.input(k)[0] == shape[*axis] && context.input(k)[0] > 1;
    if (is_row) nest.inputs[k] = LoopDims{(*nest.inputs[0])[*axis]};
  }
  return nest;
}

/// Scale and bias broadcast to the input; mean and deviation have the outer dimensions.
LoopNest normalized_from(const LoopContext& context, std::size_t axis) {
  LoopNest nest = broadcast_nest(context, from(axis, context.output(0).size()));
  LoopDims statistics = *nest.outputs[0];
  statistics.resize(axis);
  for (std::size_t k = 1; k < nest.outputs.size(); ++k) {
    if (context.has_output(k) && context.output(k) != context.output(0)) nest.outputs[k] = statistics;
  }
  return nest;
}

std::optional<LoopNest> layer_normalization(const LoopContext& context) {
  const auto axis = axis_of(context.attribute("axis", -1), context.input(0).size());
  if (!axis) return std::nullopt;
  return normalized_from(context, *axis);
}

/// The one of com.microsoft: input, skip, scale, bias, bias; result, mean, deviation, and the sum of input and skip.
std::optional<LoopNest> skip_normalization(const LoopContext& context) {
  if (context.input(0).size() < 2) return std::nullopt;
  return normalized_from(context, context.input(0).size() - 1);
}

/// Statistics of the batch need all rows of a channel.
std::optional<LoopNest> batch_normalization(const LoopContext& context) {
  const Shape& shape = context.input(0);
  if (shape.size() < 2) return std::nullopt;
  const bool of_batch = context.training || context.backward || context.attribute("training_mode", 0) != 0;
  Uncut uncut;
  if (of_batch) {
    uncut = from(2, shape.size());
    uncut.push_back(0);
  }
  LoopNest nest = first_nest(context, uncut);
  const LoopDims channel{(*nest.inputs[0])[1]};
  for (std::size_t k = 1; k < nest.inputs.size(); ++k) {
    if (context.has_input(k)) nest.inputs[k] = channel;
  }
  for (std::size_t k = 1; k < nest.outputs.size(); ++k) {
    if (context.has_output(k)) nest.outputs[k] = channel;
  }
  return nest;
}

std::optional<LoopNest> instance_normalization(const LoopContext& context) {
  const Shape& shape = context.input(0);
  if (shape.size() < 2) return std::nullopt;
  LoopNest nest = first_nest(context, from(2, shape.size()));
  for (std::size_t k = 1; k < nest.inputs.size(); ++k) {
    if (context.has_input(k)) nest.inputs[k] = LoopDims{(*nest.inputs[0])[1]};
  }
  return nest;
}

/// Scale and bias of each group (opset 18) or of each channel.
std::optional<LoopNest> group_normalization(const LoopContext& context) {
  const Shape& shape = context.input(0);
  const std::int64_t groups = context.attribute("num_groups", 0);
  if (shape.size() < 2 || groups < 1 || shape[1] % groups != 0) return std::nullopt;
  Shape split = shape;
  split[1] = groups;
  split.insert(split.begin() + 2, shape[1] / groups);
  LoopNest nest = empty_nest(context);
  const LoopDims dims = loop_over(nest, split, from(2, split.size()));
  nest.inputs[0] = dims;
  nest.outputs[0] = dims;
  for (std::size_t k = 1; k < nest.inputs.size(); ++k) {
    if (!context.has_input(k)) continue;
    const bool is_group = context.input(k) == Shape{groups};
    nest.inputs[k] = is_group ? LoopDims{dims[1]} : LoopDims{dims[1], dims[2]};
  }
  return nest;
}

/// Neighboring channels are normalized together.
std::optional<LoopNest> local_response(const LoopContext& context) {
  return context.input(0).size() < 2 ? std::nullopt : std::optional(first_nest(context, {1}));
}

std::optional<LoopNest> mean_variance(const LoopContext& context) {
  std::vector<std::int64_t> axes = context.list("axes");
  if (!context.node.attributes.has("axes")) axes = {0, 2, 3};
  Uncut uncut;
  for (const std::int64_t axis : axes) {
    const auto position = axis_of(axis, context.input(0).size());
    if (!position) return std::nullopt;
    uncut.push_back(*position);
  }
  return first_nest(context, uncut);
}

/// `adds`: a range of a reduced dimension gives a term.
std::optional<LoopNest> reduction(const LoopContext& context, bool adds) {
  const Shape& shape = context.input(0);
  const auto axes = context.setting("axes", 1);
  if (!axes) return std::nullopt;
  const bool is_copy = axes->empty() && context.attribute("noop_with_empty_axes", 0) != 0;
  std::vector<bool> reduced(shape.size(), axes->empty() && !is_copy);
  for (const std::int64_t axis : *axes) {
    const auto position = axis_of(axis, shape.size());
    if (!position) return std::nullopt;
    reduced[*position] = true;
  }
  LoopNest nest = empty_nest(context);
  LoopDims x;
  LoopDims y;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    x.push_back({.loop = reduced[k] && !adds ? kNoLoop : nest.add_loop(shape[k]), .extent = shape[k]});
    if (!reduced[k]) y.push_back(x.back());
  }
  nest.inputs[0] = std::move(x);
  nest.outputs[0] = std::move(y);
  return nest;
}

std::optional<LoopNest> sum(const LoopContext& context) {
  return reduction(context, true);
}

std::optional<LoopNest> extremum(const LoopContext& context) {
  return reduction(context, false);
}

/// ArgMax, ArgMin, TopK: all dimensions but one.
std::optional<LoopNest> search_along(const LoopContext& context, std::int64_t axis) {
  const Shape& shape = context.input(0);
  const auto position = axis_of(axis, shape.size());
  if (!position) return std::nullopt;
  LoopNest nest = empty_nest(context);
  LoopDims dims = loop_over(nest, shape, {*position});
  nest.inputs[0] = dims;
  for (std::size_t k = 0; k < nest.outputs.size(); ++k) {
    if (!context.has_output(k)) continue;
    LoopDims made = dims;
    const Shape& result = context.output(k);
    if (result.size() == shape.size()) {
      made[*position].extent = result[*position];
    } else {
      made.erase(made.begin() + static_cast<std::ptrdiff_t>(*position));
    }
    nest.outputs[k] = std::move(made);
  }
  return nest;
}

std::optional<LoopNest> arg_extremum(const LoopContext& context) {
  return search_along(context, context.attribute("axis", 0));
}

std::optional<LoopNest> top_k(const LoopContext& context) {
  return search_along(context, context.attribute("axis", -1));
}

/// The index inserts a dimension.
std::optional<LoopNest> one_hot(const LoopContext& context) {
  const auto axis = axis_of(context.attribute("axis", -1), context.output(0).size());
  if (!axis) return std::nullopt;
  LoopNest nest = empty_nest(context);
  LoopDims dims = loop_over(nest, context.output(0), {*axis});
  nest.outputs[0] = dims;
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(*axis));
  nest.inputs[0] = std::move(dims);
  return nest;
}

/// The indices' dimensions stand in the result where the axis stands in the table.
std::optional<LoopNest> gather(const LoopContext& context) {
  const Shape& table = context.input(0);
  const Shape& indices = context.input(1);
  const auto axis = axis_of(context.attribute("axis", 0), table.size());
  if (!axis) return std::nullopt;
  LoopNest nest = empty_nest(context);
  const LoopDims made = loop_over(nest, context.output(0));
  if (made.size() + 1 != table.size() + indices.size()) return std::nullopt;
  const auto middle = made.begin() + static_cast<std::ptrdiff_t>(*axis);
  const auto end = middle + static_cast<std::ptrdiff_t>(indices.size());
  LoopDims read(made.begin(), middle);
  read.push_back({.extent = table[*axis]});
  read.insert(read.end(), end, made.end());
  nest.inputs[0] = std::move(read);
  nest.inputs[1] = LoopDims(middle, end);
  nest.outputs[0] = made;
  return nest;
}

/// The indices may have fewer rows than the table in other dimensions, too.
std::optional<LoopNest> gather_elements(const LoopContext& context) {
  const Shape& table = context.input(0);
  const auto axis = axis_of(context.attribute("axis", 0), table.size());
  if (!axis || context.output(0).size() != table.size()) return std::nullopt;
  LoopNest nest = empty_nest(context);
  const LoopDims made = loop_over(nest, context.output(0));
  LoopDims read;
  for (std::size_t k = 0; k < table.size(); ++k) {
    const bool is_cut = k != *axis && table[k] == made[k].extent;
    read.push_back(is_cut ? made[k] : LoopDim{.extent = table[k]});
  }
  nest.inputs[0] = std::move(read);
  nest.inputs[1] = made;
  nest.outputs[0] = made;
  return nest;
}

/// Parts of equal extent are cut side by side along their own dimension: the whole has it as two.
std::optional<LoopNest> parts(const LoopContext& context, const Shape& whole, bool joins) {
  const auto& list = joins ? context.node.inputs : context.node.outputs;
  const auto axis = axis_of(context.attribute("axis", joins ? 1 : 0), whole.size());
  if (!axis) return std::nullopt;
  std::vector<std::int64_t> extents;
  for (const ValueId part : list) {
    if (!part.valid()) continue;
    const Shape& shape = context.network.values[part].shape;
    if (shape.size() != whole.size()) return std::nullopt;
    extents.push_back(shape[*axis]);
  }
  if (extents.empty()) return std::nullopt;
  const auto count = static_cast<std::int64_t>(list.size());
  const bool alike = std::ranges::all_of(extents, [&](std::int64_t extent) { return extent == extents.front(); }) &&
                     saturating_product(extents.front(), count) == whole[*axis];
  LoopNest nest = empty_nest(context);
  const LoopDims outer = loop_over(nest, whole, {*axis});
  const auto place = static_cast<std::ptrdiff_t>(*axis);
  const LoopDim row{.loop = alike ? nest.add_loop(extents.front()) : kNoLoop, .extent = extents.front()};
  const auto with = [&](LoopDims dims) {
    LoopDims result = outer;
    result.erase(result.begin() + place);
    result.insert(result.begin() + place, dims.begin(), dims.end());
    return result;
  };
  const LoopDims joined = alike ? with({{.extent = count}, row}) : outer;
  auto& single = joins ? nest.outputs : nest.inputs;
  auto& several = joins ? nest.inputs : nest.outputs;
  single[0] = joined;
  for (std::size_t k = 0; k < list.size(); ++k) {
    if (!list[k].valid()) continue;
    several[k] = with({alike ? row : LoopDim{.extent = context.network.values[list[k]].shape[*axis]}});
  }
  return nest;
}

std::optional<LoopNest> concat(const LoopContext& context) {
  return parts(context, context.output(0), true);
}

std::optional<LoopNest> split(const LoopContext& context) {
  return parts(context, context.input(0), false);
}

std::optional<LoopNest> transpose(const LoopContext& context) {
  const Shape& shape = context.input(0);
  std::vector<std::int64_t> order = context.list("perm");
  if (order.empty()) {
    for (std::size_t k = shape.size(); k-- > 0;) order.push_back(static_cast<std::int64_t>(k));
  }
  LoopNest nest = empty_nest(context);
  const LoopDims read = loop_over(nest, shape);
  LoopDims made;
  for (const std::int64_t k : order) {
    if (k < 0 || at(k) >= read.size()) return std::nullopt;
    made.push_back(read[at(k)]);
  }
  nest.inputs[0] = read;
  nest.outputs[0] = std::move(made);
  return nest;
}

/// Rows of an input behind each other, or padded: row o of the result is row o * stride - before of the input.
std::optional<LoopNest> shifted(const LoopContext& context, const std::vector<RowWindow>& windows) {
  LoopNest nest = empty_nest(context);
  LoopDims x;
  LoopDims y;
  for (const RowWindow& window : windows) {
    if (!is_moderate(window)) {
      x.push_back({.extent = window.input});
      y.push_back({.extent = window.output});
      continue;
    }
    const WindowDims dims = window_loop(nest, window, context.backward, false);
    x.push_back(context.backward ? dims.gradient : dims.input);
    y.push_back(dims.output);
  }
  nest.inputs[0] = std::move(x);
  nest.outputs[0] = std::move(y);
  return nest;
}

std::vector<RowWindow> same_rows(const Shape& input, const Shape& output) {
  std::vector<RowWindow> windows;
  for (std::size_t k = 0; k < input.size(); ++k) windows.push_back({.input = input[k], .output = output[k]});
  return windows;
}

std::optional<LoopNest> slice(const LoopContext& context) {
  const Shape& shape = context.input(0);
  const auto starts = context.setting("starts", 1);
  auto axes = context.setting("axes", 3);
  auto steps = context.setting("steps", 4);
  if (!starts || !axes || !steps || context.output(0).size() != shape.size()) return std::nullopt;
  if (axes->empty()) {
    for (std::size_t k = 0; k < starts->size(); ++k) axes->push_back(static_cast<std::int64_t>(k));
  }
  if (steps->empty()) steps->assign(starts->size(), 1);
  if (axes->size() != starts->size() || steps->size() != starts->size()) return std::nullopt;
  std::vector<RowWindow> windows = same_rows(shape, context.output(0));
  for (std::size_t k = 0; k < starts->size(); ++k) {
    const auto axis = axis_of((*axes)[k], shape.size());
    if (!axis) return std::nullopt;
    const std::int64_t start = (*starts)[k] < 0 ? (*starts)[k] + shape[*axis] : (*starts)[k];
    windows[*axis].stride = (*steps)[k];
    windows[*axis].before = -std::clamp(start, std::int64_t{0}, shape[*axis]);
  }
  return shifted(context, windows);
}

/// With a constant; other modes read rows of elsewhere.
std::optional<LoopNest> pad(const LoopContext& context) {
  const Shape& shape = context.input(0);
  const Shape& result = context.output(0);
  const auto pads = context.setting("pads", 1);
  auto axes = context.has_input(3) ? context.constant(3) : std::vector<std::int64_t>{};
  if (!pads || !axes || result.size() != shape.size()) return std::nullopt;
  if (axes->empty()) {
    for (std::size_t k = 0; k < shape.size(); ++k) axes->push_back(static_cast<std::int64_t>(k));
  }
  if (pads->size() != 2 * axes->size()) return std::nullopt;
  const bool is_constant = context.node.attributes.get("mode", std::string("constant")) == "constant";
  std::vector<RowWindow> windows = same_rows(shape, result);
  for (std::size_t k = 0; k < axes->size(); ++k) {
    const auto axis = axis_of((*axes)[k], shape.size());
    if (!axis) return std::nullopt;
    windows[*axis].before = (*pads)[k];
    const bool is_padded = (*pads)[k] != 0 || shape[*axis] != result[*axis];
    if (is_padded && !is_constant) windows[*axis].stride = 0;
  }
  return shifted(context, windows);
}

/// A dimension that is repeated is two in the result.
std::optional<LoopNest> tile(const LoopContext& context) {
  const Shape& shape = context.input(0);
  const Shape& result = context.output(0);
  if (shape.size() != result.size()) return std::nullopt;
  LoopNest nest = empty_nest(context);
  LoopDims x;
  LoopDims y;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] < 1 || result[k] % shape[k] != 0) return std::nullopt;
    const std::int64_t repeats = result[k] / shape[k];
    y.push_back({.loop = nest.add_loop(repeats), .extent = repeats});
    x.push_back({.loop = nest.add_loop(shape[k]), .extent = shape[k]});
    y.push_back(x.back());
  }
  nest.inputs[0] = std::move(x);
  nest.outputs[0] = std::move(y);
  return nest;
}

/// Channels become blocks of pixels: [n, c, b, b, h, w] and [n, c, h, b, w, b], or the blocks come first.
std::optional<LoopNest> blocks(const LoopContext& context, const Shape& deep, bool to_space, bool blocks_first) {
  const std::int64_t block = context.attribute("blocksize", 0);
  if (deep.size() != 4 || block < 1 || deep[1] % block != 0 || deep[1] / block % block != 0) return std::nullopt;
  LoopNest nest = empty_nest(context);
  const LoopDims dims = loop_over(nest, {deep[0], deep[1] / block / block, block, block, deep[2], deep[3]});
  const auto order = [&](std::initializer_list<std::size_t> positions) {
    LoopDims result;
    for (const std::size_t position : positions) result.push_back(dims[position]);
    return result;
  };
  const LoopDims channels = blocks_first ? order({0, 2, 3, 1, 4, 5}) : order({0, 1, 2, 3, 4, 5});
  const LoopDims pixels = order({0, 1, 4, 2, 5, 3});
  nest.inputs[0] = to_space ? channels : pixels;
  nest.outputs[0] = to_space ? pixels : channels;
  return nest;
}

std::optional<LoopNest> depth_to_space(const LoopContext& context) {
  const bool blocks_first = context.node.attributes.get("mode", std::string("DCR")) == "DCR";
  return blocks(context, context.input(0), true, blocks_first);
}

std::optional<LoopNest> space_to_depth(const LoopContext& context) {
  return blocks(context, context.output(0), false, true);
}

/// Positions and angles are whole: a row's place in the sequence decides.
std::optional<LoopNest> rotation(const LoopContext& context) {
  const Shape& shape = context.input(0);
  if (shape.size() < 3) return std::nullopt;
  return first_nest(context, {shape.size() - 1});
}

using LoopRule = std::optional<LoopNest> (*)(const LoopContext&);
using LoopRules = std::map<std::string_view, LoopRule, std::less<>>;

LoopRules default_domain() {
  LoopRules rules{{"MatMul", loops_of_product},
                  {"MatMulInteger", loops_of_product},
                  {"Gemm", loops_of_gemm},
                  {"Einsum", loops_of_einsum},
                  {"Conv", loops_of_convolution},
                  {"ConvInteger", loops_of_convolution},
                  {"QLinearConv", loops_of_convolution},
                  {"ConvTranspose", loops_of_transposed_convolution},
                  {"MaxPool", loops_of_pool},
                  {"AveragePool", loops_of_pool},
                  {"LpPool", loops_of_pool},
                  {"GlobalAveragePool", loops_of_global_average},
                  {"GlobalMaxPool", loops_of_global_pool},
                  {"GlobalLpPool", loops_of_global_pool},
                  {"Resize", loops_of_resize},
                  {"Upsample", loops_of_resize},
                  {"Attention", loops_of_attention},
                  {"LSTM", loops_of_recurrence},
                  {"GRU", loops_of_recurrence},
                  {"RNN", loops_of_recurrence},
                  {"SoftmaxCrossEntropyLoss", loops_of_cross_entropy},
                  {"NegativeLogLikelihoodLoss", loops_of_likelihood},
                  {"Loss", loops_of_loss},
                  {"LpNormalization", along_axis},
                  {"CumSum", cumulative},
                  {"Trilu", triangle},
                  {"QuantizeLinear", quantization},
                  {"DequantizeLinear", quantization},
                  {"LayerNormalization", layer_normalization},
                  {"RMSNormalization", layer_normalization},
                  {"SimplifiedLayerNormalization", layer_normalization},
                  {"BatchNormalization", batch_normalization},
                  {"InstanceNormalization", instance_normalization},
                  {"GroupNormalization", group_normalization},
                  {"LRN", local_response},
                  {"MeanVarianceNormalization", mean_variance},
                  {"TopK", top_k},
                  {"OneHot", one_hot},
                  {"Gather", gather},
                  {"GatherElements", gather_elements},
                  {"Concat", concat},
                  {"Split", split},
                  {"Transpose", transpose},
                  {"Slice", slice},
                  {"Pad", pad},
                  {"Tile", tile},
                  {"Expand", expand},
                  {"DepthToSpace", depth_to_space},
                  {"SpaceToDepth", space_to_depth},
                  {"RotaryEmbedding", rotation}};
  constexpr std::array kOthers{"Where",       "Cast",       "CastLike",    "Sin",           "Cos",        "Tan",
                               "Asin",        "Acos",       "Atan",        "Sinh",          "Cosh",       "Asinh",
                               "Acosh",       "Atanh",      "Gelu",        "Mish",          "Swish",      "Not",
                               "And",         "Or",         "Xor",         "Equal",         "Greater",    "Less",
                               "LessOrEqual", "BitwiseAnd", "BitwiseOr",   "BitwiseXor",    "BitwiseNot", "BitShift",
                               "IsNaN",       "IsInf",      "GradientSum", "GreaterOrEqual"};
  for (const char* type : kMappedOps) rules.emplace(type, elementwise);
  for (const char* type : kArithmeticOps) rules.emplace(type, elementwise);
  for (const char* type : kOthers) rules.emplace(type, elementwise);
  for (const char* type : {"Softmax", "LogSoftmax", "Hardmax"}) rules.emplace(type, softmax);
  for (const char* type : {"ReduceSum", "ReduceMean", "ReduceL1", "ReduceSumSquare"}) rules.emplace(type, sum);
  for (const char* type : {"ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"}) {
    rules.emplace(type, extremum);
  }
  for (const char* type : {"ArgMax", "ArgMin"}) rules.emplace(type, arg_extremum);
  return rules;
}

LoopRules microsoft() {
  LoopRules rules{{"FusedMatMul", loops_of_product},
                  {"MultiHeadAttention", loops_of_multi_head_attention},
                  {"SkipLayerNormalization", skip_normalization},
                  {"SkipSimplifiedLayerNormalization", skip_normalization}};
  for (const char* type : {"Gelu", "QuickGelu", "FastGelu", "BiasGelu"}) rules.emplace(type, elementwise);
  return rules;
}

}  // namespace
}  // namespace rules

std::optional<LoopNest> find_loops(const LoopContext& context) {
  static const rules::LoopRules kDefault = rules::default_domain();
  static const rules::LoopRules kMicrosoft = rules::microsoft();
  const Node& node = context.node;
  const bool is_microsoft = node.domain == "com.microsoft";
  if (!node.domain.empty() && !is_microsoft) return std::nullopt;
  const rules::LoopRules& table = is_microsoft ? kMicrosoft : kDefault;
  const auto found = table.find(node.type);
  if (found == table.end() || !context.has_input(0)) return std::nullopt;
  const bool is_recurrent = found->second == loops_of_recurrence;
  if (!context.has_output(0) && !is_recurrent) return std::nullopt;
  return found->second(context);
}

}  // namespace remora::onnx_frontend
