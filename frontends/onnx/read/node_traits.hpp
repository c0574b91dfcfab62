// SPDX-License-Identifier: Apache-2.0
//
// Properties of a network's nodes besides shapes: of each by its type, and of all once they exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "frontends/onnx/infer/shape_rules.hpp"
#include "frontends/onnx/model/network.hpp"

namespace remora::onnx_frontend {

// Meaning of an op type for memory and for training, apart from its shapes: whether it is a view, whether it is random,
// which inputs are weights.

/// True if the node's first output shares the memory of its first input: Reshape, Flatten, Squeeze, Unsqueeze,
/// Identity, Dropout in inference mode (if its mask is not wanted), a Cast to the same type, a Transpose that moves
/// axes of extent 1 only, an Expand to the same shape, and Concat, Sum, Min, Max, Mean of one input.
///
/// Slice and Split are copies here, as in ONNX runtimes: as views they would hold the whole tensor for a part of it.
bool is_view(const RuleContext& context, const OutputTypes& types, bool training);

/// True if a Dropout node drops. From opset 12 on input training_mode decides (if it is not a constant: yes), whatever
/// is asked for. Opset 7 to 11 know inference only. Before, attribute is_test decides, by default 0, but only where a
/// training graph is asked for (`training`): files of that time state it for inference no more than for training.
bool drops(const RuleContext& context, bool training);

/// Draws random numbers: RandomNormal, RandomUniform, their Like forms, Multinomial, Bernoulli, Dropout that drops.
bool is_random(const RuleContext& context, bool training);

/// Shape and Size of what has a known size: the result is known without the data of the input.
bool reads_shape_only(const Node& node);

/// True if training updates a floating-point parameter that the node reads at this position: not running means and
/// variances, bounds, ratios, scales of Resize and quantization.
bool reads_weight(const Node& node, std::size_t position);

// Passes of build_network over a complete network.

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
/// A value that only a Shape or Size reads contributes nothing: the shape is known. Warns of the dropped nodes that are
/// not constant and of those named in `dropped_before`.
Network drop_dead_nodes(Network network, std::vector<std::string> dropped_before);

/// Gives every node a unique name; one without gets its type and its number: "Conv_12".
void name_nodes(Network& network);

}  // namespace remora::onnx_frontend
