// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/units.hpp"

#include <algorithm>
#include <utility>

#include "engine/baselines/chains/block_chain.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

/// The unit that a backward op would belong to if it read no backward op's tensors; `units` of the ops before it.
int natural_owner(const Instance& instance, OpId op, int forward, const std::vector<int>& unit_of) {
  const OpId of = instance.graph()[op].backward_of;
  if (of.valid() && of < op) return unit_of[at(of)];
  int last = -1;
  for (const TensorId t : instance.inputs(op)) {
    const OpId producer = instance.producer(t);
    if (producer < forward) last = std::max<int>(last, producer);
  }
  return last >= 0 ? last : unit_of.back();
}

int owner(const Instance& instance, OpId op, int forward, const std::vector<int>& unit_of) {
  int unit = natural_owner(instance, op, forward, unit_of);
  const auto not_behind = [&](OpId before) {
    if (before >= forward) unit = std::min(unit, unit_of[at(before)]);
  };
  for (const TensorId t : instance.inputs(op)) not_behind(instance.producer(t));
  for (const OpId before : instance.graph()[op].after) not_behind(before);
  return unit;
}

class GraphBuilder {
 public:
  GraphBuilder(const Instance& instance, const Units& units) : instance_(instance), units_(units) {}

  PartitionGraph run() {
    for (int op = 0; op < instance_.op_count(); ++op) {
      for (const TensorId t : instance_.outputs(OpId(op))) add_tensor(OpId(op), t);
      for (const OpId before : instance_.graph()[OpId(op)].after) add_after(before, OpId(op));
    }
    return {std::vector<std::int64_t>(units_.units.size(), 1), std::move(edges_), std::move(values_)};
  }

 private:
  [[nodiscard]] int unit_of(OpId op) const { return units_.unit_of[at(op)]; }
  [[nodiscard]] bool is_backward(OpId op) const { return at(op) >= units_.units.size(); }

  /// Backward ops read forward tensors of units behind theirs, too: that orders nothing.
  void add_edge(int from, int to) {
    if (from < to) edges_.push_back({from, to});
  }

  void add_tensor(OpId producer, TensorId tensor) {
    const int unit = unit_of(producer);
    std::vector<int> readers;
    for (const OpId user : instance_.users(tensor)) {
      const int reader = unit_of(user);
      if (reader == unit) continue;
      if (is_backward(producer)) {
        add_edge(reader, unit);
      } else {
        add_edge(unit, reader);
        readers.push_back(reader);
      }
    }
    if (readers.empty() || is_pinned(instance_, tensor)) return;
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    values_.push_back({.producer = unit, .size = instance_.size(tensor), .readers = std::move(readers)});
  }

  void add_after(OpId before, OpId op) {
    if (!is_backward(op)) add_edge(unit_of(before), unit_of(op));
    if (is_backward(before)) add_edge(unit_of(op), unit_of(before));
  }

  const Instance& instance_;
  const Units& units_;
  std::vector<PartitionEdge> edges_;
  std::vector<PartitionValue> values_;
};

}  // namespace

Units find_units(const Instance& instance) {
  const int forward = forward_part(instance).value_or(instance.op_count());
  Units found;
  found.unit_of.reserve(at(instance.op_count()));
  for (int op = 0; op < forward; ++op) {
    found.units.push_back({.op = OpId(op)});
    found.unit_of.push_back(op);
  }
  for (int op = forward; op < instance.op_count(); ++op) {
    const int unit = owner(instance, OpId(op), forward, found.unit_of);
    found.unit_of.push_back(unit);
    found.units[at(unit)].backward.emplace_back(op);
  }
  return found;
}

PartitionGraph unit_graph(const Instance& instance, const Units& units) {
  return GraphBuilder(instance, units).run();
}

}  // namespace remora
