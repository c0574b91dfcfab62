// SPDX-License-Identifier: Apache-2.0
//
// What build_network does to a whole network once its nodes stand.
#pragma once

#include <string>
#include <vector>

#include "frontends/onnx/model/network.hpp"

namespace remora::onnx_frontend {

// Which ops must come later than others though they read nothing of them but a shape or a type:
//
//     A: x -> a     Shape: a -> s     B: x -> b     Reshape: b, s -> v     C: v -> c
//
// C is of no use before A has run: the graph has no edge for it, since the shape is known, but in the model the Shape
// stands between them.

/// Sets Node::after of the ops among the live nodes. `network`: with all its nodes and their inputs; `live`: by node.
void order_by_shapes(Network& network, const std::vector<bool>& live);

/// Where a parameter's elements come from, as far as training cares.
enum class ParameterOrigin {
  none,    ///< integers, scalars, Constant nodes, shapes: nothing that training updates
  weight,  ///< a floating-point initializer or ConstantOfShape of rank 1 or more, or computed from one
};

/// Sets Value::trainable: `origins` has one entry a value.
void mark_trainable(Network& network, const std::vector<ParameterOrigin>& origins);

/// Sets Node::after, drops the nodes that contribute to no output and the values that no node and no output uses, and
/// renumbers the rest.
/// What only a Shape or Size reads contributes nothing: the shape is known. Warns of the dropped nodes that are not
/// constant and of those named in `dropped_before`. Throws InputError if nothing is left to compute.
Network drop_dead_nodes(Network network, std::vector<std::string> dropped_before);

/// Gives every node a unique name; one without gets its type and its number: "Conv_12".
void name_nodes(Network& network);

}  // namespace remora::onnx_frontend
