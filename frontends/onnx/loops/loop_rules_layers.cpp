// SPDX-License-Identifier: Apache-2.0
//
// Loops of the layers that multiply, of windows, attention and losses.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "frontends/onnx/loops/loop_rules.hpp"
#include "model/table.hpp"

namespace remora::onnx_frontend {
namespace {

LoopDim dim_of(const LoopNest& nest, int loop) {
  return {.loop = loop, .extent = nest.extents[at(loop)]};
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return -floor_div(-a, b);
}

/// The last two dimensions of a matrix, in this order or the other.
void add_matrix(LoopDims& dims, LoopDim rows, LoopDim columns, bool transposed) {
  dims.push_back(transposed ? columns : rows);
  dims.push_back(transposed ? rows : columns);
}

}  // namespace

/// MatMul and FusedMatMul: batch, rows, columns, and the inner dimension.
std::optional<LoopNest> loops_of_product(const LoopContext& context) {
  Shape left = context.input(0);
  Shape right = context.input(1);
  if (left.empty() || right.empty()) return std::nullopt;
  if (context.attribute("transBatchA", 0) != 0 || context.attribute("transBatchB", 0) != 0) return std::nullopt;
  const bool is_row = left.size() == 1;
  const bool is_column = right.size() == 1;
  if (is_row) left.insert(left.begin(), 1);
  if (is_column) right.push_back(1);
  const bool left_transposed = !is_row && context.attribute("transA", 0) != 0;
  const bool right_transposed = !is_column && context.attribute("transB", 0) != 0;
  LoopNest nest = empty_nest(context);
  const Shape& result = context.output(0);
  if (result.size() < std::size_t{is_row ? 0U : 1U} + (is_column ? 0U : 1U)) return std::nullopt;
  const Shape batch(result.begin(), result.end() - (is_row ? 0 : 1) - (is_column ? 0 : 1));
  const LoopDims outer = loop_over(nest, batch);
  const LoopDim rows = dim_of(nest, nest.add_loop(left[left.size() - (left_transposed ? 1 : 2)]));
  const LoopDim columns = dim_of(nest, nest.add_loop(right[right.size() - (right_transposed ? 2 : 1)]));
  const LoopDim inner = dim_of(nest, nest.add_loop(left[left.size() - (left_transposed ? 2 : 1)]));
  auto left_dims = broadcast_dims(Shape(left.begin(), left.end() - 2), outer);
  auto right_dims = broadcast_dims(Shape(right.begin(), right.end() - 2), outer);
  if (!left_dims || !right_dims) return std::nullopt;
  add_matrix(*left_dims, rows, inner, left_transposed);
  add_matrix(*right_dims, inner, columns, right_transposed);
  LoopDims made = outer;
  add_matrix(made, rows, columns, false);
  nest.inputs[0] = std::move(left_dims);
  nest.inputs[1] = std::move(right_dims);
  nest.outputs[0] = std::move(made);
  return nest;
}

std::optional<LoopNest> loops_of_gemm(const LoopContext& context) {
  const Shape& left = context.input(0);
  const Shape& right = context.input(1);
  if (left.size() != 2 || right.size() != 2) return std::nullopt;
  const bool left_transposed = context.attribute("transA", 0) != 0;
  const bool right_transposed = context.attribute("transB", 0) != 0;
  LoopNest nest = empty_nest(context);
  const LoopDim rows = dim_of(nest, nest.add_loop(left[left_transposed ? 1 : 0]));
  const LoopDim columns = dim_of(nest, nest.add_loop(right[right_transposed ? 0 : 1]));
  const LoopDim inner = dim_of(nest, nest.add_loop(left[left_transposed ? 0 : 1]));
  add_matrix(nest.inputs[0].emplace(), rows, inner, left_transposed);
  add_matrix(nest.inputs[1].emplace(), inner, columns, right_transposed);
  nest.outputs[0] = LoopDims{rows, columns};
  // Of the terms of a sum over the inner dimension, the first has it.
  if (context.has_input(2)) nest.inputs[2] = broadcast_dims(context.input(2), *nest.outputs[0]);
  return nest;
}

/// Without ellipsis: its dimensions have no labels.
std::optional<LoopNest> loops_of_einsum(const LoopContext& context) {
  std::string equation = context.node.attributes.get("equation", std::string());
  std::erase(equation, ' ');
  if (equation.find('.') != std::string::npos) return std::nullopt;
  const auto arrow = equation.find("->");
  std::vector<std::string> terms{""};
  std::map<char, int> uses;
  for (const char label : equation.substr(0, arrow)) {
    if (label == ',') {
      terms.emplace_back();
    } else {
      terms.back() += label;
      ++uses[label];
    }
  }
  std::string result;
  if (arrow != std::string::npos) {
    result = equation.substr(arrow + 2);
  } else {
    for (const auto& [label, count] : uses) {
      if (count == 1) result += label;
    }
  }
  LoopNest nest = empty_nest(context);
  std::map<char, LoopDim> dims;
  const auto dims_of = [&](const std::string& labels, const Shape& shape) -> std::optional<LoopDims> {
    if (labels.size() != shape.size()) return std::nullopt;
    LoopDims found;
    for (std::size_t k = 0; k < labels.size(); ++k) {
      // An operand of extent 1 broadcasts in some runtimes: then it has no loop.
      const auto [known, is_new] = dims.try_emplace(labels[k]);
      if (is_new || known->second.extent == 1) known->second = dim_of(nest, nest.add_loop(shape[k]));
      if (shape[k] != 1) found.push_back(known->second);
    }
    return found;
  };
  for (std::size_t k = 0; k < terms.size(); ++k) {
    if (!context.has_input(k)) return std::nullopt;
    nest.inputs[k] = dims_of(terms[k], context.input(k));
    if (!nest.inputs[k]) return std::nullopt;
  }
  nest.outputs[0] = dims_of(result, context.output(0));
  if (!nest.outputs[0]) return std::nullopt;
  return nest;
}

bool is_moderate(const RowWindow& window) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const auto within = [](std::int64_t number) { return number >= 1 && number <= kMost; };
  return within(window.stride) && within(window.length) && window.before >= -kMost && window.before <= kMost;
}

