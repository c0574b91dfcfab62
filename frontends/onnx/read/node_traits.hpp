// SPDX-License-Identifier: Apache-2.0
//
// What an op type means for memory and for training, apart from its shapes: whether it is a view, whether it is random,
// which inputs are weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "frontends/onnx/infer/shape_rules.hpp"
#include "frontends/onnx/model/network.hpp"

namespace remora::onnx_frontend {

/// Whether the node's first output shares the memory of its first input: Reshape, Flatten, Squeeze, Unsqueeze,
/// Identity, Dropout in inference mode (if its mask is not wanted), a Cast to the same type, a Transpose that moves
/// axes of extent 1 only, an Expand to the same shape, and Concat, Sum, Min, Max, Mean of one input.
///
/// Slice and Split are copies here, as in ONNX runtimes: as views they would hold the whole tensor for a part of it.
bool is_view(const RuleContext& context, const OutputTypes& types, bool training);

/// Whether a Dropout node drops. From opset 12 on input training_mode decides (if it is not a constant: yes), whatever
/// is asked for. Opset 7 to 11 know inference only. Before, attribute is_test decides, by default 0, but only where a
/// training graph is asked for (`training`): files of that time state it for inference no more than for training.
bool drops(const RuleContext& context, bool training);

/// Draws random numbers: RandomNormal, RandomUniform, their Like forms, Multinomial, Bernoulli, Dropout that drops.
bool is_random(const RuleContext& context, bool training);

/// Shape and Size: the result is known without the data of the input.
bool reads_shape_only(const Node& node);

/// Whether training updates a floating-point parameter that the node reads at this position: not running means and
/// variances, bounds, ratios, scales of Resize and quantization.
bool reads_weight(const Node& node, std::size_t position);

}  // namespace remora::onnx_frontend
