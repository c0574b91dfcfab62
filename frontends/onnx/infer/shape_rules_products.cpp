// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

#include "frontends/onnx/infer/shape_rules.hpp"
#include "model/error.hpp"
#include "model/types.hpp"

namespace remora::onnx_frontend {
namespace {

/// Batch, heads, length and head size of a query, key or value, given as 4 axes or as 3 with the heads folded in.
struct Heads {
  std::int64_t batch;
  std::int64_t heads;
  std::int64_t length;
  std::int64_t size;
};

Heads read_heads(const Shape& shape, std::int64_t heads) {
  if (shape.size() == 4) return {shape[0], shape[1], shape[2], shape[3]};
  if (shape.size() != 3 || heads < 1) {
    throw InputError("", "an input of rank 3 needs the number of heads, others have rank 4");
  }
  return {shape[0], heads, shape[1], shape[2] / heads};
}

}  // namespace

/// Attention of opset 23: Y, present key, present value, and the product of query and key.
OutputTypes attention(const RuleContext& context) {
  const TensorType& query_type = context.input(0);
  const Heads query = read_heads(query_type.shape, context.attribute("q_num_heads", 0));
  const Heads key = read_heads(context.input(1).shape, context.attribute("kv_num_heads", 0));
  const Heads value = read_heads(context.input(2).shape, context.attribute("kv_num_heads", 0));
  const std::int64_t past = context.has_input(4) && context.input(4).shape.size() == 4 ? context.input(4).shape[2] : 0;
  const std::int64_t total = past + key.length;
  const int data_type = query_type.data_type;
  const Shape output = query_type.shape.size() == 3
                           ? Shape{query.batch, query.length, saturating_product(query.heads, value.size)}
                           : Shape{query.batch, query.heads, query.length, value.size};
  return {TensorType{data_type, output}, TensorType{data_type, {key.batch, key.heads, total, key.size}},
          TensorType{data_type, {value.batch, value.heads, total, value.size}},
          TensorType{data_type, {query.batch, query.heads, query.length, total}}};
}

/// Attention of com.microsoft: input, weights of query, key and value side by side, bias, mask, past; Y and the present.
OutputTypes fused_attention(const RuleContext& context) {
  const TensorType& input = context.input(0);
  const Shape& weights = context.input(1).shape;
  const std::int64_t heads = context.attribute("num_heads", 0);
  const std::vector<std::int64_t> sizes = context.attribute_list("qkv_hidden_sizes");
  if (input.shape.size() != 3 || weights.size() != 2 || heads < 1) throw InputError("", "ranks or heads do not fit");
  const std::int64_t hidden = sizes.size() == 3 ? sizes[2] : weights[1] / 3;
  const bool has_past = context.has_input(4) && context.input(4).shape.size() == 5;
  const std::int64_t total = input.shape[1] + (has_past ? context.input(4).shape[3] : 0);
  return {TensorType{input.data_type, {input.shape[0], input.shape[1], hidden}},
          TensorType{input.data_type, {2, input.shape[0], heads, total, hidden / heads}}};
}

/// com.microsoft: query, key and value with heads folded in, as axes, or packed; past key and value are inputs 6, 7.
OutputTypes multi_head_attention(const RuleContext& context) {
  const TensorType& query = context.input(0);
  const Shape& shape = query.shape;
  const std::int64_t heads = context.attribute("num_heads", 0);
  if (heads < 1) throw InputError("", "num_heads must be positive");
  if (shape.size() == 5) {
    const TensorType present{query.data_type, {shape[0], shape[2], shape[1], shape[4]}};
    return {TensorType{query.data_type, {shape[0], shape[1], shape[2] * shape[4]}}, present, present};
  }
  const Shape& key = context.input(1).shape;
  if (shape.size() != 3 || key.size() < 3) throw InputError("", "query and key have unknown forms");
  const bool is_packed = key.size() == 5;
  const Heads keys = is_packed ? Heads{key[0], key[2], key[1], key[4]} : read_heads(key, heads);
  const Heads values = is_packed || !context.has_input(2) ? keys : read_heads(context.input(2).shape, heads);
  const std::int64_t past = context.has_input(6) && context.input(6).shape.size() == 4 ? context.input(6).shape[2] : 0;
  return {TensorType{query.data_type, {shape[0], shape[1], values.heads * values.size}},
          TensorType{query.data_type, {shape[0], keys.heads, past + keys.length, keys.size}},
          TensorType{query.data_type, {shape[0], values.heads, past + values.length, values.size}}};
}

/// com.microsoft: query (or all three packed), key, value, past key and value. An unknown total length counts as past
/// and new tokens together.
OutputTypes group_query_attention(const RuleContext& context) {
  const TensorType& query = context.input(0);
  const std::int64_t heads = context.attribute("num_heads", 0);
  const std::int64_t kept = context.attribute("kv_num_heads", 0);
  const bool is_packed = !context.has_input(1);
  const Shape& key = is_packed ? query.shape : context.input(1).shape;
  if (query.shape.size() != 3 || key.size() < 2 || heads < 1 || kept < 1) {
    throw InputError("", "the ranks of query and key or the heads do not fit");
  }
  const std::int64_t size = query.shape[2] / (is_packed ? heads + 2 * kept : heads);
  const std::int64_t past = context.has_input(3) && context.input(3).shape.size() == 4 ? context.input(3).shape[2] : 0;
  std::int64_t total = past + key[1];
  if (context.has_input(6) && context.constants[6] != nullptr) total = std::max(past, *context.integer(6));
  const TensorType present{query.data_type, {query.shape[0], kept, total, size}};
  return {TensorType{query.data_type, {query.shape[0], query.shape[1], heads * size}}, present, present};
}

/// com.microsoft: token and segment ids, tables; the normalized embedding, an index of the mask, and the sum before normalization.
OutputTypes embedding_normalization(const RuleContext& context) {
  constexpr int kInt32 = 6;
  const Shape& ids = context.input(0).shape;
  const TensorType& table = context.input(2);
  if (ids.size() != 2 || table.shape.size() != 2) throw InputError("", "ids and table must have 2 axes");
  const TensorType embedding{table.data_type, {ids[0], ids[1], table.shape[1]}};
  return {embedding, TensorType{kInt32, {ids[0]}}, embedding};
}

/// MatMulNBits of com.microsoft: packed weights, whose extents are attributes.
OutputTypes low_bit_product(const RuleContext& context) {
  TensorType result = context.input(0);
  const std::int64_t columns = context.attribute("N", 0);
  if (result.shape.empty() || columns < 1) throw InputError("", "N must be positive, and A no scalar");
  result.shape.back() = columns;
  return {result};
}

/// MatMul as NumPy does it, with FusedMatMul's transA and transB.
OutputTypes matrix_product(const RuleContext& context) {
  Shape left = context.input(0).shape;
  Shape right = context.input(1).shape;
  if (left.empty() || right.empty()) throw Misfit("", "a matrix product takes no scalars");
  const bool row = left.size() == 1;
  const bool column = right.size() == 1;
  if (row) left.insert(left.begin(), 1);
  if (column) right.push_back(1);
  if (context.attribute("transA", 0) != 0) std::swap(left[left.size() - 1], left[left.size() - 2]);
  if (context.attribute("transB", 0) != 0) std::swap(right[right.size() - 1], right[right.size() - 2]);
  if (left.back() != right[right.size() - 2]) {
    throw Misfit("", "shapes " + shape_text(left) + " and " + shape_text(right) + " do not multiply");
  }
  const Shape left_leading(left.begin(), left.end() - 2);
  const Shape right_leading(right.begin(), right.end() - 2);
  Shape result = broadcast_shape({&left_leading, &right_leading});
  if (!row) result.push_back(left[left.size() - 2]);
  if (!column) result.push_back(right.back());
  return {TensorType{context.input(0).data_type, result}};
}

OutputTypes gemm(const RuleContext& context) {
  if (context.input(0).shape.size() != 2 || context.input(1).shape.size() != 2) {
    throw Misfit("", "its inputs must be matrices");
  }
  return matrix_product(context);
}

OutputTypes einsum(const RuleContext& context) {
  std::vector<const Shape*> operands;
  for (std::size_t k = 0; k < context.inputs.size(); ++k) operands.push_back(&context.input(k).shape);
  const std::string equation = context.node.attributes.get("equation", std::string());
  return {TensorType{context.input(0).data_type, einsum_shape(equation, operands)}};
}

namespace {

/// A sliding window over the axes 2, 3, ... of a batch of images.
struct Window {
  Shape kernel{};
  Shape strides{};
  Shape dilations{};
  Shape pads{};
  bool round_up = false;
};

Shape filled(Shape given, std::size_t size, std::int64_t otherwise, std::string_view what) {
  if (given.empty()) given.assign(size, otherwise);
  if (given.size() != size) throw InputError("", std::string(what) + " has the wrong number of entries");
  return given;
}

std::int64_t ceiling_quotient(std::int64_t value, std::int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

/// The attributes that pooling and convolution share; `kernel` gives the number of spatial axes.
Window read_window(const RuleContext& context, Shape kernel) {
  Window window{.kernel = std::move(kernel)};
  const std::size_t axes = window.kernel.size();
  window.strides = filled(context.attribute_list("strides"), axes, 1, "strides");
  window.dilations = filled(context.attribute_list("dilations"), axes, 1, "dilations");
  window.pads = filled(context.attribute_list("pads"), 2 * axes, 0, "pads");
  window.round_up = context.attribute("ceil_mode", 0) != 0;
  for (std::size_t k = 0; k < axes; ++k) {
    if (window.strides[k] < 1 || window.dilations[k] < 1 || window.kernel[k] < 1) {
      throw InputError("", "kernel, strides and dilations must be positive");
    }
  }
  return window;
}

/// The number of positions of the window along spatial axis k.
std::int64_t positions(const RuleContext& context, const Window& window, std::size_t k, std::int64_t extent) {
  const std::string automatic = context.node.attributes.get("auto_pad", std::string("NOTSET"));
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") return ceiling_quotient(extent, window.strides[k]);
  const bool padded = automatic != "VALID";
  const std::int64_t before = padded ? window.pads[k] : 0;
  const std::int64_t after = padded ? window.pads[window.kernel.size() + k] : 0;
  const std::int64_t slack =
      extent + before + after - 1 - saturating_product(window.dilations[k], window.kernel[k] - 1);
  if (slack < 0) throw Misfit("", "the window is larger than the padded input");
  if (!window.round_up) return slack / window.strides[k] + 1;
  const std::int64_t count = ceiling_quotient(slack, window.strides[k]) + 1;
  // A window that would start in the padding behind the input is left out (opset 22 says so, PyTorch always did).
  return (count - 1) * window.strides[k] >= extent + before ? count - 1 : count;
}

void slide(const RuleContext& context, const Window& window, Shape& shape) {
  if (shape.size() != window.kernel.size() + 2) throw InputError("", "kernel_shape does not fit the input's rank");
  for (std::size_t k = 0; k < window.kernel.size(); ++k) shape[k + 2] = positions(context, window, k, shape[k + 2]);
}

}  // namespace

/// The second output (MaxPool's indices) has the same shape.
OutputTypes pool(const RuleContext& context) {
  constexpr int kInt64 = 7;
  TensorType result = context.input(0);
  slide(context, read_window(context, context.attribute_list("kernel_shape")), result.shape);
  return {result, TensorType{.data_type = kInt64, .shape = result.shape}};
}

/// All axes behind the channels become 1, or, with channels_last, all between the batch and them.
OutputTypes global_pool(const RuleContext& context) {
  TensorType result = context.input(0);
  if (result.shape.size() < 3) throw InputError("", "an image has at least 3 axes");
  const bool is_last = context.attribute("channels_last", 0) != 0;
  std::fill(result.shape.begin() + (is_last ? 1 : 2), result.shape.end() - (is_last ? 1 : 0), 1);
  return {result};
}

/// The inverse of MaxPool, unless the third input says how large the result is.
OutputTypes unpool(const RuleContext& context) {
  TensorType result = context.input(0);
  if (const auto shape = context.integers(2)) {
    if (shape->size() != result.shape.size()) throw InputError("", "output_shape does not fit the input's rank");
    result.shape = *shape;
    return {result};
  }
  const Window window = read_window(context, context.attribute_list("kernel_shape"));
  const std::size_t axes = window.kernel.size();
  if (result.shape.size() != axes + 2) throw InputError("", "kernel_shape does not fit the input's rank");
  for (std::size_t k = 0; k < axes; ++k) {
    const std::int64_t padding = window.pads[k] + window.pads[axes + k];
    // element_count as a product that is checked.
    const std::int64_t stretched = element_count({result.shape[k + 2] - 1, window.strides[k]});
    result.shape[k + 2] = stretched - padding + window.kernel[k];
  }
  return {result};
}

OutputTypes convolution(const RuleContext& context) {
  TensorType result = context.input(0);
  const Shape& weights = context.input(1).shape;
  if (weights.size() < 3 || result.shape.size() != weights.size()) throw Misfit("", "ranks do not fit");
  if (result.shape[1] != saturating_product(weights[1], context.attribute("group", 1))) {
    throw Misfit("", "weights " + shape_text(weights) + " do not fit an input of " + std::to_string(result.shape[1]) +
                         " channels");
  }
  slide(context, read_window(context, Shape(weights.begin() + 2, weights.end())), result.shape);
  result.shape[1] = weights[0];
  return {result};
}

namespace {

std::int64_t whole(float extent) {
  constexpr float kMaximum = 1e15F;
  if (!(extent >= 0 && extent <= kMaximum)) throw InputError("", "a scale gives no usable extent");
  return static_cast<std::int64_t>(extent);
}

}  // namespace

/// Sizes win over scales; `axes` (opset 18) says what they speak of, `keep_aspect_ratio_policy` may shrink or grow
/// them.
OutputTypes resize(const RuleContext& context) {
  TensorType result = context.input(0);
  std::vector<std::int64_t> axes = context.attribute_list("axes");
  if (axes.empty()) {
    axes.resize(result.shape.size());
    std::iota(axes.begin(), axes.end(), std::int64_t{0});
  }
  if (axes.empty()) return {result};
  const auto sizes = context.integers(3);
  const bool by_sizes = sizes && !sizes->empty();
  std::vector<double> scales;
  if (by_sizes) {
    if (sizes->size() != axes.size()) throw InputError("", "sizes do not fit the axes");
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const std::int64_t extent = result.shape[normalized_axis(axes[k], result.shape.size())];
      scales.push_back(static_cast<double>((*sizes)[k]) / static_cast<double>(std::max<std::int64_t>(extent, 1)));
    }
  } else {
    if (!context.has_input(2) || context.constants[2] == nullptr) throw InputError("", "the scales are not constant");
    scales = context.constants[2]->reals;
  }
  if (scales.size() != axes.size()) throw InputError("", "scales do not fit the axes");
  const std::string policy = context.node.attributes.get("keep_aspect_ratio_policy", std::string("stretch"));
  const bool stretch = policy == "stretch" || !by_sizes;
  const double common = policy == "not_larger" ? *std::min_element(scales.begin(), scales.end())
                                               : *std::max_element(scales.begin(), scales.end());
  for (std::size_t k = 0; k < axes.size(); ++k) {
    std::int64_t& extent = result.shape[normalized_axis(axes[k], result.shape.size())];
    // In single precision, as the scales are and as runtimes multiply: 5 times 2.6 is 13.
    const auto scaled = [&](double scale) { return static_cast<float>(extent) * static_cast<float>(scale); };
    extent =
        by_sizes && stretch ? (*sizes)[k] : whole(stretch ? std::floor(scaled(scales[k])) : std::round(scaled(common)));
  }
  return {result};
}

OutputTypes column_to_image(const RuleContext& context) {
  const TensorType& input = context.input(0);
  const auto image = context.integers(1);
  const auto block = context.integers(2);
  if (input.shape.size() != 3 || !image || !block) throw InputError("", "image and block shapes must be constant");
  const std::int64_t volume = element_count(*block);
  if (volume < 1) throw InputError("", "the block is empty");
  Shape shape{input.shape[0], input.shape[1] / volume};
  shape.insert(shape.end(), image->begin(), image->end());
  return {TensorType{.data_type = input.data_type, .shape = shape}};
}

OutputTypes grid_sample(const RuleContext& context) {
  TensorType result = context.input(0);
  const Shape& grid = context.input(1).shape;
  if (grid.size() != result.shape.size() || grid.size() < 3) throw InputError("", "the grid's rank does not fit");
  std::copy(grid.begin() + 1, grid.end() - 1, result.shape.begin() + 2);
  return {result};
}

OutputTypes affine_grid(const RuleContext& context) {
  const auto size = context.integers(1);
  if (!size || size->size() < 3) throw InputError("", "the size must be a constant of 4 or 5 entries");
  Shape shape{size->front()};
  shape.insert(shape.end(), size->begin() + 2, size->end());
  shape.push_back(static_cast<std::int64_t>(size->size()) - 2);
  return {TensorType{.data_type = context.input(0).data_type, .shape = shape}};
}

namespace {

constexpr std::string_view kEllipsis = "...";

/// A label's extent, and in how many places of the operands it stands. An axis under an ellipsis has its distance from
/// the ellipsis' end as label, because those axes broadcast: "...2", "...1".
struct Label {
  std::int64_t extent = 1;
  int places = 0;
};

using Labels = std::map<std::string, Label>;

std::string hidden_label(std::size_t distance) {
  return std::string(kEllipsis) + std::to_string(distance);
}

/// The labels of a term one by one, an ellipsis standing for `hidden` axes.
std::vector<std::string> labels_of(const std::string& term, std::size_t hidden) {
  const std::size_t dots = term.find(kEllipsis);
  std::vector<std::string> labels;
  for (std::size_t k = 0; k < term.size(); ++k) {
    if (k != dots) {
      labels.emplace_back(1, term[k]);
      continue;
    }
    for (std::size_t distance = hidden; distance > 0; --distance) labels.push_back(hidden_label(distance));
    k += kEllipsis.size() - 1;
  }
  return labels;
}

struct Equation {
  std::vector<std::string> terms{};
  std::string result{};
  bool has_result = false;
};

Equation parse(std::string_view text) {
  Equation equation;
  const std::size_t arrow = text.find("->");
  equation.has_result = arrow != std::string_view::npos;
  equation.terms.emplace_back();
  for (const char character : text.substr(0, arrow)) {
    if (character == ',') {
      equation.terms.emplace_back();
    } else if (std::isspace(static_cast<unsigned char>(character)) == 0) {
      equation.terms.back() += character;
    }
  }
  if (!equation.has_result) return equation;
  for (const char character : text.substr(arrow + 2)) {
    if (std::isspace(static_cast<unsigned char>(character)) == 0) equation.result += character;
  }
  return equation;
}

/// The axes that an ellipsis in `term` stands for.
std::size_t hidden_axes(const std::string& term, const Shape& shape) {
  const bool dots = term.find(kEllipsis) != std::string::npos;
  const std::size_t letters = term.size() - (dots ? kEllipsis.size() : 0);
  if (letters > shape.size() || (!dots && letters != shape.size())) {
    throw InputError(
        "", "the equation's term " + term + " does not fit an operand of rank " + std::to_string(shape.size()));
  }
  return shape.size() - letters;
}

Labels read_labels(const Equation& equation, const std::vector<const Shape*>& operands) {
  if (equation.terms.size() != operands.size()) throw InputError("", "the equation does not fit the operands");
  Labels labels;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Shape& shape = *operands[k];
    const auto names = labels_of(equation.terms[k], hidden_axes(equation.terms[k], shape));
    for (std::size_t axis = 0; axis < names.size(); ++axis) {
      Label& label = labels[names[axis]];
      ++label.places;
      if (shape[axis] != 1 && label.extent != 1 && shape[axis] != label.extent) {
        throw InputError("", "label " + names[axis] + " stands for axes of different extents");
      }
      if (label.extent == 1) label.extent = shape[axis];
    }
  }
  return labels;
}

}  // namespace