WindowDims window_loop(LoopNest& nest, const RowWindow& window, bool to_input, bool reads_windows) {
  const auto [input, output, stride, before, length] = window;
  if (stride == 1 && before == 0 && length == 1 && input == output) {
    const LoopDim plain = dim_of(nest, nest.add_loop(output));
    return {plain, plain, plain};
  }
  if (!to_input) {
    const int loop = nest.add_loop(output);
    return {.input = {.loop = loop, .extent = input, .step = stride, .offset = -before, .length = length},
            .output = dim_of(nest, loop),
            .gradient = {.extent = input}};
  }
  // Row o of the output reads the rows from o * stride - before on: which ones touch the `stride` rows of an iteration?
  const int loop = nest.add_loop(ceil_div(input, stride));
  const std::int64_t first = ceil_div(before - length + 1, stride);
  const std::int64_t last = floor_div(stride - 1 + before, stride);
  const LoopDim own{.loop = loop, .extent = input, .step = stride, .length = stride};
  const LoopDim windows{.loop = loop,
                        .extent = input,
                        .step = stride,
                        .offset = first * stride - before,
                        .length = (last - first) * stride + length};
  return {.input = reads_windows ? windows : own,
          .output = {.loop = loop, .extent = output, .offset = first, .length = last - first + 1},
          .gradient = own};
}

