// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/twremat/separator_schedule.hpp"

#include <algorithm>

namespace remora {
namespace {

/// One run of the algorithm. Ops by their numbers, which are a topological order.
class Scheduler {
 public:
  Scheduler(const Instance& instance, const SeparatorTree& tree, int limit, std::int64_t most_times)
      : instance_(instance),
        tree_(tree),
        limit_(limit),
        steps_left_(most_times * instance.op_count()),
        duration_left_(most_times * instance.baseline_duration().count()),
        computed_(static_cast<std::size_t>(instance.op_count()), false),
        seen_(static_cast<std::size_t>(instance.op_count()), 0) {}

  std::optional<std::vector<OpId>> run() {
    compute(0, final_ops());
    if (too_long_) return std::nullopt;
    return std::move(sequence_);
  }

 private:
  static std::size_t index(int op) { return static_cast<std::size_t>(op); }

  /// What nothing depends on, and what has an output to keep.
  [[nodiscard]] std::vector<int> final_ops() const {
    std::vector<char> final(index(instance_.op_count()), true);
    for (const Op& op : instance_.graph().ops) {
      for (const OpId before : op.after) final[index(before)] = false;
      for (const TensorId t : op.inputs) {
        if (instance_.producer(t).valid()) final[index(instance_.producer(t))] = false;
      }
    }
    std::vector<int> ops;
    for (int v = 0; v < instance_.op_count(); ++v) {
      const auto outputs = instance_.outputs(OpId(v));
      const bool kept = std::any_of(outputs.begin(), outputs.end(), [&](TensorId t) { return instance_.keep(t); });
      if (kept || final[index(v)]) ops.push_back(v);
    }
    return ops;
  }

  /// Calls `visit` for what must run before the op, perhaps more than once for one.
  template <class Visit>
  void visit_before(int op, Visit visit) const {
    for (const TensorId t : instance_.inputs(OpId(op))) visit(int{instance_.producer(t)});
    for (const OpId before : instance_.graph().ops[index(op)].after) {
      if (!computed_[index(before)]) visit(int{before});
    }
  }

  /// The wanted ops and what leads to them, within the part; ascending. What they read from outside is resident.
  std::vector<int> leading_to(int part, const std::vector<int>& wanted) {
    ++mark_;
    std::vector<int> ops;
    const auto add = [&](int op) {
      if (seen_[index(op)] == mark_ || !tree_.contains(part, op)) return;
      seen_[index(op)] = mark_;
      ops.push_back(op);
    };
    for (const int op : wanted) add(op);
    for (std::size_t i = 0; i < ops.size(); ++i) visit_before(ops[i], add);
    std::sort(ops.begin(), ops.end());
    return ops;
  }

  /// Algorithm 1 for a part and ops of it.
  void compute(int part, const std::vector<int>& wanted) {
    if (too_long_) return;
    std::vector<int> ops = leading_to(part, wanted);
    if (tree_.part(part).bags < limit_) {
      for (const int op : ops) append(op);
      return;
    }
    std::erase_if(ops, [&](int op) { return tree_.home(op) != part; });
    std::vector<int> inputs;
    for (const int op : ops) {
      inputs.clear();
      visit_before(op, [&](int before) { inputs.push_back(before); });
      compute_below(part, inputs);
      append(op);
    }
    compute_below(part, wanted);
  }

  /// Those of the ops that are in parts below the part: part by part, first the one with the least op.
  void compute_below(int part, const std::vector<int>& ops) {
    std::vector<std::pair<int, int>> by_child;
    for (const int op : ops) {
      if (tree_.contains(part, op) && tree_.home(op) != part) by_child.emplace_back(tree_.child_with(part, op), op);
    }
    std::sort(by_child.begin(), by_child.end());
    std::vector<std::vector<int>> groups;
    for (std::size_t i = 0; i < by_child.size(); ++i) {
      if (i == 0 || by_child[i].first != by_child[i - 1].first) groups.emplace_back();
      groups.back().push_back(by_child[i].second);
    }
    std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.front() < b.front(); });
    for (const auto& group : groups) compute(tree_.child_with(part, group.front()), group);
  }

  void append(int op) {
    steps_left_ -= 1;
    duration_left_ -= instance_.duration(OpId(op));
    too_long_ = too_long_ || steps_left_ < 0 || duration_left_ < Duration(0);
    if (too_long_) return;
    sequence_.emplace_back(op);
    computed_[index(op)] = true;
  }

  const Instance& instance_;
  const SeparatorTree& tree_;
  int limit_;
  std::int64_t steps_left_;
  Duration duration_left_;
  bool too_long_ = false;
  std::vector<OpId> sequence_;
  std::vector<char> computed_;
  /// The last search that came by each op.
  std::vector<int> seen_;
  int mark_ = 0;
};

}  // namespace

Neighbours dependency_graph(const Instance& instance) {
  std::vector<std::vector<int>> before(static_cast<std::size_t>(instance.op_count()));
  for (int v = 0; v < instance.op_count(); ++v) {
    auto& list = before[static_cast<std::size_t>(v)];
    for (const TensorId t : instance.inputs(OpId(v))) list.push_back(instance.producer(t));
    const auto& after = instance.graph().ops[static_cast<std::size_t>(v)].after;
    list.insert(list.end(), after.begin(), after.end());
  }
  return mutual(std::move(before));
}

std::optional<std::vector<OpId>> separator_schedule(const Instance& instance, const SeparatorTree& tree, int limit,
                                                    std::int64_t most_times) {
  return Scheduler(instance, tree, limit, most_times).run();
}

}  // namespace remora
