// SPDX-License-Identifier: Apache-2.0
//
// What a NodeProto carries apart from its wires.
#pragma once

#include <optional>

#include "frontends/onnx/infer/constant.hpp"
#include "frontends/onnx/model/network.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {

/// Numbers, strings and lists of numbers; a tensor of one element (the value of ConstantOfShape) becomes a number.
/// Other tensors, graphs and lists of strings are left out.
Attributes read_attributes(const onnx::NodeProto& node);

struct ConstantNode {
  TensorType type{};
  /// None if there are many, or of a type with no use in shapes.
  std::optional<Constant> elements{};
};

/// The value of a Constant node, none for other nodes. Throws InputError, naming the node, for a Constant without a
/// usable value (strings, none at all).
std::optional<ConstantNode> read_constant_node(const onnx::NodeProto& node);

}  // namespace remora::onnx_frontend