namespace {

/// The windows of a convolution or a pool over the spatial dimensions of its input; none for an attribute that does not
/// fit.
std::optional<std::vector<RowWindow>> windows_of(const LoopContext& context, const Shape& input, const Shape& output,
                                                 const std::vector<std::int64_t>& kernel) {
  const std::size_t rank = kernel.size();
  if (input.size() != rank + 2 || output.size() != rank + 2) return std::nullopt;
  const std::vector<std::int64_t> strides = context.list_or("strides", rank, 1);
  const std::vector<std::int64_t> dilations = context.list_or("dilations", rank, 1);
  const std::vector<std::int64_t> pads = context.list_or("pads", 2 * rank, 0);
  if (strides.size() != rank || dilations.size() != rank || pads.size() != 2 * rank) return std::nullopt;
  const std::string mode = context.node.attributes.get("auto_pad", std::string("NOTSET"));
  std::vector<RowWindow> windows;
  for (std::size_t k = 0; k < rank; ++k) {
    RowWindow window{.input = input[k + 2],
                     .output = output[k + 2],
                     .stride = strides[k],
                     .before = pads[k],
                     .length = saturating_sum(saturating_product(kernel[k] - 1, dilations[k]), 1)};
    if (kernel[k] < 1 || dilations[k] < 1 || !is_moderate(window)) return std::nullopt;
    if (mode.starts_with("SAME")) {
      const std::int64_t reach = saturating_sum(saturating_product(window.output - 1, window.stride), window.length);
      const std::int64_t total = std::max<std::int64_t>(0, reach - window.input);
      window.before = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    } else if (mode == "VALID") {
      window.before = 0;
    }
    windows.push_back(window);
  }
  return windows;
}

std::vector<std::int64_t> kernel_of(const LoopContext& context, std::size_t weights) {
  const Shape& shape = context.input(weights);
  return shape.size() < 2 ? std::vector<std::int64_t>{} : std::vector<std::int64_t>(shape.begin() + 2, shape.end());
}

/// True if every row of the output belongs to an iteration over the input's rows, which a sum over all of them needs.
bool covers_output(const RowWindow& window) {
  const std::int64_t iterations = ceil_div(window.input, window.stride);
  return window.before < window.length &&
         iterations - 1 + floor_div(window.stride - 1 + window.before, window.stride) >= window.output - 1;
}

/// True if every row of the input belongs to a window, which a sum over all of them needs.
bool windows_cover(const RowWindow& window) {
  const std::int64_t end =
      saturating_sum(saturating_product(window.output - 1, window.stride), window.length - window.before);
  return window.before >= 0 && window.length >= window.stride && end >= window.input;
}

struct ConvolutionInputs {
  std::size_t weights = 1;
  std::size_t bias = 2;
};

ConvolutionInputs inputs_of_convolution(const Node& node) {
  return node.type == "QLinearConv" ? ConvolutionInputs{3, 8} : ConvolutionInputs{};
}

}  // namespace

/// Batch, groups, output and input channels, and the rows of each spatial dimension.
std::optional<LoopNest> loops_of_convolution(const LoopContext& context) {
  const auto [weights, bias] = inputs_of_convolution(context.node);
  const Shape& input = context.input(0);
  const Shape& output = context.output(0);
  const std::int64_t groups = context.attribute("group", 1);
  const auto windows = windows_of(context, input, output, kernel_of(context, weights));
  if (!windows || groups < 1 || input[1] % groups != 0 || output[1] % groups != 0) return std::nullopt;
  LoopNest nest = empty_nest(context);
  const LoopDim batch = dim_of(nest, nest.add_loop(input[0]));
  const LoopDim group = dim_of(nest, nest.add_loop(groups));
  const LoopDim made = dim_of(nest, nest.add_loop(output[1] / groups));
  // A sum is rounded to the result's type, which a quantized one is not fit for.
  const bool is_quantized = context.node.type == "QLinearConv";
  const LoopDim read =
      is_quantized ? LoopDim{.extent = input[1] / groups} : dim_of(nest, nest.add_loop(input[1] / groups));
  LoopDims x{batch, group, read};
  LoopDims w{group, made, read};
  LoopDims y{batch, group, made};
  LoopDims gradient = x;
  const bool to_input = context.backward && context.wants_gradient_of(0);
  for (const RowWindow& window : *windows) {
    WindowDims dims{
        .input = {.extent = window.input}, .output = {.extent = window.output}, .gradient = {.extent = window.input}};
    if (!to_input || covers_output(window)) dims = window_loop(nest, window, to_input, false);
    x.push_back(dims.input);
    y.push_back(dims.output);
    gradient.push_back(dims.gradient);
    w.push_back({.extent = context.input(weights)[w.size() - 1]});
  }
  nest.inputs[0] = std::move(x);
  nest.inputs[weights] = std::move(w);
  if (context.has_input(bias)) nest.inputs[bias] = LoopDims{group, made};
  nest.outputs[0] = std::move(y);
  nest.gradients = nest.inputs;
  nest.gradients[0] = std::move(gradient);
  return nest;
}

