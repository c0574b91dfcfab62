// SPDX-License-Identifier: Apache-2.0
//
// If, Loop and Scan as single ops: their outputs' types, and what their bodies take inside.
//
//     If     the branch that a known condition takes; else both must give the same shapes, and the larger one counts
//     Loop   a body whose state keeps its shape is read once; else, if count and condition are known, round by round.
//            Of a count that depends on data, the user may give an upper bound
//     Scan   read once: the scanned axis says how many rounds there are
//
// A round holds the state before it, its slices and its own tensors; the state behind it counts as the op's outputs.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "frontends/onnx/infer/shape_rules.hpp"
#include "frontends/onnx/model/network.hpp"

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace remora::onnx_frontend {

/// What is known of a value that goes into a body or comes out of it.
struct BodyValue {
  TensorType type{};
  std::optional<Constant> constant{};
};

/// One run of a body. `inner.workspace`: at most, of what the body makes itself, its outputs included.
struct BodyRun {
  std::vector<BodyValue> outputs{};
  InnerRun inner{};
};

/// Reads a body for these inputs, one for each that it has. Throws InputError as build_network does.
using ReadBody = std::function<BodyRun(onnx::GraphProto& body, const std::vector<BodyValue>& inputs)>;

struct ControlFlow {
  /// By position; none where the shape depends on data.
  std::vector<std::optional<BodyValue>> outputs{};
  InnerRun inner{};
  /// Why an output has no type; empty if all have.
  std::string unknown{};
};

/// Whether the node is an If, Loop or Scan of the default domain.
bool is_control_flow(const Node& node);

/// Throws InputError for a node that is not as its op is defined, and what `read` throws.
ControlFlow read_control_flow(onnx::NodeProto& proto, const RuleContext& context, const ReadBody& read);

}  // namespace remora::onnx_frontend
