// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "frontends/onnx/infer/einsum_labels.hpp"
#include "frontends/onnx/infer/shape_rule_functions.hpp"
#include "model/error.hpp"

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

/// The leading axes of a matrix product's operands, broadcast against each other.
Shape broadcast_leading(const Shape& left, const Shape& right) {
  const std::size_t rank = std::max(left.size(), right.size());
  Shape result(rank, 1);
  for (const Shape* shape : {&left, &right}) {
    for (std::size_t axis = 0; axis < shape->size(); ++axis) {
      std::int64_t& extent = result[rank - shape->size() + axis];
      if (extent != 1 && (*shape)[axis] != 1 && extent != (*shape)[axis]) {
        throw InputError("", "leading axes do not broadcast");
      }
      if (extent == 1) extent = (*shape)[axis];
    }
  }
  return result;
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
  const Shape output = query_type.shape.size() == 3 ? Shape{query.batch, query.length, query.heads * value.size}
                                                    : Shape{query.batch, query.heads, query.length, value.size};
  return {TensorType{data_type, output}, TensorType{data_type, {key.batch, key.heads, total, key.size}},
          TensorType{data_type, {value.batch, value.heads, total, value.size}},
          TensorType{data_type, {query.batch, query.heads, query.length, total}}};
}

/// MatMul as NumPy does it, with FusedMatMul's transA and transB.
OutputTypes matrix_product(const RuleContext& context) {
  Shape left = context.input(0).shape;
  Shape right = context.input(1).shape;
  if (left.empty() || right.empty()) throw InputError("", "a matrix product takes no scalars");
  const bool row = left.size() == 1;
  const bool column = right.size() == 1;
  if (row) left.insert(left.begin(), 1);
  if (column) right.push_back(1);
  if (context.attribute("transA", 0) != 0) std::swap(left[left.size() - 1], left[left.size() - 2]);
  if (context.attribute("transB", 0) != 0) std::swap(right[right.size() - 1], right[right.size() - 2]);
  if (left.back() != right[right.size() - 2]) {
    throw InputError("", "shapes " + shape_text(left) + " and " + shape_text(right) + " do not multiply");
  }
  Shape result = broadcast_leading(Shape(left.begin(), left.end() - 2), Shape(right.begin(), right.end() - 2));
  if (!row) result.push_back(left[left.size() - 2]);
  if (!column) result.push_back(right.back());
  return {TensorType{context.input(0).data_type, result}};
}

OutputTypes einsum(const RuleContext& context) {
  std::vector<const Shape*> operands;
  for (std::size_t k = 0; k < context.inputs.size(); ++k) operands.push_back(&context.input(k).shape);
  const std::string equation = context.node.attributes.get("equation", std::string());
  return {TensorType{context.input(0).data_type, einsum_shape(equation, operands)}};
}

}  // namespace remora::onnx_frontend
