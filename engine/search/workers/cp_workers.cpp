// SPDX-License-Identifier: Apache-2.0
#include "engine/search/workers/cp_workers.hpp"

#include <algorithm>
#include <vector>

#include "model/cp/solve_retention.hpp"
#include "model/evaluate.hpp"
#include "model/random.hpp"

namespace remora {
namespace {

constexpr std::int64_t kFirstPassNodes = 1000;
constexpr double kWidthGrowth = 1.6;
constexpr double kFirstGapPart = 0.25;
constexpr double kGapPartShrinkage = 0.4;
/// Passes given up with a schedule in hand before the cutoff becomes that schedule's cost.
constexpr int kPassesGivenUp = 4;
/// Cutoffs start this part of the baseline duration above the bound.
constexpr double kFirstWidth = 0.002;
/// Passes that look for a schedule vary the order of choices; the first one does not.
constexpr double kNoise = 0.3;

/// A pass begins anew where no more than this part of what it had to decide is left.
constexpr double kWorthAnotherPass = 0.6;

bool holds_budget(const RoundInput& input) {
  return input.incumbent.peak <= input.instance.budget();
}

/// By op and stage, what the period relaxation rules out.
std::int64_t stages_banned(const RoundInput& input) {
  std::int64_t count = 0;
  for (const cp::StageBan& ban : input.cover.banned) count += ban.last - ban.first + 1;
  return count;
}

}  // namespace

cp::Inferences inferences_of(const SolveOptions& options) {
  return {.forced_recompute = options.forced_recompute,
          .impossible_recompute = options.impossible_recompute,
          .useless_recompute = options.useless_recompute,
          .later_recompute = options.later_recompute,
          .cover_bound = options.cover_bound,
          .costly_recompute = options.costly_recompute};
}

CompleteWorker::Pass::Pass(const RoundInput& input, Duration cutoff, std::int64_t limit,
                           const cp::Inferences& inferences, const cp::SearchSettings& settings)
    : problem(input.instance, input.incumbent.computes(input.instance), input_order(input.instance),
              {input.instance.budget(), cutoff, bans_below(input.instance, input.cover, cutoff)}, inferences),
      search(problem, settings),
      below(cutoff),
      node_limit(limit),
      banned(stages_banned(input)) {}

CompleteWorker::CompleteWorker(const SolveOptions& options, std::uint64_t seed)
    : inferences_(inferences_of(options)),
      learn_(options.nogoods),
      seed_(seed),
      pass_nodes_(kFirstPassNodes),
      width_(kFirstWidth),
      gap_part_(kFirstGapPart) {}

Duration CompleteWorker::cutoff(const RoundInput& input) const {
  const auto least = static_cast<double>(input.lower_bound.count());
  if (holds_budget(input)) {
    const double gap = static_cast<double>(input.incumbent.extra.count()) - least;
    const Duration below = input.lower_bound + Duration(1 + static_cast<std::int64_t>(gap_part_ * gap));
    return std::min(below, input.incumbent.extra);
  }
  const double above = width_ * static_cast<double>(input.instance.baseline_duration().count()) + 1;
  // A cutoff above everything that can be paid is none.
  if (least + above > static_cast<double>(input.instance.all_recomputes().count())) return Duration::max();
  return input.lower_bound + Duration(static_cast<std::int64_t>(above));
}

void CompleteWorker::begin_pass(const RoundInput& input) {
  cp::SearchSettings settings;
  settings.learn = learn_;
  settings.noise = passes_ % 2 == 0 ? 0.0 : kNoise;
  settings.seed = seed_ + static_cast<std::uint64_t>(passes_);
  // A pass lives longer than the round, and the round's question does not.
  settings.interrupted = [this] { return interrupted_ != nullptr && (*interrupted_)(); };
  const Duration below = cutoff(input);
  const bool last = holds_budget(input) && below == input.incumbent.extra;
  pass_ = std::make_unique<Pass>(input, below, last ? INT64_MAX : pass_nodes_, inferences_, settings);
  ++passes_;
}

/// True if so much was excluded since the pass began that a new pass is better.
bool CompleteWorker::begins_again(const RoundInput& input) const {
  if (!holds_budget(input) || pass_->below > input.cover.banned_below) return false;
  std::int64_t all = 0;
  for (const OpId op : input.instance.ops()) {
    if (input.instance.max_computes(op) > 1) all += input.instance.op_count() - op;
  }
  const auto left = static_cast<double>(all - stages_banned(input));
  return left < kWorthAnotherPass * static_cast<double>(all - pass_->banned);
}

RoundResult CompleteWorker::run(const RoundInput& input) {
  RoundResult result;
  interrupted_ = &input.interrupted;
  Solution incumbent = input.incumbent;
  Duration lower_bound = input.lower_bound;
  Effort effort = 0;
  while (effort < input.effort && result.work < input.work && !result.infeasible && !input.interrupted()) {
    const RoundInput now{input.instance,          incumbent, lower_bound, input.cover, input.interrupted, input.effort,
                         input.work - result.work};
    if (holds_budget(now) && incumbent.extra <= lower_bound) break;
    effort += search_on(now, input.effort - effort, result);
    lower_bound = std::max(lower_bound, result.lower_bound);
    if (result.solution) incumbent = *result.solution;
  }
  interrupted_ = nullptr;
  return result;
}

/// Goes on with the present pass, or begins one, for about `effort`. Returns the effort spent.
Effort CompleteWorker::search_on(const RoundInput& input, Effort effort, RoundResult& result) {
  if (pass_ && begins_again(input)) pass_.reset();
  if (!pass_) begin_pass(input);
  const bool feasible = holds_budget(input);
  if (feasible) pass_->search.require_below(input.incumbent.extra);
  const Duration below = feasible ? std::min(pass_->below, input.incumbent.extra) : pass_->below;

  const std::int64_t before = pass_->search.advance(0).nodes;
  const Effort of_node = node_effort(pass_->problem);
  const Effort of_posting = posting_effort(pass_->problem);
  const std::int64_t share = std::clamp<std::int64_t>(effort / of_node, 1, input.work.count());
  const cp::SearchOutcome outcome = pass_->search.advance(std::min(share, pass_->node_limit - before));
  if (outcome.sequence) {
    Solution found = make_solution(input.instance, *outcome.sequence);
    if (better(input.instance, found, input.incumbent)) result.solution = std::move(found);
  }
  if (outcome.complete) {
    // Everything below the cutoff, or below what was found on the way, has been looked at.
    const Duration proved = outcome.sequence ? std::min(outcome.extra, below) : below;
    result.infeasible = proved == Duration::max();
    if (!result.infeasible) result.lower_bound = std::max(result.lower_bound, proved);
    pass_.reset();
    width_ *= kWidthGrowth;
    gap_part_ = std::min(1.0, gap_part_ * kWidthGrowth);
  } else if (outcome.nodes >= pass_->node_limit) {
    const bool unlimited = pass_->below == Duration::max();
    pass_.reset();
    give_up_pass(feasible, unlimited);
  }
  result.work += Work(outcome.nodes - before);
  return of_posting + (outcome.nodes - before) * of_node;
}

/// A pass ran out of nodes. With a schedule in hand it aimed at too high a bound: try a lower cutoff, and after a few
/// of those only the last proof is left. Without one the cutoff was too low to find any: try a higher one, and beyond
/// all cutoffs begin again. Either way work harder.
void CompleteWorker::give_up_pass(bool feasible, bool unlimited) {
  pass_nodes_ += pass_nodes_ / 4;
  if (!feasible) {
    width_ = unlimited ? kFirstWidth : width_ * kWidthGrowth;
  } else {
    gap_part_ = ++given_up_ > kPassesGivenUp ? 1.0 : gap_part_ * kGapPartShrinkage;
  }
}

namespace {

/// A schedule under change, searched neighbourhood by neighbourhood until the round's effort is spent.
class Walk {
 public:
  explicit Walk(const RoundInput& input)
      : input_(input), current_(input.incumbent), view_(input.instance, current_.computes(input.instance)) {}