/// The gradient of a convolution, and so its gradient a convolution: rows of the input are the windows' rows.
std::optional<LoopNest> loops_of_transposed_convolution(const LoopContext& context) {
  const Shape& input = context.input(0);
  const Shape& output = context.output(0);
  const std::int64_t groups = context.attribute("group", 1);
  // Pads may follow from the extents in several ways: only stated ones.
  if (context.node.attributes.get("auto_pad", std::string("NOTSET")) != "NOTSET") return std::nullopt;
  if (!context.list("output_shape").empty()) return std::nullopt;
  const auto windows = windows_of(context, output, input, kernel_of(context, 1));
  if (!windows || groups < 1 || input[1] % groups != 0 || output[1] % groups != 0) return std::nullopt;
  LoopNest nest = empty_nest(context);
  const LoopDim batch = dim_of(nest, nest.add_loop(input[0]));
  const LoopDim group = dim_of(nest, nest.add_loop(groups));
  const LoopDim made = dim_of(nest, nest.add_loop(output[1] / groups));
  const LoopDim read = dim_of(nest, nest.add_loop(input[1] / groups));
  LoopDims x{batch, group, read};
  LoopDims w{group, read, made};
  LoopDims y{batch, group, made};
  for (const RowWindow& window : *windows) {
    // Forward, iterations are over rows of the result, which is what a convolution reads; backward, over those of x.
    WindowDims dims{
        .input = {.extent = window.input}, .output = {.extent = window.output}, .gradient = {.extent = window.input}};
    const bool is_summed = context.backward && context.wants_gradient_of(2);
    if (!is_summed || windows_cover(window)) dims = window_loop(nest, window, !context.backward, false);
    y.push_back(context.backward ? dims.input : dims.gradient);
    x.push_back(dims.output);
    w.push_back({.extent = context.input(1)[w.size() - 1]});
  }
  nest.inputs[0] = std::move(x);
  nest.inputs[1] = std::move(w);
  if (context.has_input(2)) nest.inputs[2] = LoopDims{group, made};
  nest.outputs[0] = std::move(y);
  return nest;
}

/// MaxPool, AveragePool, LpPool.
std::optional<LoopNest> loops_of_pool(const LoopContext& context) {
  const Shape& input = context.input(0);
  const Shape& output = context.output(0);
  const auto windows = windows_of(context, input, output, context.list("kernel_shape"));
  // Indices count in the whole tensor.
  if (!windows || context.has_output(1)) return std::nullopt;
  LoopNest nest = empty_nest(context);
  const LoopDims outer = loop_over(nest, Shape(input.begin(), input.begin() + 2));
  LoopDims x = outer;
  LoopDims y = outer;
  LoopDims gradient = outer;
  for (const RowWindow& window : *windows) {
    const WindowDims dims = window_loop(nest, window, context.backward, true);
    x.push_back(dims.input);
    y.push_back(dims.output);
    gradient.push_back(dims.gradient);
  }
  nest.inputs[0] = std::move(x);
  nest.outputs[0] = std::move(y);
  nest.gradients = {std::move(gradient)};
  return nest;
}

namespace {

std::optional<LoopNest> loops_of_whole_images(const LoopContext& context, bool adds) {
  const Shape& input = context.input(0);
  if (input.size() < 2) return std::nullopt;
  LoopNest nest = empty_nest(context);
  LoopDims x = loop_over(nest, Shape(input.begin(), input.begin() + 2));
  nest.outputs[0] = x;
  const Shape image(input.begin() + 2, input.end());
  const LoopDims inner = adds ? loop_over(nest, image) : uncut_dims(image);
  x.insert(x.end(), inner.begin(), inner.end());
  nest.inputs[0] = std::move(x);
  return nest;
}

}  // namespace

std::optional<LoopNest> loops_of_global_average(const LoopContext& context) {
  return loops_of_whole_images(context, true);
}

std::optional<LoopNest> loops_of_global_pool(const LoopContext& context) {
  return loops_of_whole_images(context, false);
}

namespace {

/// How a Resize finds the input's coordinate for a row of the output, and which rows it reads around it.
struct Interpolation {
  std::string coordinates{};
  std::string rounding{};
  std::string mode{};

