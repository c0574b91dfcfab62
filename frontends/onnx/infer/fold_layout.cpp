// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "frontends/onnx/infer/constant_folding.hpp"

namespace remora::onnx_frontend {
namespace {

std::size_t count_of(const Shape& shape) {
  return static_cast<std::size_t>(element_count(shape));
}

/// Row-major positions: the distance between neighbours along each axis.
std::vector<std::size_t> strides_of(const Shape& shape) {
  std::vector<std::size_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * static_cast<std::size_t>(shape[axis]);
  }
  return strides;
}

/// Fills `result` by reading, for each of its elements, the element of `from` that stands at `start` plus the sum of
/// coordinate times step over the axes. False where the file states a shape that the node does not have: with other axes than
/// there are steps, or elements beyond those of `from`.
bool gather_strided(Constant& result, const Constant& from, std::ptrdiff_t start,
                    const std::vector<std::ptrdiff_t>& steps) {
  const Shape& shape = result.type.shape;
  if (shape.size() != steps.size()) return false;
  const auto strides = strides_of(shape);
  for (std::size_t flat = 0; flat < count_of(shape); ++flat) {
    std::ptrdiff_t place = start;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const std::size_t coordinate = flat / strides[axis] % static_cast<std::size_t>(shape[axis]);
      place += static_cast<std::ptrdiff_t>(coordinate) * steps[axis];
    }
    if (place < 0 || static_cast<std::size_t>(place) >= from.size()) return false;
    append(result, from, static_cast<std::size_t>(place));
  }
  return true;
}

bool same_kind(const Constant& a, const Constant& b) {
  return a.real() == b.real();
}

}  // namespace

std::size_t broadcast_index(std::size_t flat, const Shape& from, const Shape& to) {
  std::size_t index = 0;
  std::size_t stride = 1;
  for (std::size_t back = 1; back <= to.size(); ++back) {
    const auto extent = static_cast<std::size_t>(to[to.size() - back]);
    if (back <= from.size()) {
      const auto own = static_cast<std::size_t>(from[from.size() - back]);
      index += (own == 1 ? 0 : flat % extent) * stride;
      stride *= own;
    }
    flat /= extent;
  }
  return index;
}

void append(Constant& result, const Constant& from, std::size_t k) {
  if (from.real()) {
    result.reals.push_back(from.reals[k]);
  } else {
    result.integers.push_back(from.integers[k]);
  }
}

/// Opset 15 may ask for a part of the axes, counted and clamped as slices are.
bool fold_shape(const FoldContext& context, Constant& result) {
  const Shape& shape = context.node.input(0).shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto clamped = [&](std::int64_t axis) {
    return std::clamp(axis < 0 ? axis + rank : axis, std::int64_t{0}, rank);
  };
  const std::int64_t start = clamped(context.node.node.attributes.get("start", std::int64_t{0}));
  const std::int64_t end = std::max(start, clamped(context.node.node.attributes.get("end", rank)));
  result.integers.assign(shape.begin() + start, shape.begin() + end);
  return true;
}

bool fold_size(const FoldContext& context, Constant& result) {
  result.integers = {element_count(context.node.input(0).shape)};
  return true;
}

/// The builder gives the fill value, a tensor of one element, as a number; zero without it.
bool fold_fill(const FoldContext& context, Constant& result) {
  const std::size_t count = count_of(result.type.shape);
  const auto real = context.node.node.attributes.get("value", 0.0);
  const auto integer = context.node.node.attributes.get("value", std::int64_t{0});
  if (result.real()) {
    result.reals.assign(count, real);
  } else {
    result.integers.assign(count, integer);
  }
  return true;
}

bool fold_copy(const FoldContext& context, Constant& result) {
  result.integers = context.input(0).integers;
  result.reals = context.input(0).reals;
  return true;
}

bool fold_concat(const FoldContext& context, Constant& result) {
  const Shape& shape = result.type.shape;
  if (shape.empty()) return false;
  const std::size_t axis = normalized_axis(context.node.node.attributes.get("axis", std::int64_t{0}), shape.size());
  const std::size_t outer = count_of(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis)));
  for (std::size_t block = 0; block < outer; ++block) {  // never entered if outer, a divisor below, is 0
    for (std::size_t k = 0; k < context.input_count(); ++k) {
      if (!context.has(k) || !same_kind(context.input(k), result)) return false;
      const std::size_t length = context.input(k).size() / outer;
      for (std::size_t j = 0; j < length; ++j) append(result, context.input(k), block * length + j);
    }
  }
  return true;
}

