// SPDX-License-Identifier: Apache-2.0
//
// Solves where copies run beside computing, and lanes beside each other.
//
// Which schedules there are does not change: one that holds the budgets one thing at a time holds them overlapped (model/devices/
// schedule.hpp). Only what they take does. So there are three parts:
//
//   sequential  For weights of the streams (lanes and links), no schedule's weighted load is above all weights times its
//               duration: no stream works for longer. A sequential solve of the graph with durations times weights thus gives a bound, and
//               a plan that spends what the weights call cheap. (The Lagrangian dual of "the duration is no less than any load"; Held,
//               Karp 1971.) Streams with much load in the best plan weigh more in the next round. Equal weights come first: copies
//               in sequence.
//   overlapped  Local search over plans, by their replay: copies change places, and all that the sequential one does.
//   complete    Where devices have lanes, small problems are searched over states (state_search.hpp), before all else and then by inner.
//
// Beside that the critical path is a bound: when something can be on a device at the earliest; and each lane's load by itself.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "engine/devices/sliced_search.hpp"
#include "engine/devices/state_search.hpp"
#include "model/error.hpp"

namespace remora::devices {
namespace {

/// The sum of the weights of all streams.
constexpr std::int64_t kWeights = 60;
/// How fast weights follow loads.
constexpr double kPace = 4;
/// The part of the remaining limits for either part of a round; at least this part of the whole.
constexpr double kShare = 0.12;
constexpr double kMinShare = 0.03;
/// Seconds; each turn may take twice as long.
constexpr double kFirstTurn = 20;
/// Nodes of the complete search before all else, and of what is left at most.
constexpr std::int64_t kFirstNodes = 4000;
constexpr double kFirstShare = 0.5;

/// By stream.
using Weights = std::vector<std::int64_t>;

std::int64_t sum_of(const Weights& weights) {
  std::int64_t sum = 0;
  for (const std::int64_t weight : weights) sum += weight;
  return sum;
}

/// All durations times their stream's weight; nothing where the sums are beyond 64 bits.
std::optional<DeviceGraph> weighted(const DeviceGraph& graph, const Weights& weights) {
  DeviceGraph result = graph;
  const StreamNumbers streams(graph);
  for (auto& runs : result.runs) {
    for (RunCost& run : runs) {
      if (run.duration.count() > kSaturated / kWeights) return std::nullopt;
      run.duration = Duration(run.duration.count() * weights[streams.of_run(run)]);
    }
  }
  for (const TensorId t : graph.places.ids()) {
    auto& copies = result.places[t].copies;
    copies.clear();
    for (const Link& link : graph.links) {
      CopyCost cost = *copy_cost(graph, t, link.from, link.to);
      if (cost.duration.count() > kSaturated / kWeights) return std::nullopt;
      cost.duration = Duration(cost.duration.count() * weights[streams.of_copy(link.from, link.to)]);
      copies.push_back({link.from, link.to, cost});
    }
  }
  try {
    validate(result);
  } catch (const InputError&) {
    return std::nullopt;
  }
  return result;
}

/// Weights 1 of lanes on which something runs, and `links` of links.
Weights plain_weights(const DeviceGraph& graph, std::int64_t links) {
  const StreamNumbers streams(graph);
  Weights weights(streams.size(), 0);
  for (const Link& link : graph.links) weights[streams.of_copy(link.from, link.to)] = links;
  for (const auto& runs : graph.runs) {
    for (const RunCost& run : runs) weights[streams.of_run(run)] = 1;
  }
  return weights;
}

/// When what an op writes, and what is brought, can be on a device at the earliest; of the last thing that must be.
class CriticalPath {
 public:
  explicit CriticalPath(const Instance& instance)
      : instance_(instance),
        graph_(instance.graph()),
        earliest_(graph_.graph.tensors.size() * graph_.devices.size(), kNoWay),
        ends_(instance.op_count(), kNoWay) {}

  std::int64_t length() {
    for (const TensorId t : graph_.places.ids()) {
      for (const DeviceId d : graph_.devices.ids()) {
        if (instance_.at_home(t, d)) earliest_[instance_.place(t, d)] = 0;
      }
      if (!instance_.producer(t).valid()) spread(t);
    }
    std::int64_t last = 0;
    for (const OpId v : graph_.runs.ids()) {
      for (const RunCost& run : graph_.runs[v]) {
        if (instance_.has_room(v, run)) add(v, run);
      }
      for (const TensorId t : instance_.op(v).outputs) spread(t);
      last = std::max(last, ends_[v] == kNoWay ? 0 : ends_[v]);
    }
    for (const TensorId t : graph_.places.ids()) {
      for (const DeviceId d : graph_.devices.ids()) {
        const std::int64_t there = earliest_[instance_.place(t, d)];
        if (instance_.kept_at(t, d) && there != kNoWay) last = std::max(last, there);
      }
    }
    return last;
  }

