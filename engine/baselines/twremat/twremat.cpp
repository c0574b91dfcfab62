// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/twremat/twremat.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>

#include "engine/baselines/twremat/separator_schedule.hpp"
#include "engine/baselines/twremat/trimmed_sequence.hpp"
#include "engine/search/solution.hpp"
#include "model/evaluate.hpp"
#include "model/free_sequence.hpp"

namespace remora {
namespace {

/// Limits tried between k/2 and 2 k around the best k: every eighth of an octave.
constexpr int kFineSteps = 8;

struct Candidate {
  std::vector<OpId> sequence{};
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
