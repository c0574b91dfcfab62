// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/read/network_passes.hpp"

#include <algorithm>
#include <string>

#include "frontends/onnx/model/network.hpp"
#include "frontends/onnx/read/node_traits.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

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

namespace {

/// Marks what the outputs need: nodes and values, from the last node to the first.
struct Liveness {
  explicit Liveness(const Network& network) : values(network.values.size()), nodes(network.nodes.size()) {
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = network.values[k].output;
    for (std::size_t k = nodes.size(); k-- > 0;) {
      const Node& node = network.nodes[k];
      nodes[k] = std::any_of(node.outputs.begin(), node.outputs.end(),
                             [&](ValueId output) { return output.valid() && values[output]; });
      if (!nodes[k]) continue;
      // An output that the op writes in any case stays with it.
      for (const ValueId output : node.outputs) mark(output);
      if (reads_shape_only(node)) continue;
      for (const ValueId input : node.inputs) mark(input);
    }
  }

  void mark(ValueId id) {
    if (id.valid()) values[id] = true;
  }

  std::vector<bool> values;
  std::vector<bool> nodes;
};

/// One line with the first few names; empty for no names.
std::string dead_nodes_warning(const std::vector<std::string>& dead) {
  constexpr std::size_t kMostNames = 5;
  if (dead.empty()) return {};
  std::string names;
  for (std::size_t k = 0; k < std::min(dead.size(), kMostNames); ++k) names += (k > 0 ? ", " : "") + dead[k];
  return std::to_string(dead.size()) +
         (dead.size() == 1 ? " node contributes to no output and was dropped: "
                           : " nodes contribute to no output and were dropped: ") +
         names + (dead.size() > kMostNames ? ", ..." : "");
}

/// New numbers for the live entries of a table.
template <class IdType>
std::vector<IdType> renumber(const std::vector<bool>& live) {
  std::vector<IdType> numbers(live.size());
  std::size_t next = 0;
  for (std::size_t k = 0; k < live.size(); ++k) {
    if (live[k]) numbers[k] = IdType(next++);
  }
  return numbers;
}

template <class Entry>
void keep_live(std::vector<Entry>& table, const std::vector<bool>& live) {
  std::size_t next = 0;
  for (std::size_t k = 0; k < table.size(); ++k) {
    if (!live[k]) continue;
    if (next != k) table[next] = std::move(table[k]);
    ++next;
  }
  table.resize(next);
}

}  // namespace

void mark_trainable(Network& network, const std::vector<ParameterOrigin>& origins) {
  for (const Node& node : network.nodes) {
    if (node.constant) continue;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      const ValueId input = node.inputs[k];
      if (!input.valid() || origins[input] != ParameterOrigin::weight) continue;
      if (reads_weight(node, k)) network.values[input].trainable = true;
    }
  }
}

Network drop_dead_nodes(Network network, std::vector<std::string> dropped_before) {
  Liveness live(network);
  for (std::size_t k = 0; k < network.nodes.size(); ++k) {
    const Node& node = network.nodes[k];
    if (!live.nodes[k] && !node.constant)
      dropped_before.push_back("node " + printable(node.name) + " (" + printable(node.type) + ")");
  }
  order_by_shapes(network, live.nodes);
  const std::string warning = dead_nodes_warning(dropped_before);
  if (!warning.empty()) network.warnings.push_back(warning);
  // A view may stand on a value that is read through the view only, and a Shape may be all that reads an input.
  for (std::size_t k = 0; k < network.values.size(); ++k) {
    if (live.values[k]) live.mark(network.storage(ValueId(k)));
  }
  const auto value_numbers = renumber<ValueId>(live.values);
  const auto node_numbers = renumber<NodeId>(live.nodes);
  const auto value_number = [&](ValueId id) { return id.valid() ? value_numbers[id] : ValueId(); };
  keep_live(network.values, live.values);
  keep_live(network.nodes, live.nodes);
  for (Value& value : network.values) value.view_of = value_number(value.view_of);
  for (Node& node : network.nodes) {
    for (ValueId& input : node.inputs) input = value_number(input);
    for (ValueId& output : node.outputs) output = value_number(output);
    for (NodeId& earlier : node.after) earlier = node_numbers[earlier];
    if (node.backward_of.valid()) node.backward_of = node_numbers[node.backward_of];
  }
  const bool computes = std::any_of(network.nodes.begin(), network.nodes.end(),
                                    [](const Node& node) { return !node.constant && !node.view; });
  if (!computes) throw InputError("graph.node", "the model computes nothing from its inputs: no node is left");
  return network;
}

void name_nodes(Network& network) {
  UniqueNames names;
  for (const Node& node : network.nodes) names.reserve(node.name);
  for (std::size_t k = 0; k < network.nodes.size(); ++k) {
    Node& node = network.nodes[k];
    node.name = names.make(node.name.empty() ? node.type + "_" + std::to_string(k) : node.name);
  }
}

}  // namespace remora::onnx_frontend
