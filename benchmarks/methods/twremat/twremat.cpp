// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/methods/twremat/twremat.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <string>

#include "benchmarks/methods/twremat/trimmed_sequence.hpp"
#include "engine/search/solution.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

class Builder {
 public:
  Builder(const TreeDecomposition& decomposition, std::vector<SeparatorTree::Part>& parts, std::vector<int>& homes)
      : bags_(decomposition.bags),
        adjacent_(decomposition.bags.size()),
        removed_(decomposition.bags.size(), false),
        parents_(decomposition.bags.size()),
        below_(decomposition.bags.size()),
        parts_(parts),
        homes_(homes) {
    for (const auto& [i, j] : decomposition.edges) {
      adjacent_[at(i)].push_back(j);
      adjacent_[at(j)].push_back(i);
    }
  }

  /// The part of the bags that hang together with this one. As deep as log2(bags), lemma 3. Returns its number, or -1
  /// where all its nodes are in separators above.
  int build(int bag) {
    const std::vector<int> reached = component(bag);
    const bool any = std::any_of(reached.begin(), reached.end(), [&](int i) { return has_homeless(i); });
    if (!any) return -1;
    const int separator = balanced(reached);
    const int number = static_cast<int>(parts_.size());
    parts_.push_back({.bags = static_cast<int>(reached.size())});
    for (const int node : bags_[at(separator)]) {
      if (homes_[at(node)] >= 0) continue;
      homes_[at(node)] = number;
      parts_[at(number)].separator.push_back(node);
    }
    removed_[at(separator)] = true;
    for (const int next : adjacent_[at(separator)]) {
      const int child = removed_[at(next)] ? -1 : build(next);
      if (child >= 0) parts_[at(number)].children.push_back(child);
    }
    parts_[at(number)].end = static_cast<int>(parts_.size());
    return number;
  }

 private:
  [[nodiscard]] bool has_homeless(int bag) const {
    const auto& nodes = bags_[at(bag)];
    return std::any_of(nodes.begin(), nodes.end(), [&](int node) { return homes_[at(node)] < 0; });
  }

  /// Every bag after its parent.
  std::vector<int> component(int bag) {
    std::vector<int> reached{bag};
    parents_[at(bag)] = -1;
    for (std::size_t i = 0; i < reached.size(); ++i) {
      for (const int next : adjacent_[at(reached[i])]) {
        if (removed_[at(next)] || next == parents_[at(reached[i])]) continue;
        parents_[at(next)] = reached[i];
        reached.push_back(next);
      }
    }
    return reached;
  }

  /// The deepest bag that has at least half of the bags at and below it (Jordan 1869): what hangs below it has less
  /// than half, what is left above it at most half.
  int balanced(const std::vector<int>& reached) {
    for (const int bag : reached) below_[at(bag)] = 1;
    const int all = static_cast<int>(reached.size());
    for (auto bag = reached.rbegin();; ++bag) {
      if (2 * below_[at(*bag)] >= all) return *bag;
      below_[at(parents_[at(*bag)])] += below_[at(*bag)];
    }
  }

  const std::vector<std::vector<int>>& bags_;
  std::vector<std::vector<int>> adjacent_;
  std::vector<char> removed_;
  std::vector<int> parents_;
  /// Bags at and below each.
  std::vector<int> below_;
  std::vector<SeparatorTree::Part>& parts_;
  std::vector<int>& homes_;
};

}  // namespace

SeparatorTree::SeparatorTree(const TreeDecomposition& decomposition, int nodes) : homes_(at(nodes), -1) {
  if (!decomposition.bags.empty()) Builder(decomposition, parts_, homes_).build(0);
}

int SeparatorTree::child_with(int index, int node) const {
  const auto& children = part(index).children;
  return *std::prev(std::upper_bound(children.begin(), children.end(), home(node)));
}

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
        computed_(at(instance.op_count()), false),
        seen_(at(instance.op_count()), 0) {}

  std::optional<Sequence> run() {
    compute(0, final_ops());
    if (too_long_) return std::nullopt;
    return std::move(sequence_);
  }

 private:
  static std::size_t index(int op) { return at(op); }

  /// Ops on which none depends, and ops with an output to keep.
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
  Sequence sequence_;
  std::vector<char> computed_;
  /// The last search that came by each op.
  std::vector<int> seen_;
  int mark_ = 0;
};

}  // namespace

