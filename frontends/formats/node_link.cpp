// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontends/formats/document.hpp"
#include "frontends/formats/interchange.hpp"

namespace remora::interchange {
namespace {

using json::Document;
using json::Node;

/// The possible names of a key; the first one that is present counts.
constexpr std::array<std::string_view, 4> kDurations{"cost_cpu", "duration", "time", "cost"};
constexpr std::array<std::string_view, 5> kSizes{"cost_ram", "out_cost", "size", "memory", "bytes"};

/// The keys of one file.
struct Keys {
  std::string_view id = "id";
  std::string_view duration = kDurations.front();
  std::string_view size = kSizes.front();
  std::string_view links = "links";
  std::string_view from = "source";
  std::string_view to = "target";
};

std::string listing(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

/// The first of `names` that the node has; the others it has go to `left`.
std::string_view choose(const Node& node, std::span<const std::string_view> names, const char* what,
                        std::vector<std::string_view>& left) {
  std::string_view chosen;
  for (const std::string_view name : names) {
    if (!node.has(name)) continue;
    if (chosen.empty()) {
      chosen = name;
    } else {
      left.push_back(name);
    }
  }
  if (chosen.empty()) node.fail(std::string("has no ") + what + ": none of " + listing(names));
  return chosen;
}

/// An amount, which Python may have written as 3.0.
std::int64_t whole_number(const Node& node) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!node.value().is_number_float()) return node.integer();
  const double number = node.number();
  if (!(number >= 0 && number <= kExact) || std::floor(number) != number) {
    node.fail("must be a whole number from 0: take a smaller unit for all of them");
  }
  return static_cast<std::int64_t>(number);
}

/// Ids are numbers, strings or lists, which is what Python's tuples become.
std::string id_text(const Node& node) {
  const Document& id = node.value();
  if (!id.is_string() && !id.is_number_integer() && !id.is_array()) node.fail("must be an integer, a string or a list");
  return id.dump();
}

std::string name_text(const Node& node) {
  return node.value().is_string() ? node.string() : id_text(node);
}

std::string_view links_key(const Node& root) {
  if (root.has("links") == root.has("edges")) {
    root.fail(root.has("links") ? "has both links and edges" : "has neither links nor edges");
  }
  return root.has("edges") ? "edges" : "links";
}

class Reader {
 public:
  explicit Reader(const Node& root) : root_(root), nodes_(root.at("nodes")), links_(root.at(links_key(root))) {
    nodes_.expect_array();
    links_.expect_array();
    keys_.links = links_key(root);
    if (root.has("directed") && !root.at("directed").boolean()) {
      root.fail("is an undirected graph: it does not say which node reads which");
    }
  }

  NodeLinkGraph read() {
    find_keys();
    index_nodes();
    resolve_links();
    order_nodes();
    NodeLinkGraph result;
    Graph& graph = result.graph;
    if (root_.has("graph")) {
      const Node about = root_.at("graph");
      about.expect_object();
      if (about.has("name")) graph.name = about.at("name").string();
    }
    for (const std::size_t node : order_) add_op(node, graph);
    add_inputs(graph);
    validate(graph);
    result.taken = taken();
    return result;
  }

 private:
  void find_keys() {
    if (links_.size() > 0) {
      const Node first = links_.element(0);
      first.expect_object();
      if (!first.has(keys_.from)) {
        keys_.from = "0";
        keys_.to = "1";
      }
    }
    if (nodes_.size() == 0) return;
    const Node first = nodes_.element(0);
    first.expect_object();
    if (!first.has("id")) keys_.id = "name";
    has_names_ = first.has("name");
    keys_.duration = choose(first, kDurations, "duration", left_);
    keys_.size = choose(first, kSizes, "size", left_);
  }

  [[nodiscard]] std::string taken() const {
    if (nodes_.size() == 0) return "";
    std::string text("node-link: durations are \"");
    text.append(keys_.duration).append("\", sizes of outputs \"").append(keys_.size).append("\", names \"");
    text.append(has_names_ ? "name" : keys_.id).append("\", links \"").append(keys_.links).append("\"");
    if (!left_.empty()) text.append("; not used: ").append(listing(left_));
    return text;
  }

  void index_nodes() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Node node = nodes_.element(i);
      node.expect_object();
      const Node id = node.at(keys_.id);
      if (!index_.emplace(id_text(id), i).second) id.fail("a second node with this id");
    }
  }

  /// By node, the nodes that link to it.
  void resolve_links() {
    makers_.resize(nodes_.size());
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const Node link = links_.element(i);
      link.expect_object();
      const Node from = link.at(keys_.from);
      const Node to = link.at(keys_.to);
      const std::size_t reader = resolve(to);
      makers_[reader].push_back(resolve(from));
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
      sort_nodes();
    }
  }

  /// As listed, if that order can run; else, of all nodes that are ready, the first listed comes next.
  void sort_nodes() {
    std::vector<std::size_t> waiting(nodes_.size(), 0);
    std::vector<std::vector<std::size_t>> readers(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      waiting[i] = makers_[i].size();
      for (const std::size_t maker : makers_[i]) readers[maker].push_back(i);
    }
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (waiting[i] == 0) ready.push(i);
    }
    while (!ready.empty()) {
      const std::size_t node = ready.top();
      ready.pop();
      place(node, nodes_);
      for (const std::size_t reader : readers[node]) {
        if (--waiting[reader] == 0) ready.push(reader);
      }
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (waiting[i] > 0) nodes_.element(i).fail("is on a cycle, or after one");
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
    const Node size = node.at(keys_.size);
    const Node duration = node.at(keys_.duration);
    const Node name = node.at(has_names_ ? "name" : keys_.id);
    Op op{.name = name_text(name) + "#" + position, .duration = Duration(whole_number(duration))};
    op.outputs = {graph.add_tensor("t" + position, Bytes(whole_number(size)))};
    if (node.has("backward")) op.phase = node.at("backward").boolean() ? Phase::backward : Phase::forward;
    graph.add_op(std::move(op));
  }

  /// A node reads what the nodes that link to it write, in their order, each once.
  void add_inputs(Graph& graph) const {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      auto& inputs = graph.ops[position_[i]].inputs;
      for (const std::size_t maker : makers_[i]) inputs.emplace_back(position_[maker]);
      std::sort(inputs.begin(), inputs.end());
      inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    }
  }

  const Node& root_;
  Node nodes_;
  Node links_;
  Keys keys_{};
  bool has_names_ = true;
  /// Keys that could have been meant.
  std::vector<std::string_view> left_;
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<std::vector<std::size_t>> makers_;
  /// The nodes in the input order, and each one's place in it.
  std::vector<std::size_t> order_;
  std::vector<std::size_t> position_;
};

}  // namespace

bool looks_like_node_link(std::string_view text) {
  return text.find("\"format\"") == std::string_view::npos && text.find("\"nodes\"") != std::string_view::npos;
}

NodeLinkGraph read_node_link(std::string_view text) {
  const Document document = json::parse(text);
  const Node root(document);
  root.expect_object();
  return Reader(root).read();
}

}  // namespace remora::interchange
