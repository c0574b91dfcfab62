// SPDX-License-Identifier: Apache-2.0
//
// If, Loop, Scan and ScanVarLen as single ops: their outputs' types, and what their bodies take inside.
//
//     If     the branch that a known condition takes; otherwise of each output the larger of both, an upper bound
//     Loop   a body whose state keeps its shape is read once; otherwise, if count and condition are known, round by round.
//            Of a count that depends on data, the user may give an upper bound
//     Scan   read once: the scanned axis says how many rounds there are. ScanVarLen (opset 27, and com.microsoft before)
//            joins along an axis what Scan stacks along a new one
//
// A value that every round passes on as it is has known elements in each of them if it has them before the first.
// A round holds the state before it, its slices and its own tensors; the state behind it counts as the op's outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "frontends/onnx/infer/shape_rules.hpp"
#include "frontends/onnx/model/network.hpp"

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace remora::onnx_frontend {

/// Facts about a value that goes into a body or comes out of it.
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
  /// Kind of guess behind the types; empty if they are exact.
  std::string guess{};
  /// The body that runs, of an If the branch, and how often; null and 0 where nobody knows.
  const onnx::GraphProto* body = nullptr;
  std::int64_t rounds = 0;
  /// For a Scan, the first input that the body has.
  std::size_t first_input = 0;
};

/// True if the node is an If, Loop, Scan or ScanVarLen.
bool is_control_flow(const Node& node);

/// Throws InputError for a node that is not as its op is defined, and what `read` throws.
ControlFlow read_control_flow(onnx::NodeProto& proto, const RuleContext& context, const ReadBody& read);

/// Requests of unrolling to the model around the node.
struct Around {
  /// A name that no value and no node has, made of the wanted one.
  std::function<std::string(const std::string& wanted)> make_name{};
  /// True if a value is computed before any op runs.
  std::function<bool(const std::string& name)> is_parameter{};
};

/// The nodes that do what the node does, those of each round behind those of the one before, and its bodies' weights:
///
///     Scan, states s, scanned x    x_0, x_1, ... = Split(x);  s_1, y_0 = body(s_0, x_0);  s_2, y_1 = body(s_1, x_1);  ...
///                                  y = Concat(y_0, y_1, ...)
///
/// Values that a body computes from parameters alone are computed once. Where `flow.body` is set and no extent is 0.
/// Appends to `result`; returns the positions there of the nodes whose outputs
/// are parts of an input that a loop reads where they are.
std::unordered_set<int> unroll(const onnx::NodeProto& proto, const RuleContext& context, const ControlFlow& flow,
                               const Around& around, onnx::GraphProto& result);

}  // namespace remora::onnx_frontend
