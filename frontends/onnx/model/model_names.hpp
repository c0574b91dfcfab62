// SPDX-License-Identifier: Apache-2.0
//
// Names in a model, those inside the bodies of If, Loop and Scan included: which a node reads, which are taken.
#pragma once

#include <functional>
#include <string>
#include <unordered_set>

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
}  // namespace onnx

namespace remora::onnx_frontend {

/// Calls `visit` with the name of every value that the node reads: its inputs, and what its bodies read from around
/// them, which is not what they define themselves. `visit` may change the name in place. Names left out (empty) are not
/// visited.
void visit_reads(onnx::NodeProto& node, const std::function<void(std::string&)>& visit);

/// Names that no part of a model has: not its graph, the bodies in it, its functions or its training information, be
/// they of values or of nodes.
class FreshNames {
 public:
  explicit FreshNames(const onnx::ModelProto& model);

  /// `wanted` or, if that is taken, `wanted#2` or the next number that is free.
  std::string make(const std::string& wanted);
  /// `wanted#number` or, if that is taken, with the next number that is free.
  std::string make(const std::string& wanted, int number);

 private:
  void take(const onnx::GraphProto& graph);
  template <class Nodes>
  void take_nodes(const Nodes& nodes);
  void take(const std::string& name) { taken_.insert(name); }

  std::unordered_set<std::string> taken_;
};

}  // namespace remora::onnx_frontend
