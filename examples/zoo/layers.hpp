// SPDX-License-Identifier: Apache-2.0
//
// Layers that every kind of network uses. Each appends the nodes of one layer, called `name`, and returns its output.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "examples/zoo/graph_builder.hpp"

namespace remora::zoo {

/// A node with one input that keeps its shape: Relu, Tanh, Erf...
Value unary(GraphBuilder& graph, const std::string& type, std::string_view name, const Value& x);

/// A node with two inputs, broadcast to one shape: Add, Sub, Mul, Div, Pow.
Value binary(GraphBuilder& graph, const std::string& type, std::string_view name, const Value& a, const Value& b);

Value relu(GraphBuilder& graph, std::string_view name, const Value& x);
Value add(GraphBuilder& graph, std::string_view name, const Value& a, const Value& b);

/// The same elements in the shape `shape`. A first extent that stays is written as 0 ("as the input has it"), so that
/// the node also serves a model of symbolic batch size.
Value reshape(GraphBuilder& graph, std::string_view name, const Value& x, const Shape& shape);

Value transpose(GraphBuilder& graph, std::string_view name, const Value& x,
                const std::vector<std::int64_t>& permutation);

/// The product of the last two axes; the others are as `a` has them, or as `b` has them if `a` is a matrix.
Value matmul(GraphBuilder& graph, std::string_view name, const Value& a, const Value& b);

/// x·W, plus a bias if asked for, on the last axis of a tensor of any rank, as MatMul and Add. Weight: [in, units].
Value linear(GraphBuilder& graph, std::string_view name, const Value& x, std::int64_t units, bool bias = true);

/// x·Wᵀ plus bias on a matrix, as one Gemm. Weight: [units, in].
Value fully_connected(GraphBuilder& graph, std::string_view name, const Value& x, std::int64_t units);

/// [batch, everything else].
Value flatten(GraphBuilder& graph, std::string_view name, const Value& x);

}  // namespace remora::zoo
