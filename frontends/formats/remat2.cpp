// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/remat2.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "frontends/formats/remat2_nodes.hpp"
#include "model/error.hpp"
#include "model/graph.hpp"

namespace remora::interchange {
namespace {

constexpr std::size_t kIdsShown = 10;

using Positions = std::vector<std::size_t>;

void sort_without_repeats(Positions& positions) {
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
}

/// Names one cycle among the nodes, of which there is one.
[[noreturn]] void fail_with_cycle(const std::vector<Remat2Node>& nodes) {
  Graph listed;
  Table<TensorId, OpId> producer;
  producer.reserve(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Op op{.outputs = {TensorId(i)}};
    for (const std::size_t from : nodes[i].dependencies) op.inputs.emplace_back(from);
    producer.push_back(listed.add_op(std::move(op)));
  }
  const std::vector<OpId> cycle = find_cycle(listed, producer);
  const auto node = [&](std::size_t k) -> const Remat2Node& { return nodes[static_cast<std::size_t>(cycle[k])]; };
  std::string ids;
  for (std::size_t k = 0; k < cycle.size() && k < kIdsShown; ++k) ids += std::to_string(node(k).id) + " -> ";
  if (cycle.size() > kIdsShown) ids += "... (" + std::to_string(cycle.size()) + " nodes) -> ";
  throw InputError("line " + std::to_string(node(0).line),
                   "the nodes form a cycle: " + ids + std::to_string(node(0).id));
}

/// The positions of the nodes in an order in which they can run (Kahn 1962), the first listed first.
Positions run_order(const std::vector<Remat2Node>& nodes) {
  std::vector<Positions> readers(nodes.size());
  Positions missing(nodes.size());
  std::priority_queue<std::size_t, Positions, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].dependencies.size();
    for (const std::size_t from : nodes[i].dependencies) readers[from].push_back(i);
    if (missing[i] == 0) ready.push(i);
  }
  Positions order;
  order.reserve(nodes.size());
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const std::size_t reader : readers[order.back()]) {
      if (--missing[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() < nodes.size()) fail_with_cycle(nodes);
  return order;
}

class Lowering {
 public:
  explicit Lowering(const Remat2Text& text)
      : text_(text), storage_(text.nodes.size()), op_(text.nodes.size()), kept_(text.nodes.size(), false) {}

  Graph run() {
    graph_.meta = R"({"source":"TWRemat p remat2")";
    if (text_.memory_limit) graph_.meta += ",\"memlimit\":" + std::to_string(*text_.memory_limit);
    graph_.meta += "}";
    for (const std::size_t i : run_order(text_.nodes)) add(i);
    for (std::size_t i = 0; i < kept_.size(); ++i) graph_.tensors[op_[i]].keep = kept_[i];
    validate(graph_);
    return std::move(graph_);
  }

 private:
  void add(std::size_t i) {
    const Remat2Node& node = text_.nodes[i];
    const std::string name = std::to_string(node.id);
    op_[i] = graph_.ops.size();
    Op op{.name = name, .duration = node.duration, .workspace = node.workspace};
    op.outputs = {graph_.add_tensor("t" + name, node.size)};
    for (const std::size_t read : reads_of(i)) op.inputs.emplace_back(op_[read]);
    std::sort(op.inputs.begin(), op.inputs.end());
    op.recompute = node.kind != Remat2Kind::effectful && !node.loss;
    if (node.loss) op.phase = Phase::loss;
    graph_.add_op(std::move(op));
    if (node.target) keep(i);
  }

  /// The nodes that node i reads, once each: what it names, and what the pointers among them point at. Notes what node
  /// i itself points at, if it is a pointer.
  Positions reads_of(std::size_t i) {
    Positions reads = text_.nodes[i].dependencies;
    Positions& points_at = storage_[i];
    for (const std::size_t from : text_.nodes[i].dependencies) {
      reads.insert(reads.end(), storage_[from].begin(), storage_[from].end());
    }
    sort_without_repeats(reads);
    if (text_.nodes[i].kind == Remat2Kind::pointer) {
      for (const std::size_t read : reads) {
        if (text_.nodes[read].kind != Remat2Kind::pointer) points_at.push_back(read);
      }
    }
    return reads;
  }

  void keep(std::size_t i) {
    kept_[i] = true;
    for (const std::size_t stored : storage_[i]) kept_[stored] = true;
  }

  const Remat2Text& text_;
  Graph graph_;
  /// What every pointer points at, through pointers; empty for other nodes.
  std::vector<Positions> storage_;
  /// The op of every node that was added, which is also the number of its tensor.
  Positions op_;
  std::vector<bool> kept_;
};

}  // namespace

bool looks_like_remat2(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  constexpr std::string_view kKind = "remat2";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (!text.starts_with('p')) return false;
  text.remove_prefix(1);
  const std::size_t kind = text.find_first_not_of(kBlanks);
  if (kind == 0 || kind == std::string_view::npos || !text.substr(kind).starts_with(kKind)) return false;
  const std::string_view rest = text.substr(kind + kKind.size());
  return rest.empty() || kBlanks.find(rest.front()) != std::string_view::npos;
}

Graph read_remat2(std::string_view text) {
  const Remat2Text parsed = parse_remat2(text);
  return Lowering(parsed).run();
}

}  // namespace remora::interchange