 private:
  void add(OpId v, const RunCost& run) {
    std::int64_t start = 0;
    for (const TensorId t : instance_.op(v).inputs) start = std::max(start, earliest_[instance_.place(t, run.device)]);
    for (const OpId w : instance_.op(v).after) start = std::max(start, ends_[w]);
    if (start == kNoWay) return;
    const std::int64_t end = start + run.duration.count();
    ends_[v] = std::min(ends_[v], end);
    for (const TensorId t : instance_.op(v).outputs) {
      std::int64_t& there = earliest_[instance_.place(t, run.device)];
      there = std::min(there, end);
    }
  }

  /// Over links.
  void spread(TensorId t) {
    for (std::size_t round = 1; round < graph_.devices.size(); ++round) {
      for (const Link& link : graph_.links) {
        const std::int64_t from = earliest_[instance_.place(t, link.from)];
        if (from == kNoWay) continue;
        std::int64_t& to = earliest_[instance_.place(t, link.to)];
        to = std::min(to, from + copy_cost(graph_, t, link.from, link.to)->duration.count());
      }
    }
  }

  const Instance& instance_;
  const DeviceGraph& graph_;
  /// By place, and by op.
  std::vector<std::int64_t> earliest_;
  Table<OpId, std::int64_t> ends_;
};

Problem in_sequence(Problem problem, std::int64_t weights) {
  problem.copies = CopyMode::sequential;
  if (problem.duration_limit) {
    problem.duration_limit = Duration(saturating_product(problem.duration_limit->count(), weights));
  }
  return problem;
}

/// The part of a sum that no stream's weight explains, rounded up.
std::int64_t per_weight(std::int64_t bound, std::int64_t weights) {
  return bound / weights + (bound % weights > 0 ? 1 : 0);
}

/// The largest work of a lane by itself, with no work for all other streams.
std::int64_t busiest_lane(const DeviceGraph& graph, const Problem& problem, const std::function<bool()>& interrupted) {
  const Weights lanes = plain_weights(graph, 0);
  std::int64_t most = 0;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i] == 0) continue;
    if (interrupted && interrupted()) break;
    Weights alone(lanes.size(), 0);
    alone[i] = 1;
    const std::optional<DeviceGraph> one = weighted(graph, alone);
    if (!one) continue;
    const Bound bound = bound_of(*one, in_sequence(problem, 1), interrupted);
    if (!bound.is_infeasible()) most = std::max(most, bound.least);
  }
  return most;
}

/// Without a search: the critical path, and lanes that share all runs evenly while copies take no time.
Bound overlap_bound(const DeviceGraph& graph, const Problem& problem, const std::function<bool()>& interrupted) {
  const Weights weights = plain_weights(graph, 0);
  const std::int64_t sum = sum_of(weights);
  const std::optional<DeviceGraph> free_copies = sum > 0 ? weighted(graph, weights) : std::nullopt;
  Bound bound =
      bound_of(free_copies ? *free_copies : graph, in_sequence(problem, free_copies ? sum : kSaturated), interrupted);
  if (problem.objective == Objective::energy) return bound;
  bound.least = free_copies ? per_weight(bound.least, sum) : 0;
  bound.least = std::max(bound.least, CriticalPath(Instance(graph, problem)).length());
  if (has_lanes(graph)) bound.least = std::max(bound.least, busiest_lane(graph, problem, interrupted));
  return bound;
}

class OverlappedSearch final : public SlicedSearch {
 public:
  OverlappedSearch(const DeviceGraph& graph, const Problem& problem, const Options& options, Bound bound, bool shares)
      : SlicedSearch(graph, problem, options, std::move(bound), shares && weighs(problem)),
        delegates_(shares),
        weights_(plain_weights(graph, 1)),
        pulls_(weights_.size(), 0.0) {
    if (!has_lanes(graph) || !weighs(problem) || is_infeasible() || !StateSearch::fits(graph, problem)) return;
    states_ = std::make_unique<StateSearch>(graph_, problem_, [this] { return slice_.reached() || !report_round(); });
  }

 protected:
  void search() override {
    const double share = weighs(problem_) ? kShare : 1;
    if (rounds_ == 0) search_states(limits(kFirstShare), kFirstNodes);
    while (!over() && !finished()) {
      solve_in_sequence(share);
      if (!weighs(problem_) || over() || finished()) return;
      search_states(limits(share));
      run_members();
      search_overlapped(share);
      weigh();
      run_members();
    }
  }

  [[nodiscard]] std::unique_ptr<Member> copies_alone(const Problem& once, const Options& options) const override {
    return overlapped_search(graph_, once, options, past_limit(options), false);
  }

 private:
  /// True if the duration of schedules matters.
  [[nodiscard]] static bool weighs(const Problem& problem) {
    return problem.objective == Objective::duration || problem.duration_limit.has_value();
  }

  /// The remaining limits for a part of a round.
  [[nodiscard]] Limits limits(double share) const {
    const Limits left = allowance_.left();
    // Without a limit that anybody waits for, inner grow.
    const double turn =
        share < 1 ? std::ldexp(kFirstTurn, static_cast<int>(std::min<std::uint64_t>(rounds_, 20))) : left.seconds;
    Limits part{std::min({left.seconds, std::max(share * left.seconds, kMinShare * options_.time_limit), turn}),
                left.work};
    if (!left.counts_work()) return part;
    const auto units = static_cast<double>(left.work.count());
    const double most = std::max(share * units, kMinShare * static_cast<double>(options_.work_limit));
    part.work = Work(static_cast<std::int64_t>(std::ceil(std::min(units, most))));
    return part;
  }