  [[nodiscard]] bool known() const {
    constexpr std::array<std::string_view, 5> kCoordinates{"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                                           "asymmetric", "tf_half_pixel_for_nn"};
    constexpr std::array<std::string_view, 4> kModes{"nearest", "linear", "bilinear", "cubic"};
    return std::ranges::find(kCoordinates, coordinates) != kCoordinates.end() &&
           std::ranges::find(kModes, mode) != kModes.end();
  }

  [[nodiscard]] double coordinate(double row, double scale) const {
    if (coordinates == "asymmetric") return row / scale;
    return (row + 0.5) / scale - (coordinates == "tf_half_pixel_for_nn" ? 0.0 : 0.5);
  }

  [[nodiscard]] double nearest(double coordinate) const {
    if (rounding == "floor") return std::floor(coordinate);
    if (rounding == "ceil") return std::ceil(coordinate);
    return rounding == "round_prefer_ceil" ? std::floor(coordinate + 0.5) : std::ceil(coordinate - 0.5);
  }

  /// The rows around a coordinate, the last one included; more where the runtime's single precision may decide, which
  /// is exact for powers of two.
  [[nodiscard]] Range rows(double coordinate, double scale) const {
    constexpr double kTolerance = 1e-3;
    constexpr double kMantissaOfPower = 0.5;
    int exponent = 0;
    const double tolerance = std::frexp(scale, &exponent) == kMantissaOfPower ? 0.0 : kTolerance;
    const double low = coordinate - tolerance;
    const double high = coordinate + tolerance;
    const auto range = [](double first, double last) {
      return Range{static_cast<std::int64_t>(first), static_cast<std::int64_t>(last)};
    };
    if (mode == "nearest") return range(nearest(low), nearest(high));
    if (mode == "cubic") return range(std::floor(low) - 1, std::floor(high) + 2);
    return range(std::floor(low), std::floor(high) + 1);
  }
};

Interpolation interpolation_of(const LoopContext& context) {
  const bool is_old = context.node.type == "Upsample" || context.network.opset < 11;
  const auto text = [&](std::string_view name, const char* otherwise, const char* old) {
    return is_old ? std::string(old) : context.node.attributes.get(name, std::string(otherwise));
  };
  return {text("coordinate_transformation_mode", "half_pixel", "asymmetric"),
          text("nearest_mode", "round_prefer_floor", "floor"),
          context.node.attributes.get("mode", std::string("nearest"))};
}

/// Whole rows of the output for whole rows of the input.
struct Ratio {
  std::int64_t input = 1;
  std::int64_t output = 1;
};

std::optional<Ratio> ratio_of(double scale) {
  constexpr std::int64_t kMostRows = 64;
  for (std::int64_t rows = 1; rows <= kMostRows; ++rows) {
    const double output = scale * static_cast<double>(rows);
    if (output >= 1 && output <= kMostRows && output == std::floor(output)) {
      return Ratio{rows, static_cast<std::int64_t>(output)};
    }
  }
  return std::nullopt;
}

/// The scale of each dimension; none where it is not known.
std::optional<std::vector<double>> scales_of(const LoopContext& context) {
  const Shape& input = context.input(0);
  std::vector<std::int64_t> axes = context.list("axes");
  if (axes.empty()) {
    axes.resize(input.size());
    std::iota(axes.begin(), axes.end(), std::int64_t{0});
  }
  std::vector<double> given = context.node.attributes.get("scales", std::vector<double>{});
  if (context.has_input(3)) {
    const auto sizes = context.constant(3);
    if (!sizes) return std::nullopt;
    if (!sizes->empty()) {
      if (context.node.attributes.get("keep_aspect_ratio_policy", std::string("stretch")) != "stretch") {
        return std::nullopt;
      }
      given.clear();
      for (std::size_t k = 0; k < sizes->size() && k < axes.size(); ++k) {
        const auto axis = axis_of(axes[k], input.size());
        if (!axis || input[*axis] < 1) return std::nullopt;
        given.push_back(static_cast<double>((*sizes)[k]) / static_cast<double>(input[*axis]));
      }
    }
  }
  if (given.size() != axes.size()) return std::nullopt;
  std::vector<double> scales(input.size(), 1.0);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const auto axis = axis_of(axes[k], input.size());
    if (!axis) return std::nullopt;
    scales[*axis] = given[k];
  }
  return scales;
}

/// Iterations over `ratio.output` rows of the output; none where their windows are not alike.
std::optional<LoopDim> resized_rows(std::int64_t input, std::int64_t output, double scale, const Ratio& ratio,
                                    const Interpolation& how) {
  constexpr std::int64_t kMostRows = 1 << 20;
  if (output > kMostRows || input < 1) return std::nullopt;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  const auto widen = [&](std::int64_t row, Range rows) {
    first = std::min(first, rows.begin - row / ratio.output * ratio.input);
    last = std::max(last, rows.end - row / ratio.output * ratio.input);
  };
  const auto rows_at = [&](std::int64_t row) {
    return how.rows(how.coordinate(static_cast<double>(row), scale), scale);
  };
  for (std::int64_t row = 0; row < ratio.output; ++row) widen(row, rows_at(row));
  for (std::int64_t row = 0; row < output; ++row) {
    // Beyond the border it reads the last row there is.
    const Range rows = rows_at(row);
    const auto clamped = [&](std::int64_t r) { return std::clamp(r, std::int64_t{0}, input - 1); };
    const Range inside{clamped(rows.begin), clamped(rows.end)};
    const std::int64_t shift = row / ratio.output * ratio.input;
    if (inside.begin < std::max(std::int64_t{0}, first + shift) || inside.end > std::min(input - 1, last + shift)) {
      widen(row, inside);
    }
  }
  return LoopDim{.extent = input, .step = ratio.input, .offset = first, .length = last - first + 1};
}

}  // namespace

