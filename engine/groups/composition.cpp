// SPDX-License-Identifier: Apache-2.0
#include "engine/groups/composition.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/search/local/mode_exchange.hpp"
#include "engine/search/neighbourhood.hpp"
#include "engine/search/solution.hpp"
#include "engine/search/workers/cp_workers.hpp"
#include "model/cp/solve_retention.hpp"
#include "model/evaluate.hpp"
#include "model/random.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

/// Ops up to which the complete search is tried first, and its nodes.
constexpr int kMaxOpsForCompleteSearch = 80;
constexpr std::int64_t kCompleteNodes = 3000;
constexpr double kFirstSize = 10;
constexpr double kMinSize = 4;
constexpr double kSizeChange = 1.1;
constexpr double kMinStride = 1.0 / 64;
constexpr double kBlockNoise = 0.3;
/// Fruitless neighbourhoods in a row, in ops, after which the composition is taken for done.
constexpr int kMaxFruitlessPerOp = 3;
/// Fruitless renewals of modes in a row after which neighbourhoods take over.
constexpr int kRenewals = 60;

class CompositionSearch {
 public:
  CompositionSearch(const Instance& instance, const SolveOptions& options, std::uint64_t seed,
                    const CompositionLimits& limits)
      : instance_(instance),
        limits_(limits),
        inferences_(inferences_of(options)),
        node_limit_(options.neighbourhood_nodes),
        random_(seed) {}

  Composition run(std::span<const Compute> warm_start) {
    std::vector<Compute> plain = computes_of(input_order(instance_));
    const bool is_allowed = modes_hold(instance_, plain) || warm_start.empty();
    take(is_allowed ? std::move(plain) : std::vector<Compute>(warm_start.begin(), warm_start.end()));
    exchange(true);
    if (!warm_start.empty()) take_if_better({warm_start.begin(), warm_start.end()});
    while (best_.peak > instance_.budget() && !finished() && stride_ >= kMinStride) lower_peak();
    if (best_.peak <= instance_.budget()) {
      exchange(false);
      search_all();
      for (int fruitless = 0;
           !best_.complete && fruitless < kMaxFruitlessPerOp * instance_.op_count() && !finished();) {
        fruitless = improve() ? 0 : fruitless + 1;
      }
      exchange(false);
    }
    best_.effort = effort_;
    return std::move(best_);
  }

 private:
  [[nodiscard]] bool finished() const {
    return effort_ >= limits_.effort || (limits_.interrupted && limits_.interrupted());
  }

  void take(std::vector<Compute> sequence) {
    evaluation_ = evaluate(instance_, sequence);
    best_.sequence = std::move(sequence);
    best_.peak = evaluation_.peak;
    best_.extra = evaluation_.duration - instance_.baseline_duration();
  }

  void take_if_better(std::vector<Compute> sequence) {
    const Evaluation other = evaluate(instance_, sequence);
    if (better(instance_, other.peak, other.duration, best_.peak, evaluation_.duration)) take(std::move(sequence));
  }

  /// Modes for the computes there are: from anything to within the budget, or from there to shorter ones.
  void exchange(bool begin) {
    ModeState state(instance_, best_.sequence);
    const std::function<bool()> stopped = [&] {
      return effort_ + state.looks() >= limits_.effort || (limits_.interrupted && limits_.interrupted());
    };
    ModeExchange moves(state, random_, stopped);
    if (begin) {
      moves.begin();
    } else {
      moves.renew(kRenewals);
    }
    effort_ += state.looks() - state.looks() % kEffortOfCopy;
    const bool better = state.score().overflow == Bytes(0) && state.score().duration < evaluation_.duration;
    if (begin || better) take(state.sequence());
  }

  /// The ops whose computes or modes compete at the step, and some others, about `size`.
  std::vector<OpId> free_ops(int step, int size) {
    OpSelection selection(instance_, size);
    selection.add(best_.sequence[at(step)].op);
    std::vector<OpId> others;
    for (const RetentionInterval& interval : evaluation_.intervals) {
      if (interval.first_step < step && step < interval.last_step)
        others.push_back(instance_.producer(interval.tensor));
    }
    const std::size_t count = others.size();
    selection.add_at_random(std::move(others), random_, count);
    for (int i = 0; i < size; ++i) selection.add(OpId(random_.below(at(instance_.op_count()))));
    return std::move(selection).sorted();
  }

  cp::SearchOutcome search(const std::vector<OpId>& free, const cp::Limits& limits, std::int64_t nodes, bool first_only,
                           double noise) {
    const cp::RetentionProblem problem(instance_, best_.sequence, free, limits, inferences_);
    cp::SearchSettings settings;
    settings.node_limit = nodes;
    settings.first_only = first_only;
    settings.noise = noise;
    settings.follow_incumbent = random_.below(2) == 0;
    settings.seed = random_.next();
    settings.interrupted = limits_.interrupted;
    auto outcome = cp::solve_retention(problem, settings);
    effort_ += posting_effort(problem) + (outcome.nodes + 1) * node_effort(problem);
    return outcome;
  }