  void solve_in_sequence(double share) {
    const std::int64_t sum = std::max<std::int64_t>(1, sum_of(weights_));
    const std::optional<DeviceGraph> graph = weighted(graph_, weights_);
    if (!graph) return;
    const Limits part = limits(share);
    Options options = within(options_, part);
    options.seed = options_.seed + rounds_++;
    options.start = best_;
    options.reporter = nullptr;
    const auto inner = sequential_search(*graph, in_sequence(problem_, sum), options, past_limit(options),
                                         !weighs(problem_) && delegates_);
    inner->run_session(part);
    spend(std::max(Work(1), inner->work()).count());
    if (inner->is_infeasible()) {
      bound_.refusal = inner->bound().refusal;
      return;
    }
    const std::int64_t least = inner->bound().least;
    raise_bound(problem_.objective == Objective::duration ? per_weight(least, sum) : least, Source::relaxation);
    take(inner->steps(), Source::relaxation);
  }

  /// All there is, in the order of what it costs at least; at most so many nodes of it.
  void search_states(const Limits& part, std::int64_t nodes = kSaturated) {
    if (states_ == nullptr || over() || finished()) return;
    slice_ = Deadline(part.seconds, options_.cancel);
    states_->require_below(best_cost_);
    const CompleteOutcome& outcome = states_->advance(std::min(nodes, part.work.count()));
    spend(outcome.nodes - std::exchange(nodes_, outcome.nodes));
    if (outcome.steps && outcome.cost < best_cost_) take(*outcome.steps, Source::complete);
    raise_bound(std::min(outcome.least, best_cost_), Source::complete);
    if (outcome.complete) prove(Source::complete);
  }

  void search_overlapped(double share) {
    const Limits part = limits(share);
    slice_ = Deadline(part.seconds, options_.cancel);
    look_at(part.work.count());
  }

  /// Streams with much work in the best schedule get larger weights.
  void weigh() {
    if (best_cost_ == kNoWay) return;
    std::vector<double> loads(weights_.size(), 0.0);
    const StreamNumbers streams(graph_);
    for (const DeviceStep& step : best_) {
      if (step.is_copy()) {
        const Duration lasts = copy_cost(graph_, step.copied, step.device, step.to)->duration;
        loads[streams.of_copy(step.device, step.to)] += static_cast<double>(lasts.count());
      } else {
        const RunCost& run = *run_cost(graph_, step.op, step.device);
        loads[streams.of_run(run)] += static_cast<double>(run.duration.count());
      }
    }
    const double most = std::max(1.0, *std::max_element(loads.begin(), loads.end()));
    double all = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      pulls_[i] += kPace * (loads[i] / most - 1);
      if (weights_[i] > 0) all += std::exp(pulls_[i]);
    }
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (weights_[i] == 0) continue;
      const double part = std::exp(pulls_[i]) / all;
      weights_[i] = std::max<std::int64_t>(1, std::llround(static_cast<double>(kWeights) * part));
    }
  }

  bool delegates_;
  Weights weights_;
  /// Logarithms of what weights are made of.
  std::vector<double> pulls_;
  std::uint64_t rounds_ = 0;
  /// Null where the problem is too large for it, and without lanes.
  std::unique_ptr<StateSearch> states_;
  std::int64_t nodes_ = 0;
};

}  // namespace

std::unique_ptr<SlicedSearch> overlapped_search(const DeviceGraph& graph, const Problem& problem,
                                                const Options& options, const std::function<bool()>& interrupted,
                                                bool shares) {
  return std::make_unique<OverlappedSearch>(graph, problem, options, overlap_bound(graph, problem, interrupted),
                                            shares);
}

void describe_overlapped_baseline(const DeviceGraph& graph, const Problem& problem,
                                  const std::function<bool()>& interrupted, DeviceSchedule& schedule) {
  schedule.baseline_peak_memory.assign(graph.devices.size(), Bytes());
  Problem unlimited = problem;
  unlimited.budget.assign(graph.devices.size(), std::nullopt);
  const Bound bound = overlap_bound(graph, unlimited, interrupted);
  if (bound.is_infeasible()) return;
  schedule.baseline_cost = bound.least;
  unlimited.objective = Objective::duration;
  const bool fast = problem.objective == Objective::duration;
  schedule.baseline_duration = Duration(fast ? bound.least : overlap_bound(graph, unlimited, interrupted).least);
  const auto plan = plan_of(graph, problem, bound.assignment);
  if (!plan) return;
  const OverlappedTimes times = times_of(graph, unlimited, *plan, false);
  schedule.baseline_peak_memory = times.peak;
  schedule.baseline_is_exact = price(problem, times.duration, plan->evaluation.energy) == bound.least;
  if (schedule.baseline_is_exact) schedule.baseline_duration = times.duration;
}

}  // namespace remora::devices