std::optional<LoopNest> loops_of_resize(const LoopContext& context) {
  const Shape& input = context.input(0);
  const Shape& output = context.output(0);
  const Interpolation how = interpolation_of(context);
  const auto scales = scales_of(context);
  if (!scales || !how.known() || input.size() != output.size()) return std::nullopt;
  if (context.attribute("antialias", 0) != 0) return std::nullopt;
  LoopNest nest = empty_nest(context);
  LoopDims x;
  LoopDims y;
  for (std::size_t k = 0; k < input.size(); ++k) {
    const double scale = (*scales)[k];
    if (scale == 1.0 && input[k] == output[k]) {
      x.push_back(dim_of(nest, nest.add_loop(input[k])));
      y.push_back(x.back());
      continue;
    }
    const auto ratio = ratio_of(scale);
    // A last row of the output may have another coordinate there.
    const bool is_exact =
        ratio && saturating_product(input[k], ratio->output) == saturating_product(output[k], ratio->input);
    const auto rows = is_exact ? resized_rows(input[k], output[k], scale, *ratio, how) : std::nullopt;
    if (!rows) {
      x.push_back({.extent = input[k]});
      y.push_back({.extent = output[k]});
      continue;
    }
    if (!context.backward) {
      const int loop = nest.add_loop(ceil_div(output[k], ratio->output));
      x.push_back(*rows);
      x.back().loop = loop;
      y.push_back({.loop = loop, .extent = output[k], .step = ratio->output, .length = ratio->output});
    } else {
      const int loop = nest.add_loop(ceil_div(input[k], ratio->input));
      x.push_back({.loop = loop, .extent = input[k], .step = ratio->input, .length = ratio->input});
      y.push_back(seen_from_input(output[k], ratio->input, ratio->output, rows->offset, rows->length));
      y.back().loop = loop;
    }
  }
  nest.inputs[0] = std::move(x);
  nest.outputs[0] = std::move(y);
  return nest;
}

LoopDim seen_from_input(std::int64_t rows, std::int64_t input, std::int64_t output, std::int64_t offset,
                        std::int64_t length) {
  const std::int64_t first = ceil_div(1 - length - offset, input);
  const std::int64_t last = floor_div(input - 1 - offset, input);
  return {.extent = rows, .step = output, .offset = first * output, .length = (last - first + 1) * output};
}

namespace {

/// The dimensions of a query, key or value, [batch, heads, length, size] or [batch, length, heads * size].
LoopDims with_heads(const Shape& shape, const LoopDim& batch, const LoopDims& heads, const LoopDim& length,
                    std::int64_t head_count) {
  LoopDims dims{batch};
  if (shape.size() == 4) {
    dims.insert(dims.end(), heads.begin(), heads.end());
    dims.push_back(length);
    dims.push_back({.extent = shape[3]});
  } else {
    dims.push_back(length);
    dims.insert(dims.end(), heads.begin(), heads.end());
    dims.push_back({.extent = shape[2] / head_count});
  }
  return dims;
}

bool has_heads(const Shape& shape, std::int64_t heads) {
  return shape.size() == 4 || (shape.size() == 3 && heads > 0 && shape[2] % heads == 0);
}

}  // namespace

