// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/node_link.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontends/formats/document.hpp"

namespace remora::interchange {
namespace {

using json::Document;
using json::Node;

/// The keys of one dialect.
struct Dialect {
  const char* id;
  const char* duration;
  const char* size;
  const char* from;
  const char* to;
};
constexpr Dialect kCheckmate{"id", "cost_cpu", "cost_ram", "source", "target"};
constexpr Dialect kLayered{"name", "duration", "out_cost", "0", "1"};

/// Ids are numbers or strings.
std::string id_text(const Node& node) {
  if (!node.value().is_string() && !node.value().is_number_integer()) node.fail("must be an integer or a string");
  return node.value().dump();
}

std::string name_text(const Node& node) {
  return node.value().is_string() ? node.string() : id_text(node);
}

class Reader {
 public:
  explicit Reader(const Node& root) : root_(root), nodes_(root.at("nodes")), links_(root.at("links")) {
    nodes_.expect_array();
    links_.expect_array();
    if (nodes_.size() > 0) {
      const Node first = nodes_.element(0);
      first.expect_object();
      if (!first.has(kCheckmate.duration)) dialect_ = kLayered;
    }
  }

  Graph read() {
    index_nodes();
    order_nodes();
    Graph graph;
    if (root_.has("graph")) {
      const Node about = root_.at("graph");
      about.expect_object();
      if (about.has("name")) graph.name = about.at("name").string();
    }
    for (const std::size_t node : order_) add_op(node, graph);
    add_links(graph);
    validate(graph);
    return graph;
  }

 private:
  void index_nodes() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Node node = nodes_.element(i);
      node.expect_object();
      const Node id = node.at(dialect_.id);
      if (!index_.emplace(id_text(id), i).second) id.fail("a second node with this id");
    }
  }

  [[nodiscard]] std::size_t resolve(const Node& id) const {
    const auto found = index_.find(id_text(id));
    if (found == index_.end()) id.fail("there is no node " + id_text(id));
    return found->second;
  }

  void order_nodes() {
    position_.assign(nodes_.size(), nodes_.size());
    if (root_.has("graph") && root_.value()["graph"].contains("order")) {
      const Node about = root_.at("graph");
      const Node order = about.at("order");
      order.expect_array();
      for (std::size_t i = 0; i < order.size(); ++i) place(resolve(order.element(i)), order);
      if (order_.size() < nodes_.size()) order.fail("must name every node");
    } else {
      for (std::size_t i = 0; i < nodes_.size(); ++i) place(i, nodes_);
    }
  }

  void place(std::size_t node, const Node& order) {
    if (position_[node] < nodes_.size()) order.fail("names a node twice");
    position_[node] = order_.size();
    order_.push_back(node);
  }

  void add_op(std::size_t index, Graph& graph) const {
    const Node node = nodes_.element(index);
    const std::string position = std::to_string(graph.ops.size());
    const Node size = node.at(dialect_.size);
    const Node duration = node.at(dialect_.duration);
    const Node name = node.at("name");
    Op op{.name = name_text(name) + "#" + position, .duration = Duration(duration.integer())};
    op.outputs = {graph.add_tensor("t" + position, Bytes(size.integer()))};
    if (node.has("backward")) op.phase = node.at("backward").boolean() ? Phase::backward : Phase::forward;
    graph.add_op(std::move(op));
  }

  /// A node reads what the nodes that link to it write, in their order, each once.
  void add_links(Graph& graph) const {
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const Node link = links_.element(i);
      link.expect_object();
      const Node from = link.at(dialect_.from);
      const Node to = link.at(dialect_.to);
      graph.ops[position_[resolve(to)]].inputs.emplace_back(position_[resolve(from)]);
    }
    for (Op& op : graph.ops) {
      std::sort(op.inputs.begin(), op.inputs.end());
      op.inputs.erase(std::unique(op.inputs.begin(), op.inputs.end()), op.inputs.end());
    }
  }

  const Node& root_;
  Node nodes_;
  Node links_;
  Dialect dialect_ = kCheckmate;
  std::unordered_map<std::string, std::size_t> index_;
  /// The nodes in the input order, and each one's place in it.
  std::vector<std::size_t> order_;
  std::vector<std::size_t> position_;
};

}  // namespace

bool looks_like_node_link(std::string_view text) {
  return text.find("\"format\"") == std::string_view::npos && text.find("\"nodes\"") != std::string_view::npos;
}

Graph read_node_link(std::string_view text) {
  const Document document = json::parse(text);
  const Node root(document);
  root.expect_object();
  return Reader(root).read();
}

}  // namespace remora::interchange
