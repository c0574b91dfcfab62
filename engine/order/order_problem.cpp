// SPDX-License-Identifier: Apache-2.0
#include "engine/order/order_problem.hpp"

#include <algorithm>
#include <unordered_map>

#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

template <class Row>
void push_row(Adjacency<NodeId, NodeId>& table, Row& row) {
  std::sort(row.begin(), row.end(), [](NodeId a, NodeId b) { return std::int32_t{a} < std::int32_t{b}; });
  row.erase(std::unique(row.begin(), row.end()), row.end());
  for (const NodeId node : row) table.push(node);
  table.end_row();
}

}  // namespace

OrderProblem::OrderProblem(const Instance& instance) : OrderProblem(instance, input_order(instance)) {}

OrderProblem::OrderProblem(const Instance& instance, std::span<const OpId> sequence)
    : ops_(std::vector<OpId>(sequence.begin(), sequence.end())), base_memory_(instance.base_memory()) {
  bind(instance, sequence);
  index_readers();
  if (instance.has_in_place()) index_taken_over(instance);
  index_precedences(instance);
  index_successors();
}

OrderProblem::OrderProblem(const OrderProblem& whole, int begin, int end, std::span<const BufferId> entering,
                           Bytes base_memory)
    : base_memory_(base_memory) {
  std::unordered_map<BufferId, BufferId> inside;
  const auto add = [&](BufferId buffer, NodeId writer, bool keep) {
    inside.emplace(buffer, BufferId(sizes_.size()));
    sizes_.push_back(whole.size(buffer));
    writers_.push_back(writer);
    kept_.push_back(keep);
  };
  for (const BufferId buffer : entering) add(buffer, NodeId::none(), false);
  std::vector<NodeId> row;
  for (int i = begin; i < end; ++i) {
    const NodeId node(i);
    ops_.push_back(whole.op(node));
    workspaces_.push_back(whole.workspace(node));
    for (const BufferId buffer : whole.reads(node)) {
      if (const auto found = inside.find(buffer); found != inside.end()) reads_.push(found->second);
    }
    reads_.end_row();
    for (const BufferId buffer : whole.writes(node)) {
      const auto readers = whole.readers(buffer);
      writes_.push(BufferId(sizes_.size()));
      add(buffer, NodeId(i - begin), whole.keep(buffer) || (!readers.empty() && readers.back() >= end));
    }
    writes_.end_row();
    row.clear();
    for (const NodeId earlier : whole.predecessors(node)) {
      if (earlier >= begin) row.emplace_back(earlier - begin);
    }
    push_row(predecessors_, row);
  }
  index_readers();
  index_successors();
}

/// A buffer for each output of each compute; each use is bound to the latest one before it.
void OrderProblem::bind(const Instance& instance, std::span<const OpId> sequence) {
  Table<TensorId, BufferId> current(instance.tensor_count());
  workspaces_.reserve(sequence.size());
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    const OpId op = sequence[i];
    workspaces_.push_back(instance.workspace(op, 0));
    for (const TensorId t : instance.inputs(op)) {
      ensure(current[t].valid(), "order: an op comes before the producer of its input");
      reads_.push(current[t]);
    }
    reads_.end_row();
    for (const TensorId t : instance.outputs(op)) {
      const BufferId buffer(sizes_.size());
      current[t] = buffer;
      sizes_.push_back(instance.size(t));
      writers_.emplace_back(i);
      kept_.push_back(false);
      writes_.push(buffer);
    }
    writes_.end_row();
  }
  for (const TensorId t : current.ids()) {
    const BufferId last = current[t];
    if (last.valid() && instance.keep(t)) kept_[last] = true;
  }
}

void OrderProblem::index_readers() {
  Table<BufferId, std::vector<NodeId>> readers(sizes_.size());
  for (int i = 0; i < node_count(); ++i) {
    for (const BufferId buffer : reads(NodeId(i))) readers[buffer].emplace_back(i);
  }
  for (const auto& row : readers) {
    for (const NodeId node : row) readers_.push(node);
    readers_.end_row();
  }
}

void OrderProblem::index_taken_over(const Instance& instance) {
  for (const NodeId node : ops_.ids()) {
    const OpId op = ops_[node];
    const auto inputs = instance.inputs(op);
    Bytes open;
    for (const InnerPeak& peak : instance.inner(op, 0)) {
      for (const FreedInput& freed : peak.freed) {
        const auto place = std::find(inputs.begin(), inputs.end(), freed.tensor) - inputs.begin();
        const BufferId buffer = reads(node)[static_cast<std::size_t>(place)];
        const Bytes saved = std::min(freed.most, size(buffer));
        if (keep(buffer)) continue;
        if (readers(buffer).size() == 1) {
          workspaces_[node] -= saved;
        } else {
          taken_over_.push_back({node, buffer, saved});
          open += saved;
        }
      }
    }
    slack_ = std::max(slack_, open);
  }
}