/// Attention of opset 23: batch, heads and rows of the query. Several heads of queries may share a key.
std::optional<LoopNest> loops_of_attention(const LoopContext& context) {
  const Shape& query = context.input(0);
  const Shape& key = context.input(1);
  const Shape& value = context.input(2);
  const auto heads_of = [&](const Shape& shape, std::string_view name) {
    return shape.size() == 4 ? shape[1] : context.attribute(name, 0);
  };
  const std::int64_t query_heads = heads_of(query, "q_num_heads");
  const std::int64_t key_heads = heads_of(key, "kv_num_heads");
  const bool fits = has_heads(query, query_heads) && has_heads(key, key_heads) && has_heads(value, key_heads) &&
                    has_heads(context.output(0), query_heads) && key_heads > 0 && query_heads % key_heads == 0;
  // A cache, and lengths of samples without padding, have other rows.
  const bool is_plain = !context.has_input(4) && !context.has_input(5) && !context.has_input(6) &&
                        !context.has_output(1) && !context.has_output(2) && !context.has_output(3);
  if (!fits || !is_plain) return std::nullopt;
  LoopNest nest = empty_nest(context);
  const LoopDim batch = dim_of(nest, nest.add_loop(query[0]));
  const LoopDim shared = dim_of(nest, nest.add_loop(key_heads));
  const LoopDim group = dim_of(nest, nest.add_loop(query_heads / key_heads));
  const LoopDim row = dim_of(nest, nest.add_loop(query[query.size() - 2]));
  const LoopDim other{.extent = key[key.size() - 2]};
  nest.inputs[0] = with_heads(query, batch, {shared, group}, row, query_heads);
  nest.inputs[1] = with_heads(key, batch, {shared}, other, key_heads);
  nest.inputs[2] = with_heads(value, batch, {shared}, other, key_heads);
  nest.outputs[0] = with_heads(context.output(0), batch, {shared, group}, row, query_heads);
  if (context.has_input(3)) {
    const Shape& mask = context.input(3);
    const LoopDims all{batch, shared, group, row, other};
    Shape split = mask;
    if (mask.size() == 4) {
      const bool is_split = mask[1] == query_heads;
      if (!is_split && mask[1] != 1) return std::nullopt;
      split = {mask[0], is_split ? key_heads : 1, is_split ? query_heads / key_heads : 1, mask[2], mask[3]};
    } else if (mask.size() == 3 && mask[0] != 1) {
      split = {mask[0] == query_heads ? key_heads : 0, query_heads / key_heads, mask[1], mask[2]};
    }
    nest.inputs[3] = broadcast_dims(split, all);
    if (!nest.inputs[3]) return std::nullopt;
  }
  return nest;
}

/// The one of com.microsoft, for a query, key and value of three dimensions each.
std::optional<LoopNest> loops_of_multi_head_attention(const LoopContext& context) {
  const std::int64_t heads = context.attribute("num_heads", 0);
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{2}}) {
    if (!context.has_input(k) || context.input(k).size() != 3 || !has_heads(context.input(k), heads))
      return std::nullopt;
  }
  for (std::size_t k = 4; k < context.node.inputs.size(); ++k) {
    if (context.has_input(k)) return std::nullopt;
  }
  for (std::size_t k = 1; k < context.node.outputs.size(); ++k) {
    if (context.has_output(k)) return std::nullopt;
  }
  if (context.output(0).size() != 3 || !has_heads(context.output(0), heads)) return std::nullopt;
  LoopNest nest = empty_nest(context);
  const LoopDim batch = dim_of(nest, nest.add_loop(context.input(0)[0]));
  const LoopDim head = dim_of(nest, nest.add_loop(heads));
  const LoopDim row = dim_of(nest, nest.add_loop(context.input(0)[1]));
  const LoopDim other{.extent = context.input(1)[1]};
  nest.inputs[0] = with_heads(context.input(0), batch, {head}, row, heads);
  nest.inputs[1] = with_heads(context.input(1), batch, {head}, other, heads);
  nest.inputs[2] = with_heads(context.input(2), batch, {head}, other, heads);
  nest.outputs[0] = with_heads(context.output(0), batch, {head}, row, heads);
  // The bias of query, key and value, side by side: each head has parts of it.
  if (context.has_input(3)) {
    if (context.backward) return std::nullopt;
    nest.inputs[3] = std::nullopt;
  }
  return nest;
}