  void lower_peak() {
    const Bytes way = best_.peak - instance_.budget();
    const auto step = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(way.count()) * stride_));
    const Bytes target = std::max(instance_.budget(), best_.peak - Bytes(step));
    const auto free = free_ops(evaluation_.peak_step, 2 * static_cast<int>(size_));
    const auto outcome = search(free, {target, Duration::max()}, node_limit_, true, kBlockNoise);
    stride_ = outcome.sequence ? std::min(1.0, stride_ * 1.5) : stride_ * 0.9;
    if (outcome.sequence) take(*outcome.sequence);
  }

  /// Small problems whole, which may prove the optimum.
  void search_all() {
    if (instance_.op_count() > kMaxOpsForCompleteSearch || finished()) return;
    const auto outcome = search(input_order(instance_), {instance_.budget(), best_.extra}, kCompleteNodes, false, 0);
    if (outcome.sequence) take(*outcome.sequence);
    best_.complete = outcome.complete;
  }

  /// One neighbourhood. Whether it found something better.
  bool improve() {
    const int steps = static_cast<int>(best_.sequence.size());
    int step = static_cast<int>(random_.below(at(steps)));
    const int other = static_cast<int>(random_.below(at(steps)));
    if (evaluation_.memory[at(other)] > evaluation_.memory[at(step)]) step = other;
    const auto free = free_ops(step, static_cast<int>(size_));
    const auto outcome = search(free, {instance_.budget(), best_.extra}, node_limit_, false, kBlockNoise);
    if (outcome.sequence) take(*outcome.sequence);
    size_ = outcome.complete ? std::min(size_ * kSizeChange, static_cast<double>(instance_.op_count()))
                             : std::max(kMinSize, size_ / kSizeChange);
    return outcome.sequence.has_value();
  }

  const Instance& instance_;
  const CompositionLimits& limits_;
  cp::Inferences inferences_;
  std::int64_t node_limit_;
  Random random_;
  Composition best_;
  Evaluation evaluation_;
  Effort effort_ = 0;
  double size_ = kFirstSize;
  double stride_ = 1;
};

}  // namespace

Composition compose(const Instance& instance, const SolveOptions& options, std::uint64_t seed,
                    const CompositionLimits& limits, std::span<const Compute> warm_start) {
  return CompositionSearch(instance, options, seed, limits).run(warm_start);
}

namespace {

/// Depth is that of the hierarchy, which is logarithmic.
// NOLINTNEXTLINE(misc-no-recursion)
void append(const Hierarchy& hierarchy, const Block& block, std::span<const Compute> half, Sequence& result) {
  for (const Compute& compute : half) {
    const BlockOp& op = block.ops[at(compute.op)];
    if (op.kind == BlockOp::Kind::op) {
      result.push_back(op.op);
      continue;
    }
    const int child = block.children[at(op.child)];
    const ClassSchedules& schedules = hierarchy.schedules[at(hierarchy.class_of(child))];
    const bool pass = at(compute.mode) >= schedules.schedules.size();
    const BlockSchedule& schedule = pass ? schedules.pass : schedules.schedules[at(compute.mode)];
    const bool forward = op.kind == BlockOp::Kind::forward_half;
    append(hierarchy, hierarchy.block(child), forward ? schedule.forward : schedule.backward, result);
  }
}

}  // namespace

BlockProblem Hierarchy::problem_of(const Instance& network, const Block& block) const {
  std::vector<ChildSchedules> children;
  children.reserve(block.children.size());
  for (const int child : block.children) {
    const ClassSchedules& of_child = schedules[at(class_of(child))];
    children.push_back({of_child.schedules, &of_child.pass});
  }
  return make_block_problem(network, block, std::move(children));
}

Sequence expand(const Hierarchy& hierarchy, std::span<const Compute> root_sequence) {
  Sequence result;
  append(hierarchy, hierarchy.blocks.back(), root_sequence, result);
  return result;
}

RecomputePlan plan_of_any(const Instance& network, std::span<const OpId> sequence) {
  std::vector<int> computes(at(network.op_count()), 0);
  std::vector<bool> first(sequence.size(), false);
  for (std::size_t step = 0; step < sequence.size(); ++step) first[step] = computes[at(sequence[step])]++ == 0;
  RecomputePlan plan;
  Stage stage{network.op_count()};
  for (std::size_t step = sequence.size(); step-- > 0;) {
    const OpId op = sequence[step];
    if (first[step]) {
      stage = Stage{op};
    } else if (stage > Stage{op}) {
      plan.push_back({stage, op});
    }
  }
  std::sort(plan.begin(), plan.end());
  plan.erase(std::unique(plan.begin(), plan.end()), plan.end());
  return within_limits(network, std::move(plan));
}

}  // namespace remora
