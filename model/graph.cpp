// SPDX-License-Identifier: Apache-2.0
#include "model/graph.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/error.hpp"
#include "model/quote.hpp"

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

Graph reordered(const Graph& graph, const Order& order) {
  ensure(order.size() == graph.ops.size(), "reorder: not every op once");
  const Table<OpId, OpId> places = places_in(order);
  Graph result = graph;
  for (const OpId i : places.ids()) {
    Op& op = result[i];
    op = graph[order[i.index()]];
    if (op.backward_of.valid()) op.backward_of = places[op.backward_of];
    for (OpId& earlier : op.after) earlier = places[earlier];
    if (op.modes && op.modes->follows.valid()) op.modes->follows = places[op.modes->follows];
  }
  return result;
}

Table<OpId, OpId> places_in(const Order& order) {
  Table<OpId, OpId> places(order.size());
  for (const OpId i : places.ids()) {
    const OpId op = order[i.index()];
    ensure(op.valid() && op.index() < order.size() && !places[op].valid(), "reorder: not every op once");
    places[op] = i;
  }
  return places;
}

namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kNamesShown = 10;

std::string element(std::string_view list, std::size_t i) {
  return std::string(list) + "[" + std::to_string(i) + "]";
}
std::string op_path(std::size_t i) {
  return element("ops", i);
}
std::string tensor_path(std::size_t i) {
  return element("tensors", i);
}
std::string op_path(OpId op) {
  return op_path(op.index());
}
/// In a message, which all interfaces show: the path is the place's.
std::string numbered(OpId op) {
  return "op " + std::to_string(op);
}

/// Everything that `validate` checks; each step may rely on those before it (see run).
class Checker {
 public:
  explicit Checker(const Graph& graph) : graph_(graph), producer_(graph.tensors.size()) {}

