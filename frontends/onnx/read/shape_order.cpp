// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/read/shape_order.hpp"

#include <algorithm>

namespace remora::onnx_frontend {
namespace {

class ShapeOrder {
 public:
  ShapeOrder(Network& network, const std::vector<bool>& live)
      : network_(network), live_(live), makers_(network.values.size()), needs_(network.nodes.size()) {
    for (std::size_t k = 0; k < network.nodes.size(); ++k) {
      for (const ValueId output : network.nodes[k].outputs) {
        if (output.valid()) makers_[output] = NodeId(k);
      }
    }
    seen_.assign(network.nodes.size(), NodeId());
  }

  void run() {
    for (std::size_t k = 0; k < network_.nodes.size(); ++k) {
      std::vector<NodeId> needs = needs_of(network_.nodes[k]);
      if (is_op(NodeId(k))) {
        network_.nodes[k].after = without_ancestors(NodeId(k), std::move(needs));
      } else {
        needs_[k] = std::move(needs);
      }
    }
  }

 private:
  [[nodiscard]] bool is_op(NodeId id) const {
    const Node& node = network_.nodes[id];
    return live_[id] && !node.constant && !node.view;
  }

  /// The ops that must have run before the node can, but for those behind other ops.
  [[nodiscard]] std::vector<NodeId> needs_of(const Node& node) const {
    std::vector<NodeId> needs;
    for (const ValueId input : node.inputs) {
      if (!input.valid() || !makers_[input].valid()) continue;
      const NodeId maker = makers_[input];
      if (is_op(maker)) needs.push_back(maker);
      needs.insert(needs.end(), needs_[maker].begin(), needs_[maker].end());
    }
    std::sort(needs.begin(), needs.end());
    needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
    return needs;
  }

  /// Leaves out what comes earlier anyway: for its data, or for a shape that an op on the way needs.
  std::vector<NodeId> without_ancestors(NodeId node, std::vector<NodeId> needs) {
    std::vector<NodeId> open{node};
    std::vector<NodeId> earlier;
    while (!open.empty() && !needs.empty()) {
      earlier = direct_predecessors(open.back());
      open.pop_back();
      for (const NodeId one : earlier) {
        if (needs.empty() || one < needs.front() || seen_[one] == node) continue;
        seen_[one] = node;
        open.push_back(one);
        const auto found = std::find(needs.begin(), needs.end(), one);
        if (found != needs.end()) needs.erase(found);
      }
    }
    return needs;
  }

  /// Of an op: whose memory it reads, and what it is known to come after.
  [[nodiscard]] std::vector<NodeId> direct_predecessors(NodeId id) const {
    std::vector<NodeId> result = network_.nodes[id].after;
    for (const ValueId input : network_.nodes[id].inputs) {
      if (!input.valid()) continue;
      const NodeId maker = makers_[network_.storage(input)];
      if (maker.valid() && is_op(maker)) result.push_back(maker);
    }
    return result;
  }

  Network& network_;
  const std::vector<bool>& live_;
  /// By value.
  std::vector<NodeId> makers_;
  /// By node that is no op.
  std::vector<std::vector<NodeId>> needs_;
  /// By node: the op for which it was last visited.
  std::vector<NodeId> seen_;
};

}  // namespace

void order_by_shapes(Network& network, const std::vector<bool>& live) {
  ShapeOrder(network, live).run();
}

}  // namespace remora::onnx_frontend