void OrderProblem::index_precedences(const Instance& instance) {
  Table<OpId, NodeId> first(instance.op_count());
  Table<OpId, NodeId> latest(first.size());
  std::vector<NodeId> row;
  for (int i = 0; i < node_count(); ++i) {
    const OpId op = ops_[NodeId(i)];
    row.clear();
    for (const BufferId buffer : reads(NodeId(i))) row.push_back(writer(buffer));
    if (!first[op].valid()) {
      first[op] = NodeId(i);
      for (const OpId earlier : instance.graph().ops[op].after) row.push_back(first[earlier]);
    } else {
      row.push_back(latest[op]);
    }
    latest[op] = NodeId(i);
    push_row(predecessors_, row);
  }
}

void OrderProblem::index_successors() {
  Table<NodeId, std::vector<NodeId>> successors(ops_.size());
  for (int i = 0; i < node_count(); ++i) {
    for (const NodeId earlier : predecessors(NodeId(i))) successors[earlier].emplace_back(i);
  }
  for (auto& later : successors) push_row(successors_, later);
}

Sequence OrderProblem::sequence_of(std::span<const NodeId> order) const {
  Sequence sequence;
  sequence.reserve(order.size());
  for (const NodeId node : order) sequence.push_back(op(node));
  return sequence;
}

Bytes running(const OrderProblem& problem, NodeId node) {
  Bytes bytes = problem.workspace(node);
  for (const BufferId buffer : problem.writes(node)) bytes += problem.size(buffer);
  return bytes;
}

Bytes leaving(const OrderProblem& problem, NodeId node) {
  Bytes bytes;
  for (const BufferId buffer : problem.writes(node)) {
    if (problem.keep(buffer) || !problem.readers(buffer).empty()) bytes += problem.size(buffer);
  }
  return bytes;
}

std::vector<Bytes> memory_of(const OrderProblem& problem, std::span<const NodeId> order) {
  Table<NodeId, int> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int>(i);
  Table<int, Bytes> change(order.size() + 1);
  for (int b = 0; b < problem.buffer_count(); ++b) {
    const BufferId buffer(b);
    const NodeId writer = problem.writer(buffer);
    const int begin = writer.valid() ? place[writer] : 0;
    int last = problem.keep(buffer) ? static_cast<int>(order.size()) - 1 : begin;
    for (const NodeId reader : problem.readers(buffer)) last = std::max(last, place[reader]);
    change[begin] += problem.size(buffer);
    change[last + 1] -= problem.size(buffer);
  }
  std::vector<Bytes> memory;
  memory.reserve(order.size());
  Bytes resident = problem.base_memory();
  int i = 0;
  for (const NodeId node : order) {
    resident += change[i++];
    memory.push_back(resident + problem.workspace(node));
  }
  for (const OrderProblem::TakenOver& taken : problem.taken_over()) {
    const auto readers = problem.readers(taken.buffer);
    const int here = place[taken.node];
    const bool last = std::all_of(readers.begin(), readers.end(), [&](NodeId reader) { return place[reader] <= here; });
    if (last) memory[at(here)] -= taken.saved;
  }
  return memory;
}

Bytes peak_of(const OrderProblem& problem, std::span<const NodeId> order) {
  Bytes peak = problem.base_memory();
  for (const Bytes bytes : memory_of(problem, order)) peak = std::max(peak, bytes);
  return peak;
}

std::vector<NodeId> given_order(const OrderProblem& problem) {
  std::vector<NodeId> order;
  order.reserve(at(problem.node_count()));
  for (int i = 0; i < problem.node_count(); ++i) order.emplace_back(i);
  return order;
}

bool is_valid(const OrderProblem& problem, std::span<const NodeId> order) {
  if (std::ssize(order) != problem.node_count()) return false;
  Table<NodeId, bool> done(order.size());
  for (const NodeId node : order) {
    if (!node.valid() || node >= problem.node_count() || done[node]) return false;
    for (const NodeId earlier : problem.predecessors(node)) {
      if (!done[earlier]) return false;
    }
    done[node] = true;
  }
  return true;
}

}  // namespace remora
