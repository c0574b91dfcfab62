// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_training_graph.hpp"

#include <string>
#include <utility>
#include <vector>

namespace remora::test {
namespace {

class Builder {
 public:
  explicit Builder(std::mt19937& random) : random_(random) {}

  std::shared_ptr<const Graph> run(int most_forward) {
    const int forward = 2 + static_cast<int>(random_() % static_cast<unsigned>(most_forward - 1));
    for (int op = 0; op < forward; ++op) add_forward(op + 1 == forward);
    for (int op = forward - 1; op >= 0; --op) {
      // The last always, so that there is a backward part.
      if (op + 1 == forward || chance(9)) add_backward(op);
    }
    return std::make_shared<const Graph>(std::move(graph_));
  }

 private:
  [[nodiscard]] bool chance(unsigned of_ten) { return random_() % 10 < of_ten; }
  [[nodiscard]] Duration duration() { return Duration(static_cast<std::int64_t>(random_() % 6)); }

  TensorId add_tensor(bool keep = false) {
    return graph_.add_tensor("t" + std::to_string(graph_.tensors.size()),
                             Bytes(static_cast<std::int64_t>(random_() % 4)), keep);
  }

  void add_forward(bool is_last) {
    Op op{.name = "f" + std::to_string(graph_.ops.size()), .duration = duration(), .phase = Phase::forward};
    if (is_last) op.phase = Phase::loss;
    if (!graph_.ops.empty()) op.inputs.push_back(graph_.ops.back().outputs.front());
    // A skip from anywhere before.
    if (graph_.ops.size() > 1 && chance(2)) {
      op.inputs.push_back(graph_.ops[random_() % graph_.ops.size()].outputs.back());
    }
    op.outputs.push_back(add_tensor(chance(1)));
    if (chance(2)) op.outputs.push_back(add_tensor());
    if (chance(2)) op.workspace = Bytes(static_cast<std::int64_t>(random_() % 3));
    op.recompute = !chance(1);
    graph_.add_op(std::move(op));
  }

  void add_backward(int of) {
    const Op forward = graph_.ops[static_cast<std::size_t>(of)];
    Op op{.name = "b" + std::to_string(of), .duration = duration(), .phase = Phase::backward};
    if (graph_.ops.back().phase == Phase::backward) op.inputs.push_back(graph_.ops.back().outputs.front());
    for (const TensorId t : forward.inputs) {
      if (chance(7)) op.inputs.push_back(t);
    }
    if (chance(4)) op.inputs.push_back(forward.outputs.front());
    if (chance(8)) op.backward_of = OpId(of);
    op.outputs.push_back(add_tensor(chance(1)));
    graph_.add_op(std::move(op));
  }

  std::mt19937& random_;
  Graph graph_;
};

}  // namespace

std::shared_ptr<const Graph> random_training_graph(std::mt19937& random, int most_forward) {
  return Builder(random).run(most_forward);
}

TensorId add_unit_op(Graph& graph, Op op) {
  const TensorId output = graph.add_tensor(op.name, Bytes(1));
  op.outputs = {output};
  op.duration = Duration(1);
  graph.add_op(std::move(op));
  return output;
}

std::shared_ptr<const Graph> late_weight_gradient() {
  auto graph = std::make_shared<Graph>();
  const TensorId a = add_unit_op(*graph, {.name = "a", .phase = Phase::forward});
  const TensorId b = add_unit_op(*graph, {.name = "b", .inputs = {a}, .phase = Phase::forward});
  const TensorId c = add_unit_op(*graph, {.name = "c", .inputs = {b}, .phase = Phase::forward});
  const TensorId dc =
      add_unit_op(*graph, {.name = "dc", .inputs = {c, b}, .phase = Phase::backward, .backward_of = OpId(2)});
  const TensorId db =
      add_unit_op(*graph, {.name = "db", .inputs = {dc, a}, .phase = Phase::backward, .backward_of = OpId(1)});
  add_unit_op(*graph, {.name = "da", .inputs = {db}, .phase = Phase::backward, .backward_of = OpId(0)});
  add_unit_op(*graph, {.name = "wc", .inputs = {dc, b}, .phase = Phase::backward, .backward_of = OpId(2)});
  return graph;
}

}  // namespace remora::test