Neighbours dependency_graph(const Instance& instance) {
  std::vector<std::vector<int>> before(at(instance.op_count()));
  for (int v = 0; v < instance.op_count(); ++v) {
    auto& list = before[at(v)];
    for (const TensorId t : instance.inputs(OpId(v))) list.push_back(instance.producer(t));
    const auto& after = instance.graph()[OpId(v)].after;
    list.insert(list.end(), after.begin(), after.end());
  }
  return mutual(std::move(before));
}

std::optional<Sequence> separator_schedule(const Instance& instance, const SeparatorTree& tree, int limit,
                                           std::int64_t most_times) {
  return Scheduler(instance, tree, limit, most_times).run();
}

namespace {

/// Limits tried between k/2 and 2 k around the best k: every eighth of an octave.
constexpr int kFineSteps = 8;

struct Candidate {
  Sequence sequence{};
  Bytes peak{};
  Duration duration{};
  int limit = 0;
};

class Sweep {
 public:
  Sweep(const MethodInput& input, const SeparatorTree& tree) : input_(input), tree_(tree) {
    for (const auto& part : tree.parts()) sizes_.insert(part.bags);
  }

  Candidate run() {
    const int whole = tree_.part(0).bags + 1;
    best_ = {.sequence = input_order(input_.instance), .limit = whole};
    const Evaluation plain = evaluate(input_.instance, best_.sequence);
    best_.peak = plain.peak;
    best_.duration = plain.duration;
    tried_.insert(effective(whole));
    for (int limit = whole / 2; limit >= 1; limit /= 2) attempt(limit);
    const int centre = best_.limit;
    for (int i = -kFineSteps + 1; i < kFineSteps; ++i) {
      attempt(static_cast<int>(std::lround(centre * std::exp2(static_cast<double>(i) / kFineSteps))));
    }
    return std::move(best_);
  }

  [[nodiscard]] std::int64_t steps() const { return steps_; }

 private:
  [[nodiscard]] bool holds(const Candidate& candidate) const { return candidate.peak <= input_.instance.budget(); }

  /// The input order holds the budget, or time is up.
  [[nodiscard]] bool done() const {
    return (holds(best_) && best_.duration == input_.instance.baseline_duration()) || input_.deadline.reached();
  }

  /// The least limit that separates the same parts: one more than the largest part that is not separated.
  [[nodiscard]] int effective(int limit) const {
    const auto beyond = sizes_.lower_bound(limit);
    return beyond == sizes_.begin() ? 1 : *std::prev(beyond) + 1;
  }

  void attempt(int limit) {
    if (limit < 1 || done() || !tried_.insert(effective(limit)).second) return;
    const Instance& instance = input_.instance;
    // The paper's sequences are 3 to 11 times as long as the graph.
    const auto sequence = separator_schedule(instance, tree_, limit, kComputesWithin64Bits);
    if (!sequence) return;
    steps_ += static_cast<std::int64_t>(sequence->size());
    TrimmedSequence trimmed(instance, *sequence);
    remove_beyond_limits(trimmed);
    if (trimmed.peak() <= instance.budget()) remove_unneeded(trimmed, input_.deadline);
    Candidate candidate{trimmed.sequence(), trimmed.peak(), trimmed.duration(), limit};
    if (is_permitted(instance, candidate.sequence) && is_best(candidate)) best_ = std::move(candidate);
  }

  [[nodiscard]] bool is_best(const Candidate& candidate) const {
    return better(input_.instance, candidate.peak, candidate.duration, best_.peak, best_.duration);
  }

  const MethodInput& input_;
  const SeparatorTree& tree_;
  /// How many bags parts have.
  std::set<int> sizes_;
  /// Effective limits.
  std::set<int> tried_;
  Candidate best_;
  std::int64_t steps_ = 0;
};

}  // namespace

MethodResult run_twremat(const MethodInput& input) {
  const Instance& instance = input.instance;
  if (instance.op_count() == 0) return {};
  const TreeDecomposition decomposition =
      shrunk(min_fill_decomposition(dependency_graph(instance), [&] { return input.deadline.reached(); }));
  const SeparatorTree tree(decomposition, instance.op_count());
  Sweep sweep(input, tree);
  Candidate best = sweep.run();
  MethodResult result{.sequence = std::move(best.sequence), .work = sweep.steps()};
  result.note = "k = " + std::to_string(best.limit) + ", width " + std::to_string(decomposition.width());
  if (instance.problem().order == OrderMode::input) result.note += "; of its sequences only those of the input order";
  return result;
}

}  // namespace remora