/// LSTM, GRU, RNN: the samples of a batch.
std::optional<LoopNest> loops_of_recurrence(const LoopContext& context) {
  const Shape& input = context.input(0);
  if (input.size() != 3) return std::nullopt;
  const bool batch_first = context.attribute("layout", 0) != 0;
  LoopNest nest = empty_nest(context);
  const LoopDim batch = dim_of(nest, nest.add_loop(input[batch_first ? 0 : 1]));
  const auto dims_of = [&](const Shape& shape, std::size_t position) {
    LoopDims dims = uncut_dims(shape);
    if (position < dims.size()) dims[position] = batch;
    return dims;
  };
  nest.inputs[0] = dims_of(input, batch_first ? 0 : 1);
  for (const std::size_t k : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{7}}) {
    if (context.has_input(k)) nest.inputs[k] = uncut_dims(context.input(k));
  }
  if (context.has_input(4)) nest.inputs[4] = LoopDims{batch};
  for (const std::size_t k : {std::size_t{5}, std::size_t{6}}) {
    if (context.has_input(k)) nest.inputs[k] = dims_of(context.input(k), batch_first ? 0 : 1);
  }
  if (context.has_output(0)) nest.outputs[0] = dims_of(context.output(0), batch_first ? 0 : 2);
  for (const std::size_t k : {std::size_t{1}, std::size_t{2}}) {
    if (context.has_output(k)) nest.outputs[k] = dims_of(context.output(k), batch_first ? 0 : 1);
  }
  return nest;
}

namespace {

/// Scores [n, classes, d...], labels [n, d...], weights of classes. A mean divides by the weights of all labels: where
/// these are not all one, labels are read whole.
std::optional<LoopNest> loops_of_labels(const LoopContext& context) {
  const Shape& scores = context.input(0);
  if (scores.size() < 2) return std::nullopt;
  LoopNest nest = empty_nest(context);
  LoopDims dims = loop_over(nest, scores, {1});
  LoopDims labels = dims;
  labels.erase(labels.begin() + 1);
  const std::string reduction = context.node.attributes.get("reduction", std::string("mean"));
  const bool counts_labels = context.has_input(2) || context.node.attributes.has("ignore_index");
  if (reduction != "mean" || !counts_labels) nest.inputs[1] = labels;
  if (context.has_input(2)) nest.inputs[2] = uncut_dims(context.input(2));
  nest.inputs[0] = std::move(dims);
  nest.outputs[0] = reduction == "none" ? std::move(labels) : LoopDims{};
  return nest;
}

}  // namespace

std::optional<LoopNest> loops_of_cross_entropy(const LoopContext& context) {
  auto nest = loops_of_labels(context);
  if (nest && context.has_output(1)) nest->outputs[1] = nest->inputs[0];
  return nest;
}

std::optional<LoopNest> loops_of_likelihood(const LoopContext& context) {
  return loops_of_labels(context);
}

/// The loss that a training step appends. It has a term for each row of a prediction: classes are the last dimension,
/// those of images the second one, as in ONNX. Of several predictions, it has a term for each sample.
std::optional<LoopNest> loops_of_loss(const LoopContext& context) {
  LoopNest nest = empty_nest(context);
  std::vector<std::size_t> predictions;
  for (std::size_t k = 0; k < context.node.inputs.size(); ++k) {
    nest.inputs[k] = uncut_dims(context.input(k));
    if (!context.input(k).empty()) predictions.push_back(k);
  }
  nest.outputs[0] = LoopDims{};
  if (predictions.empty()) return std::nullopt;
  const Shape& first = context.input(predictions.front());
  if (predictions.size() == 1) {
    constexpr std::size_t kRankOfImages = 4;
    const std::size_t classes = first.size() < kRankOfImages ? first.size() - 1 : 1;
    // A vector has a number for each sample.
    nest.inputs[predictions.front()] =
        loop_over(nest, first, first.size() == 1 ? std::vector<std::size_t>{} : std::vector<std::size_t>{classes});
    return nest;
  }
  const int samples = nest.add_loop(first[0]);
  for (const std::size_t k : predictions) {
    if (context.input(k)[0] != first[0]) return std::nullopt;
    (*nest.inputs[k])[0] = dim_of(nest, samples);
  }
  return nest;
}

}  // namespace remora::onnx_frontend
