// SPDX-License-Identifier: Apache-2.0
#include "model/graph.hpp"

#include <algorithm>

#include "model/ensure.hpp"

namespace remora {
namespace {

/// Depth-first search along the dependencies, with a stack of its own: a chain may be longer than the machine's stack.
class CycleSearch {
 public:
  CycleSearch(const Graph& graph, const Table<TensorId, OpId>& producer)
      : graph_(graph), producer_(producer), state_(graph.ops.size(), State::unseen) {}

  std::vector<OpId> run() {
    for (const OpId op : state_.ids()) {
      if (state_[op] != State::unseen) continue;
      const OpId closing = search_from(op);
      if (closing.valid()) return cycle_through(closing);
    }
    return {};
  }

 private:
  enum class State : char { unseen, open, done };
  struct Visit {
    OpId op;
    std::size_t next_edge = 0;
  };

  /// The edge's other end: producers of the inputs first, then `after`. None for an input of the graph.
  [[nodiscard]] OpId dependency(const Op& op, std::size_t edge) const {
    if (edge < op.inputs.size()) return producer_[op.inputs[edge]];
    return op.after[edge - op.inputs.size()];
  }

  void open(OpId op) {
    state_[op] = State::open;
    stack_.push_back({.op = op});
  }

  /// An op on the stack that the top of the stack depends on, or none when all that `root` needs is done.
  OpId search_from(OpId root) {
    open(root);
    while (!stack_.empty()) {
      Visit& top = stack_.back();
      const Op& op = graph_[top.op];
      if (top.next_edge == op.inputs.size() + op.after.size()) {
        state_[top.op] = State::done;
        stack_.pop_back();
        continue;
      }
      const OpId next = dependency(op, top.next_edge++);
      if (!next.valid()) continue;
      const State state = state_[next];
      if (state == State::open) return next;
      if (state == State::unseen) open(next);
    }
    return OpId::none();
  }

  /// The stack runs from a dependent op to what it depends on; the cycle is told the other way round.
  [[nodiscard]] std::vector<OpId> cycle_through(OpId closing) const {
    std::vector<OpId> cycle;
    for (auto visit = stack_.rbegin(); visit != stack_.rend(); ++visit) {
      cycle.push_back(visit->op);
      if (visit->op == closing) break;
    }
    std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
    return cycle;
  }

  const Graph& graph_;
  const Table<TensorId, OpId>& producer_;
  Table<OpId, State> state_;
  std::vector<Visit> stack_;
};

}  // namespace

std::vector<OpId> find_cycle(const Graph& graph, const Table<TensorId, OpId>& producer) {
  return CycleSearch(graph, producer).run();
}

Graph reordered(const Graph& graph, std::span<const OpId> order) {
  ensure(order.size() == graph.ops.size(), "reorder: not every op once");
  const Table<OpId, OpId> places = places_in(order);
  Graph result = graph;
  for (const OpId i : places.ids()) {
    Op& op = result[i];
    op = graph[order[i.index()]];
    if (op.backward_of.valid()) op.backward_of = places[op.backward_of];
    for (OpId& earlier : op.after) earlier = places[earlier];
  }
  return result;
}

Table<OpId, OpId> places_in(std::span<const OpId> order) {
  Table<OpId, OpId> places(order.size());
  for (const OpId i : places.ids()) {
    const OpId op = order[i.index()];
    ensure(op.valid() && op.index() < order.size() && !places[op].valid(), "reorder: not every op once");
    places[op] = i;
  }
  return places;
}

}  // namespace remora
