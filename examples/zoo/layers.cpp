// SPDX-License-Identifier: Apache-2.0
#include "examples/zoo/layers.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace remora::zoo {

namespace {

/// The shape of a and b broadcast together: aligned at the last axis, an extent of 1 gives way.
Shape broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape shape = longer;
  const std::size_t offset = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    if (shape[offset + i] == 1) shape[offset + i] = shorter[i];
  }
  return shape;
}

}  // namespace

Value unary(GraphBuilder& graph, const std::string& type, std::string_view name, const Value& x) {
  return graph.node(type, name, {x}, x.shape);
}

Value binary(GraphBuilder& graph, const std::string& type, std::string_view name, const Value& a, const Value& b) {
  return graph.node(type, name, {a, b}, broadcast(a.shape, b.shape));
}

Value relu(GraphBuilder& graph, std::string_view name, const Value& x) {
  return unary(graph, "Relu", name, x);
}

Value add(GraphBuilder& graph, std::string_view name, const Value& a, const Value& b) {
  return binary(graph, "Add", name, a, b);
}

Value reshape(GraphBuilder& graph, std::string_view name, const Value& x, const Shape& shape) {
  Shape target = shape;
  if (!target.empty() && !x.shape.empty() && target.front() == x.shape.front()) target.front() = 0;
  return graph.node("Reshape", name, {x, graph.list(target)}, shape);
}

Value transpose(GraphBuilder& graph, std::string_view name, const Value& x,
                const std::vector<std::int64_t>& permutation) {
  Shape shape;
  for (const std::int64_t axis : permutation) shape.push_back(x.shape[static_cast<std::size_t>(axis)]);
  return graph.node("Transpose", name, {x}, shape, {{"perm", permutation}});
}

Value matmul(GraphBuilder& graph, std::string_view name, const Value& a, const Value& b) {
  Shape shape = a.shape.size() >= b.shape.size() ? a.shape : b.shape;
  shape[shape.size() - 2] = a.shape[a.shape.size() - 2];
  shape.back() = b.shape.back();
  return graph.node("MatMul", name, {a, b}, shape);
}

Value linear(GraphBuilder& graph, std::string_view name, const Value& x, std::int64_t units, bool bias) {
  const auto scope = graph.scope(name);
  const Value weight = graph.weight("weight", {x.shape.back(), units});
  const Value product = matmul(graph, "matmul", x, weight);
  return bias ? add(graph, "add", product, graph.weight("bias", {units})) : product;
}

Value fully_connected(GraphBuilder& graph, std::string_view name, const Value& x, std::int64_t units) {
  const std::string label(name);
  const Value weight = graph.weight(label + "/weight", {units, x.shape.back()});
  const Value bias = graph.weight(label + "/bias", {units});
  return graph.node("Gemm", name, {x, weight, bias}, {x.shape.front(), units}, {{"transB", std::int64_t{1}}});
}

Value flatten(GraphBuilder& graph, std::string_view name, const Value& x) {
  const std::int64_t rest = std::accumulate(x.shape.begin() + 1, x.shape.end(), std::int64_t{1}, std::multiplies<>());
  return graph.node("Flatten", name, {x}, {x.shape.front(), rest}, {{"axis", std::int64_t{1}}});
}

}  // namespace remora::zoo
