// SPDX-License-Identifier: Apache-2.0
#include "examples/zoo/sequence_layers.hpp"

#include <cmath>
#include <numbers>
#include <string>

#include "examples/zoo/layers.hpp"
#include "examples/zoo/text.hpp"

namespace remora::zoo {

namespace {

constexpr float kEpsilon = 1e-5F;

Value mean_of_last_axis(GraphBuilder& graph, std::string_view name, const Value& x) {
  Shape shape = x.shape;
  shape.back() = 1;
  return graph.node("ReduceMean", name, {x}, shape, {{"axes", std::vector<std::int64_t>{-1}}});
}

/// (x - mean) / √(variance + ε).
Value standardize(GraphBuilder& graph, const Value& x) {
  const Value centred = binary(graph, "Sub", "centred", x, mean_of_last_axis(graph, "mean", x));
  const Value squares = binary(graph, "Pow", "squares", centred, graph.scalar(2.0F));
  const Value variance = mean_of_last_axis(graph, "variance", squares);
  const Value deviation = unary(graph, "Sqrt", "deviation", add(graph, "stable", variance, graph.scalar(kEpsilon)));
  return binary(graph, "Div", "standard", centred, deviation);
}

/// 1 + erf(x / √2).
Value gelu_erf_factor(GraphBuilder& graph, const Value& x) {
  const Value scaled = binary(graph, "Div", "scaled", x, graph.scalar(std::numbers::sqrt2_v<float>));
  return add(graph, "add", unary(graph, "Erf", "erf", scaled), graph.scalar(1.0F));
}

/// 1 + tanh(√(2/π)·(x + 0.044715·x³)).
Value gelu_tanh_factor(GraphBuilder& graph, const Value& x) {
  const Value cube = binary(graph, "Pow", "cube", x, graph.scalar(3.0F));
  const Value term = binary(graph, "Mul", "term", cube, graph.scalar(0.044715F));
  const Value sum = add(graph, "sum", x, term);
  const float factor = std::sqrt(2.0F / std::numbers::pi_v<float>);
  const Value scaled = binary(graph, "Mul", "scaled", sum, graph.scalar(factor));
  return add(graph, "add", unary(graph, "Tanh", "tanh", scaled), graph.scalar(1.0F));
}

}  // namespace

Value layer_norm(GraphBuilder& graph, std::string_view name, const Value& x, const Dialect& dialect) {
  const std::string label(name);
  const Value scale = graph.weight(label + "/scale", {x.shape.back()}, 1.0F);
  const Value shift = graph.weight(label + "/shift", {x.shape.back()}, 0.0F);
  if (!dialect.decompose_layer_norm) {
    return graph.node("LayerNormalization", name, {x, scale, shift}, x.shape,
                      {{"axis", std::int64_t{-1}}, {"epsilon", kEpsilon}});
  }
  const auto scope = graph.scope(name);
  return add(graph, "shifted", binary(graph, "Mul", "scaled", standardize(graph, x), scale), shift);
}

Value gelu(GraphBuilder& graph, std::string_view name, const Value& x, const Dialect& dialect) {
  const auto scope = graph.scope(name);
  const Value factor = dialect.erf_gelu ? gelu_erf_factor(graph, x) : gelu_tanh_factor(graph, x);
  const Value half = binary(graph, "Mul", "half", x, graph.scalar(0.5F));
  return binary(graph, "Mul", "product", half, factor);
}

Value position_embedding(GraphBuilder& graph, std::string_view name, std::int64_t positions, std::int64_t length,
                         std::int64_t width) {
  const std::string label(name);
  Value table = graph.weight(label, {positions, width});
  if (length == positions) return table;
  return graph.node("Slice", label + "/slice", {table, graph.list({0}), graph.list({length}), graph.list({0})},
                    {length, width});
}

Value causal_mask(GraphBuilder& graph, std::string_view name, std::int64_t length) {
  const auto scope = graph.scope(name);
  const Shape shape{length, length};
  const Value all = graph.filled("all", ElementType::int32, shape, -1e9);
  const Value later =
      graph.node("Trilu", "later", {all, graph.scalar(std::int64_t{1})}, shape, {{"upper", std::int64_t{1}}});
  return graph.node("Cast", "cast", {later}, shape, {{"to", std::int64_t{onnx::TensorProto_DataType_FLOAT}}});
}

Value split_heads(GraphBuilder& graph, std::string_view name, const Value& x, std::int64_t heads) {
  const auto scope = graph.scope(name);
  const Shape split{x.shape[0], x.shape[1], heads, x.shape[2] / heads};
  return transpose(graph, "transpose", reshape(graph, "reshape", x, split), {0, 2, 1, 3});
}

Value attention(GraphBuilder& graph, std::string_view name, const Value& query, const Value& key, const Value& value,
                std::int64_t heads, const std::optional<Value>& mask) {
  const auto scope = graph.scope(name);
  const std::int64_t head_width = query.shape.back() / heads;
  const float divisor = std::sqrt(static_cast<float>(head_width));
  const Value queries = split_heads(graph, "query_heads", query, heads);
  const Value keys = transpose(graph, "key_columns", split_heads(graph, "key_heads", key, heads), {0, 1, 3, 2});
  const Value values = split_heads(graph, "value_heads", value, heads);
  const Value products = matmul(graph, "products", queries, keys);
  Value scores = binary(graph, "Div", "scores", products, graph.scalar(divisor));
  if (mask) scores = add(graph, "masked", scores, *mask);
  const Value weights = graph.node("Softmax", "softmax", {scores}, scores.shape, {{"axis", std::int64_t{-1}}});
  const Value mixed = transpose(graph, "transpose", matmul(graph, "mixed", weights, values), {0, 2, 1, 3});
  return reshape(graph, "join_heads", mixed, query.shape);
}

Parameter layer_norm_parameter() {
  return {"layer-norm", Choices{"op", "decomposed"}, "LayerNormalization as one op, or as elementary ones"};
}

void require_heads(std::int64_t width, std::int64_t heads) {
  require(width % heads == 0, text("--heads ", heads, " does not divide --width ", width));
}

}  // namespace remora::zoo