  [[nodiscard]] bool over() const { return effort_ >= input_.effort || left() < 1 || input_.interrupted(); }
  /// So many nodes.
  [[nodiscard]] std::int64_t left() const { return (input_.work - work_).count(); }
  [[nodiscard]] const Solution& current() const { return current_; }
  [[nodiscard]] const ScheduleView& view() const { return view_; }

  /// Searches with these ops free; takes over what it finds.
  cp::SearchOutcome search(const std::vector<OpId>& free, const cp::Limits& limits, const cp::Inferences& inferences,
                           cp::SearchSettings settings, RoundResult& result) {
    // Where ops read millions of tensors, the problem and its root take a tenth of a second each.
    if (input_.interrupted()) return {};
    const cp::RetentionProblem problem(input_.instance, view_.runs(), free, limits, inferences);
    if (input_.interrupted()) return {};
    // A round waits for all: where nodes take long, there are fewer.
    settings.node_limit = std::min<std::int64_t>(settings.node_limit, 1 + kRoundEffort / node_effort(problem));
    auto outcome = cp::solve_retention(problem, settings);
    work_ += Work(std::max<std::int64_t>(1, outcome.nodes));
    result.work = work_;
    effort_ += posting_effort(problem) + (outcome.nodes + 1) * node_effort(problem);
    if (!outcome.sequence) return outcome;
    current_ = make_solution(input_.instance, *outcome.sequence);
    view_ = ScheduleView(input_.instance, current_.computes(input_.instance));
    result.solution = current_;
    return outcome;
  }