  void run() {
    check_table_size("tensors", graph_.tensors.size());
    check_table_size("ops", graph_.ops.size());
    check_tensors();
    check_ops();
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) check_references(i);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) check_outputs(i);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) check_order(i);
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (!graph_.ops[i].axes.empty()) check_axes(graph_, graph_.ops[i], op_path(i));
      check_modes(graph_, graph_.ops[i], op_path(i));
    }
    check_memory_sum();
    check_duration_sum();
  }

 private:
  using Names = std::unordered_map<std::string_view, std::size_t>;

  static void check_table_size(const std::string& path, std::size_t size) {
    if (size > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      throw InputError(path, "more than 2147483647 entries");
    }
  }

  static void check_amount(const std::string& path, std::int64_t amount) {
    if (amount < 0) throw InputError(path, "must not be negative, but is " + std::to_string(amount));
  }

  static void check_name(Names& names, const std::string& kind, std::size_t i, const std::string& name) {
    const auto path = [&] { return element(kind + "s", i) + ".name"; };
    if (name.empty()) throw InputError(path(), "a name must not be empty");
    const auto [entry, inserted] = names.emplace(name, i);
    if (inserted) return;
    throw InputError(path(), "the name " + quote(name) + " is taken by " + kind + " " + std::to_string(entry->second));
  }

  void check_tensors() const {
    check_amount("fixed_memory", graph_.fixed_memory.count());
    Names names;
    names.reserve(graph_.tensors.size());
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      const Tensor& tensor = graph_.tensors[i];
      check_name(names, "tensor", i, tensor.name);
      if (tensor.size < Bytes()) check_amount(tensor_path(i) + ".size", tensor.size.count());
    }
  }

  void check_ops() const {
    Names names;
    names.reserve(graph_.ops.size());
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      check_name(names, "op", i, op.name);
      if (op.duration < Duration()) check_amount(op_path(i) + ".duration", op.duration.count());
      if (op.workspace < Bytes()) check_amount(op_path(i) + ".workspace", op.workspace.count());
      if (op.max_computes.value_or(1) < 1) {
        throw InputError(
            op_path(i) + ".max_computes",
            "must be at least 1, but is " + std::to_string(*op.max_computes) + " (op " + quote(op.name) + ")");
      }
    }
  }

  /// The ids of a graph that was built by hand may point anywhere; the readers' never do.
  void check_references(std::size_t i) const {
    const Op& op = graph_.ops[i];
    const auto check = [&](std::string_view key, const auto& ids, std::size_t limit, std::string_view kind) {
      for (std::size_t j = 0; j < ids.size(); ++j) {
        if (ids[j].valid() && ids[j].index() < limit) continue;
        throw InputError(op_path(i) + element("." + std::string(key), j),
                         "no " + std::string(kind) + " has the number " + std::to_string(ids[j]));
      }
    };
    check("inputs", op.inputs, graph_.tensors.size(), "tensor");
    check("outputs", op.outputs, graph_.tensors.size(), "tensor");
    check("after", op.after, graph_.ops.size(), "op");
    for (std::size_t j = 0; j < op.in_place.size(); ++j) check_in_place(i, j);
    if (!op.backward_of.valid()) return;
    if (op.backward_of.index() >= graph_.ops.size()) {
      throw InputError(op_path(i) + ".backward_of", "no op has the number " + std::to_string(op.backward_of));
    }
    if (op.backward_of == OpId(i)) {
      throw InputError(op_path(i) + ".backward_of", "the op " + quote(op.name) + " cannot be its own backward op");
    }
  }

  /// Pair j of op i: its own output and input, neither in an earlier pair.
  void check_in_place(std::size_t i, std::size_t j) const {
    const Op& op = graph_.ops[i];
    const auto check = [&](std::size_t side, const std::vector<TensorId>& own, TensorId InPlace::*tensor) {
      const TensorId t = op.in_place[j].*tensor;
      const std::string kind = side == 0 ? "output" : "input";
      const auto fail = [&](const std::string& what) {
        throw InputError(op_path(i) + element(".in_place", j) + element("", side), what);
      };
      if (!t.valid() || t.index() >= graph_.tensors.size()) fail("no tensor has the number " + std::to_string(t));
      if (std::find(own.begin(), own.end(), t) == own.end()) {
        fail("the tensor " + quote(name_of(t)) + " is not an " + kind + " of the op " + quote(op.name));
      }
      for (std::size_t k = 0; k < j; ++k) {
        if (op.in_place[k].*tensor == t) fail("the " + kind + " " + quote(name_of(t)) + " is in two pairs");
      }
    };
    check(0, op.outputs, &InPlace::output);
    check(1, op.inputs, &InPlace::input);
  }

  void check_outputs(std::size_t i) {
    const Op& op = graph_.ops[i];
    if (op.outputs.empty()) throw InputError(op_path(i) + ".outputs", "the op " + quote(op.name) + " has no outputs");
    for (std::size_t j = 0; j < op.outputs.size(); ++j) {
      OpId& producer = producer_[op.outputs[j]];
      if (producer.valid()) throw second_producer(i, j, producer);
      producer = OpId(i);
    }
  }

  [[nodiscard]] InputError second_producer(std::size_t i, std::size_t j, OpId first) const {
    const std::string path = op_path(i) + element(".outputs", j);
    const std::string tensor = quote(name_of(graph_.ops[i].outputs[j]));
    if (first == OpId(i)) return {path, "the op " + quote(name_of(first)) + " lists the tensor " + tensor + " twice"};
    return {path, "the tensor " + tensor + " has two producers, " + quote(name_of(first)) + " (" + numbered(first) +
                      ") and " + quote(graph_.ops[i].name)};
  }

  void check_order(std::size_t i) const {
    const Op& op = graph_.ops[i];
    for (std::size_t j = 0; j < op.inputs.size(); ++j) {
      const OpId producer = producer_[op.inputs[j]];
      if (!producer.valid() || producer < OpId(i)) continue;
      throw_if_cyclic();
      throw InputError(op_path(i) + element(".inputs", j),
                       "the op " + quote(op.name) + " is listed before " + quote(name_of(producer)) + " (" +
                           numbered(producer) + "), the producer of its input " + quote(name_of(op.inputs[j])));
    }
    for (std::size_t j = 0; j < op.after.size(); ++j) {
      if (op.after[j] < OpId(i)) continue;
      throw_if_cyclic();
      throw InputError(op_path(i) + element(".after", j), "the op " + quote(op.name) + " is listed before " +
                                                              quote(name_of(op.after[j])) + " (" +
                                                              numbered(op.after[j]) + "), which it must come after");
    }
  }

  /// No order of the ops would be right: say so, rather than that the order given is wrong.
  void throw_if_cyclic() const {
    const std::vector<OpId> cycle = find_cycle(graph_, producer_);
    if (cycle.empty()) return;
    std::string names;
    for (std::size_t k = 0; k < cycle.size() && k < kNamesShown; ++k) names += quote(name_of(cycle[k])) + " -> ";
    if (cycle.size() > kNamesShown) names += "... (" + std::to_string(cycle.size()) + " ops) -> ";
    // The cycle begins with its first op in the list, which therefore depends on one that is listed later or is itself.
    throw InputError(dependency_path(cycle.front(), cycle.back()),
                     "the ops form a cycle: " + names + quote(name_of(cycle.front())));
  }

  [[nodiscard]] std::string dependency_path(OpId op, OpId on) const {
    const Op& dependent = graph_[op];
    for (std::size_t j = 0; j < dependent.inputs.size(); ++j) {
      if (producer_[dependent.inputs[j]] == on) return op_path(op) + element(".inputs", j);
    }
    for (std::size_t j = 0; j < dependent.after.size(); ++j) {
      if (dependent.after[j] == on) return op_path(op) + element(".after", j);
    }
    return op_path(op);
  }

  /// The tensor's size by the mode of its producer that leaves most.
  [[nodiscard]] Bytes largest_of(std::size_t tensor) const {
    const OpId producer = producer_[TensorId(tensor)];
    const Bytes own = graph_.tensors[tensor].size;
    if (!producer.valid() || !graph_[producer].modes) return own;
    const std::vector<TensorId>& outputs = graph_[producer].outputs;
    const auto place = std::find(outputs.begin(), outputs.end(), TensorId(tensor)) - outputs.begin();
    return largest_size(graph_[producer], static_cast<std::size_t>(place), own);
  }

  /// Nothing that is ever resident at once exceeds the fixed memory, all tensors and the largest workspace.
  void check_memory_sum() const {
    std::int64_t total = graph_.fixed_memory.count();
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      const std::int64_t size = largest_of(i).count();
      if (size > kLargest - total) {
        throw InputError(tensor_path(i) + ".size", "fixed_memory and the sizes up to tensor " +
                                                       quote(graph_.tensors[i].name) + " exceed 64 bits together");
      }
      total += size;
    }
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      if (largest_workspace(graph_.ops[i]).count() <= kLargest - total) continue;
      throw InputError(op_path(i) + ".workspace", "fixed_memory, all sizes and the workspace of op " +
                                                      quote(graph_.ops[i].name) + " exceed 64 bits together");
    }
  }

  void check_duration_sum() const {
    std::int64_t total = 0;
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const std::int64_t duration = longest_duration(graph_.ops[i]).count();
      if (duration > kLargest / kComputesWithin64Bits - total) {
        throw InputError(op_path(i) + ".duration", "the durations up to op " + quote(graph_.ops[i].name) +
                                                       ", each taken " + std::to_string(kComputesWithin64Bits) +
                                                       " times, exceed 64 bits together");
      }
      total += duration;
    }
  }

  [[nodiscard]] const std::string& name_of(OpId op) const { return graph_[op].name; }
  [[nodiscard]] const std::string& name_of(TensorId tensor) const { return graph_[tensor].name; }

  const Graph& graph_;
  /// The op that writes each tensor, or none; filled by check_outputs.
  Table<TensorId, OpId> producer_;
};

}  // namespace

Table<TensorId, OpId> producers_of(const Graph& graph) {
  Table<TensorId, OpId> producers(graph.tensors.size());
  for (const OpId v : Ids<OpId>(graph.ops.size())) {
    for (const TensorId t : graph[v].outputs) producers[t] = v;
  }
  return producers;
}

Adjacency<TensorId, OpId> readers_of(const Graph& graph) {
  return {graph.tensors.size(), [&](const auto& put) {
            for (const OpId v : Ids<OpId>(graph.ops.size())) {
              for (const TensorId t : graph[v].inputs) put(t, v);
            }
          }};
}

void validate(const Graph& graph) {
  Checker(graph).run();
}

}  // namespace remora
