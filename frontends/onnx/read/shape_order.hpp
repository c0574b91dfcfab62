// SPDX-License-Identifier: Apache-2.0
//
// Which ops must come later than others though they read nothing of them but a shape or a type:
//
//     A: x -> a     Shape: a -> s     B: x -> b     Reshape: b, s -> v     C: v -> c
//
// C is of no use before A has run: the graph has no edge for it, since the shape is known, but in the model the Shape
// stands between them.
#pragma once

#include <vector>

#include "frontends/onnx/model/network.hpp"

namespace remora::onnx_frontend {

/// Sets Node::after of the ops among the live nodes. `network`: with all its nodes and their inputs; `live`: by node.
void order_by_shapes(Network& network, const std::vector<bool>& live);

}  // namespace remora::onnx_frontend