bool fold_gather(const FoldContext& context, Constant& result) {
  const Constant& data = context.input(0);
  const Shape& shape = data.type.shape;
  const std::size_t axis = normalized_axis(context.node.node.attributes.get("axis", std::int64_t{0}), shape.size());
  const std::int64_t extent = shape[axis];
  const std::size_t inner = count_of(Shape(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end()));
  const std::size_t outer = count_of(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis)));
  for (std::size_t block = 0; block < outer; ++block) {
    for (std::int64_t index : context.input(1).integers) {
      if (index < 0) index += extent;
      if (index < 0 || index >= extent) return false;
      const std::size_t start = (block * static_cast<std::size_t>(extent) + static_cast<std::size_t>(index)) * inner;
      for (std::size_t j = 0; j < inner; ++j) append(result, data, start + j);
    }
  }
  return true;
}

bool fold_slice(const FoldContext& context, Constant& result) {
  const Constant& data = context.input(0);
  const Attributes& attributes = context.node.node.attributes;
  const auto read = [&](std::size_t k, const char* name) {
    return context.has(k) ? context.input(k).integers : attributes.get(name, std::vector<std::int64_t>{});
  };
  const auto starts = read(1, "starts");
  auto axes = read(3, "axes");
  const auto slice_steps = read(4, "steps");
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), std::int64_t{0});
  }
  if (axes.size() != starts.size()) return false;
  const auto strides = strides_of(data.type.shape);
  std::vector<std::ptrdiff_t> steps(strides.begin(), strides.end());
  std::ptrdiff_t place = 0;
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const std::size_t axis = normalized_axis(axes[k], data.type.shape.size());
    const std::int64_t extent = data.type.shape[axis];
    if (extent == 0) return true;
    const std::int64_t step = k < slice_steps.size() ? slice_steps[k] : 1;
    if (step == 0 || step > kLargestConstant || step < -kLargestConstant) return false;
    const std::int64_t from_front = starts[k] < 0 ? starts[k] + extent : starts[k];
    const std::int64_t start = std::clamp(from_front, std::int64_t{0}, step > 0 ? extent : extent - 1);
    place += static_cast<std::ptrdiff_t>(start) * static_cast<std::ptrdiff_t>(strides[axis]);
    steps[axis] *= static_cast<std::ptrdiff_t>(step);
  }
  return gather_strided(result, data, place, steps);
}

bool fold_split(const FoldContext& context, Constant& result) {
  const Constant& data = context.input(0);
  if (data.type.shape.size() != 1) return false;
  std::size_t start = 0;
  if (context.has(1)) {
    const auto& lengths = context.input(1).integers;
    if (lengths.size() < context.output) return false;
    for (std::size_t k = 0; k < context.output; ++k) start += static_cast<std::size_t>(lengths[k]);
  } else {
    const auto lengths = context.node.node.attributes.get("split", std::vector<std::int64_t>{});
    if (lengths.size() < context.output && !lengths.empty()) return false;
    const std::size_t part = (data.size() + context.node.output_count - 1) / context.node.output_count;
    for (std::size_t k = 0; k < context.output; ++k)
      start += lengths.empty() ? part : static_cast<std::size_t>(lengths[k]);
  }
  return gather_strided(result, data, static_cast<std::ptrdiff_t>(start), {1});
}

bool fold_transpose(const FoldContext& context, Constant& result) {
  const Constant& data = context.input(0);
  const auto strides = strides_of(data.type.shape);
  auto order = context.node.node.attributes.get("perm", std::vector<std::int64_t>{});
  if (order.empty()) {
    for (std::size_t axis = strides.size(); axis-- > 0;) order.push_back(static_cast<std::int64_t>(axis));
  }
  if (order.size() != strides.size() || order.size() != result.type.shape.size()) return false;
  std::vector<std::ptrdiff_t> steps;
  steps.reserve(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    const std::size_t axis = normalized_axis(order[k], strides.size());
    if (result.type.shape[k] != data.type.shape[axis]) return false;
    steps.push_back(static_cast<std::ptrdiff_t>(strides[axis]));
  }
  return gather_strided(result, data, 0, steps);
}

bool fold_expand(const FoldContext& context, Constant& result) {
  const Constant& data = context.input(0);
  if (data.size() == 0) return false;
  for (std::size_t k = 0; k < count_of(result.type.shape); ++k) {
    const std::size_t from = broadcast_index(k, data.type.shape, result.type.shape);
    if (from >= data.size()) return false;
    append(result, data, from);
  }
  return true;
}

}  // namespace remora::onnx_frontend