 private:
  const RoundInput& input_;
  Solution current_;
  ScheduleView view_;
  Effort effort_ = 0;
  Work work_{};
};

/// So many ops a neighbourhood frees at first.
constexpr int kFirstFreeOps = 24;

cp::SearchSettings settings_of(const RoundInput& input, std::int64_t node_limit, Random& random) {
  cp::SearchSettings settings;
  settings.node_limit = node_limit;
  settings.follow_incumbent = random.below(2) == 0;
  settings.seed = random.next();
  settings.interrupted = input.interrupted;
  return settings;
}

}  // namespace

PeakWorker::PeakWorker(const SolveOptions& options, std::uint64_t seed)
    : inferences_(inferences_of(options)),
      node_limit_(options.neighbourhood_nodes),
      random_(seed),
      size_(kFirstFreeOps) {}

RoundResult PeakWorker::run(const RoundInput& input) {
  constexpr double kMinStride = 1.0 / 256;
  constexpr double kSizeGrowth = 1.1;
  constexpr double kMinSize = 8;
  constexpr double kMinMargin = 1e-4;
  constexpr double kMaxMargin = 16;
  RoundResult result;
  const Bytes budget = input.instance.budget();
  for (Walk walk(input); walk.current().peak > budget && !walk.over();) {
    const auto way = static_cast<double>((walk.current().peak - budget).count());
    const auto step = std::max<std::int64_t>(1, static_cast<std::int64_t>(way * stride_));
    const Bytes target = std::max(budget, walk.current().peak - Bytes(step));
    const auto free_ops = relax_above(walk.view(), target, static_cast<int>(size_), random_, input.interrupted);
    const auto baseline = static_cast<double>(input.instance.baseline_duration().count());
    const Duration below = walk.current().extra + Duration(1 + static_cast<std::int64_t>(margin_ * baseline));
    cp::SearchSettings settings = settings_of(input, std::min(node_limit_, walk.left()), random_);
    settings.first_only = true;
    settings.noise = 0.4;
    const auto outcome = walk.search(free_ops, {target, below}, inferences_, settings, result);
    if (outcome.sequence) {
      margin_ = std::max(kMinMargin, margin_ * 0.9);
      stride_ = std::min(1.0, stride_ * 1.5);
      continue;
    }
    stride_ = std::max(kMinStride, stride_ * 0.7);
    if (outcome.complete) {
      margin_ = std::min(kMaxMargin, margin_ * 1.3);
      size_ = std::min(size_ * kSizeGrowth, static_cast<double>(input.instance.op_count()));
    } else {
      size_ = std::max(kMinSize, size_ / kSizeGrowth);
    }
  }
  return result;
}

NeighbourhoodWorker::NeighbourhoodWorker(const SolveOptions& options, std::uint64_t seed)
    : inferences_(inferences_of(options)), node_limit_(options.neighbourhood_nodes), random_(seed) {
  for (Arm& arm : arms_) arm.size = kFirstFreeOps;
}

void NeighbourhoodWorker::learn(Arm& arm, bool improved, bool complete, int op_count) const {
  constexpr double kLowestWeight = 0.1;
  constexpr double kForgetting = 0.98;
  constexpr double kReward = 0.5;
  constexpr double kGrowth = 1.05;
  constexpr double kShrinkage = 0.97;
  constexpr double kMinSize = 4;
  arm.weight = std::max(kLowestWeight, arm.weight * kForgetting + (improved ? kReward : 0.0));
  // Exhausted in vain: too small to hold an improvement. Out of nodes: too large to be searched.
  if (!improved) arm.size *= complete ? kGrowth : kShrinkage;
  arm.size = std::clamp(arm.size, kMinSize, std::max(kMinSize, static_cast<double>(op_count)));
}

namespace {

/// Ops that the period relaxation's linear program leaves open, or recomputes where the incumbent does not, or the
/// other way round (Danna et al. 2005: relaxation induced neighborhoods). Ascending.
std::vector<OpId> disputed_ops(const RoundInput& input) {
  const RoundedSolution& rounded = input.cover.rounded;
  if (rounded.plans.empty()) return {};
  Table<OpId, bool> disputed(input.instance.op_count());
  for (const Recompute& recompute : rounded.plans.front()) disputed[recompute.op] = true;
  for (const Recompute& recompute : input.incumbent.plan()) disputed[recompute.op] = !disputed[recompute.op];
  for (const OpId op : rounded.undecided) disputed[op] = true;
  std::vector<OpId> ops;
  for (const OpId op : disputed.ids()) {
    if (disputed[op] && has_decision(input.instance, op)) ops.push_back(op);
  }
  return ops;
}

}  // namespace

RoundResult NeighbourhoodWorker::run(const RoundInput& input) {
  RoundResult result;
  const std::vector<OpId> disputed = disputed_ops(input);
  const auto weight_of = [&](std::size_t i) {
    return kRelaxations[i] == Relaxation::disputed && disputed.empty() ? 0.0 : arms_[i].weight;
  };
  auto bans = bans_below(input.instance, input.cover, input.incumbent.extra);
  for (Walk walk(input); walk.current().extra > input.lower_bound && !walk.over();) {
    const std::size_t chosen = draw_weighted(arms_.size(), random_, weight_of);
    Arm& arm = arms_[chosen];
    const auto free_ops = relax(walk.view(), kRelaxations[chosen], static_cast<int>(arm.size), random_, disputed);
    cp::SearchSettings settings = settings_of(input, std::min(node_limit_, walk.left()), random_);
    settings.noise = 0.2;
    const auto outcome =
        walk.search(free_ops, {input.instance.budget(), walk.current().extra, bans}, inferences_, settings, result);
    learn(arm, outcome.sequence.has_value(), outcome.complete, input.instance.op_count());
    if (outcome.sequence) bans = bans_below(input.instance, input.cover, walk.current().extra);
  }
  return result;
}

}  // namespace remora
