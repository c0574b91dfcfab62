// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/read/node_traits.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/onnx/model/network.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::onnx_frontend {
namespace {

template <std::size_t Size>
bool listed(const std::array<std::string_view, Size>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool default_domain(const Node& node) {
  return node.domain.empty() || node.domain == "ai.onnx";
}

/// The extents that are not 1 keep their order, so the elements keep their places.
bool keeps_elements(const Shape& shape, std::vector<std::int64_t> order) {
  if (order.empty()) {
    for (std::size_t axis = shape.size(); axis-- > 0;) order.push_back(static_cast<std::int64_t>(axis));
  }
  std::int64_t before = -1;
  for (const std::int64_t axis : order) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size())) return false;
    if (shape[static_cast<std::size_t>(axis)] == 1) continue;
    if (axis < before) return false;
    before = axis;
  }
  return true;
}

bool single_input(const RuleContext& context) {
  return std::count_if(context.inputs.begin(), context.inputs.end(),
                       [](const auto* type) { return type != nullptr; }) == 1;
}

}  // namespace

bool is_view(const RuleContext& context, const OutputTypes& types, bool training) {
  constexpr std::array<std::string_view, 5> kAlways{"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"};
  constexpr std::array<std::string_view, 3> kOfSameType{"Cast", "CastLike", "Expand"};
  constexpr std::array<std::string_view, 5> kOfOneInput{"Concat", "Sum", "Min", "Max", "Mean"};
  const std::string_view type = context.node.type;
  if (!default_domain(context.node) || !context.has_input(0) || types.empty() || !types[0]) return false;
  const auto& outputs = context.node.outputs;
  const bool has_more =
      outputs.size() > 1 && std::any_of(outputs.begin() + 1, outputs.end(), [](ValueId id) { return id.valid(); });
  if (has_more) return false;
  if (listed(kAlways, type)) return true;
  if (listed(kOfSameType, type)) return *types[0] == context.input(0);
  if (listed(kOfOneInput, type)) return single_input(context);
  if (type == "Transpose") return keeps_elements(context.input(0).shape, context.attribute_list("perm"));
  return type == "Dropout" && !drops(context, training);
}

bool drops(const RuleContext& context, bool training) {
  constexpr std::int64_t kFirstWithModeInput = 12;
  constexpr std::int64_t kFirstWithoutTestAttribute = 7;
  if (context.opset >= kFirstWithModeInput) {
    if (!context.has_input(2)) return false;
    const Constant* const mode = context.constants[2];
    return mode == nullptr || mode->integers.empty() || mode->integers.front() != 0;
  }
  if (context.opset >= kFirstWithoutTestAttribute) return false;
  return training && context.node.attributes.get("is_test", std::int64_t{0}) == 0;
}

bool is_random(const RuleContext& context, bool training) {
  constexpr std::array<std::string_view, 6> kRandom{"RandomNormal",      "RandomNormalLike", "RandomUniform",
                                                    "RandomUniformLike", "Multinomial",      "Bernoulli"};
  if (!default_domain(context.node)) return false;
  return listed(kRandom, context.node.type) || (context.node.type == "Dropout" && drops(context, training));
}

bool reads_shape_only(const Node& node) {
  return default_domain(node) && !node.unknown && (node.type == "Shape" || node.type == "Size");
}

bool reads_weight(const Node& node, std::size_t position) {
  // The positions that hold settings and statistics, by op type.
  static const std::map<std::string_view, std::vector<std::size_t>, std::less<>> kSettings{
      {"BatchNormalization", {3, 4}},
      {"Bernoulli", {0}},
      {"Clip", {1, 2}},
      {"DequantizeLinear", {1, 2}},
      {"Dropout", {1}},
      {"OneHot", {1, 2}},
      {"Multinomial", {0}},
      {"NonMaxSuppression", {0, 1, 2, 3, 4}},
      {"Pad", {2}},
      {"Pow", {1}},
      {"QuantizeLinear", {1, 2}},
      {"Range", {0, 1, 2}},
      {"Resize", {1, 2}},
      {"RotaryEmbedding", {1, 2}},
      {"Upsample", {1}},
      {"RandomNormalLike", {0}},
      {"RandomUniformLike", {0}},
  };
  const auto found = kSettings.find(std::string_view(node.type));
  if (found == kSettings.end()) return true;
  return std::find(found->second.begin(), found->second.end(), position) == found->second.end();
}

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

  /// The ops whose memory an op reads, and those known to come before it.
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
  constexpr std::size_t kMaxNames = 5;
  if (dead.empty()) return {};
  const std::string names = list_text(std::span(dead).first(std::min(kMaxNames, dead.size())));
  return std::to_string(dead.size()) +
         (dead.size() == 1 ? " node contributes to no output and was dropped: "
                           : " nodes contribute to no output and were dropped: ") +
         names + (dead.size() > kMaxNames ? ", ..." : "");
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