Shape einsum_shape(std::string_view text, const std::vector<const Shape*>& operands) {
  const Equation equation = parse(text);
  const Labels labels = read_labels(equation, operands);
  std::size_t hidden = 0;
  while (labels.contains(hidden_label(hidden + 1))) ++hidden;
  std::vector<std::string> result = labels_of(equation.has_result ? equation.result : std::string(kEllipsis), hidden);
  if (!equation.has_result) {
    for (const auto& [name, label] : labels) {
      if (name.size() == 1 && label.places == 1) result.push_back(name);
    }
  }
  Shape shape;
  for (const std::string& name : result) {
    const auto found = labels.find(name);
    if (found == labels.end()) throw InputError("", "label " + name + " of the result is in no operand");
    shape.push_back(found->second.extent);
  }
  return shape;
}

std::int64_t einsum_combinations(std::string_view text, const std::vector<const Shape*>& operands) {
  constexpr std::int64_t kMaximum = std::int64_t{1} << 62;
  std::int64_t combinations = 1;
  for (const auto& [name, label] : read_labels(parse(text), operands)) {
    if (label.extent == 0) return 0;
    combinations = combinations > kMaximum / label.extent ? kMaximum : combinations * label.extent;
  }
  return combinations;
}

}  // namespace remora::onnx_frontend
