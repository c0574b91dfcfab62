// SPDX-License-Identifier: Apache-2.0
#include "engine/ask/sizes.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "engine/ask/problem.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/instance.hpp"

namespace remora {
namespace {

bool has_same_form(const Op& a, const Op& b) {
  const auto form = [](const Op& op) {
    return std::tie(op.type, op.inputs, op.outputs, op.recompute, op.max_computes, op.phase, op.backward_of, op.after,
                    op.in_place);
  };
  return form(a) == form(b) && !a.modes && !b.modes;
}

/// So many times as many schedules as may be chosen are planned to choose from.
constexpr std::size_t kPlanned = 2;

/// One schedule: its runs, how many of the sizes it serves, and the size that it was planned for, if it was.
struct SizedCandidate {
  std::vector<Compute> runs{};
  std::size_t reach = 0;
  std::optional<Schedule> planned{};
  std::size_t at = 0;
};

double units(Duration duration) {
  return static_cast<double>(duration.count());
}

/// True if no schedule needs less memory on the second graph: each amount of it is at least that of the first.
bool takes_more(const Graph& small, const Graph& large) {
  const auto grows = [](Bytes a, Bytes b) { return a <= b; };
  return small.fixed_memory <= large.fixed_memory &&
         std::ranges::equal(small.tensors, large.tensors, grows, &Tensor::size, &Tensor::size) &&
         std::ranges::equal(small.ops, large.ops, grows, &Op::workspace, &Op::workspace);
}

/// The least factor by which what is recomputed takes longer on the second graph.
double least_ratio(const Graph& small, const Graph& large) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < small.ops.size(); ++i) {
    const double before = units(small.ops[i].duration);
    if (small.ops[i].recompute && before > 0) least = std::min(least, units(large.ops[i].duration) / before);
  }
  return least == std::numeric_limits<double>::infinity() ? 0 : least;
}

class SizesSolver {
 public:
  SizesSolver(const SizesRequest& asked, const std::atomic<bool>* cancel) : asked_(asked), cancel_(cancel) {
    if (asked.graphs.empty()) throw InputError("sizes", "there is none");
    for (const auto& graph : asked.graphs) {
      if (!are_alike(*graph, *asked.graphs.back()))
        throw InputError("sizes", "the graph has other ops at some sizes than at the largest: take narrower ranges");
    }
  }

  SizesAnswer run() {
    SizesAnswer answer{.operations = asked_.graphs.back()->ops.size()};
    const std::size_t sizes = asked_.graphs.size();
    const double time = asked_.request.options.time_limit;
    answer.largest = solve_at(sizes - 1, time / 2, {});
    if (!answer.largest.schedule.has_schedule()) return answer;
    add_instances(answer.largest.schedule);
    candidates_.push_back({computes_of(answer.largest.schedule), sizes, answer.largest.schedule, sizes - 1});
    const std::vector<Compute> plain = computes_of(input_order(instances_[0]));
    const std::size_t fitting = reach_of(plain, 0);
    if (fitting > 0) candidates_.push_back({plain, fitting, {}, 0});
    const std::size_t open = fitting < sizes ? sizes - 1 - fitting : 0;
    const std::size_t planned = std::min(open, kPlanned * static_cast<std::size_t>(asked_.most - 1));
    for (std::size_t k = planned; k-- > 0;) {
      const std::size_t i = fitting + open * k / planned;
      const Answer found = solve_at(i, time / 2 / static_cast<double>(planned), nearest_above(i));
      if (!found.schedule.has_schedule()) continue;
      const std::vector<Compute> runs = computes_of(found.schedule);
      candidates_.push_back({runs, reach_of(runs, i), found.schedule, i});
    }
    choose(answer);
    return answer;
  }

 private:
  Answer solve_at(std::size_t size, double seconds, const std::vector<Compute>& start) const {
    Request request = asked_.request;
    request.graph = asked_.graphs[size];
    request.options.time_limit = seconds;
    if (!start.empty()) request.warm_start = start;
    return solve(request, {.cancel = cancel_});
  }

  /// The problem of all is that of the largest size's schedule.
  void add_instances(const Schedule& largest) {
    const Problem problem{asked_.request.budget, largest.solver.max_computes, largest.order};
    for (const auto& graph : asked_.graphs) instances_.emplace_back(graph, problem);
  }

  /// How many of the sizes stay within the budget by these runs, which do at all before number `first`.
  [[nodiscard]] std::size_t reach_of(const std::vector<Compute>& runs, std::size_t first) const {
    std::size_t reach = first;
    while (reach < instances_.size() && evaluate(instances_[reach], runs).peak <= asked_.request.budget) ++reach;
    return reach;
  }

  /// The runs of the schedule that serves this size and the fewest others.
  [[nodiscard]] const std::vector<Compute>& nearest_above(std::size_t size) const {
    const SizedCandidate* nearest = &candidates_.front();
    for (const SizedCandidate& candidate : candidates_)
      if (candidate.reach > size && candidate.reach < nearest->reach) nearest = &candidate;
    return nearest->runs;
  }

  /// The schedule at a size, as it was planned or replayed there.
  [[nodiscard]] Schedule at(const SizedCandidate& candidate, std::size_t size) const {
    if (candidate.planned && size == candidate.at) return *candidate.planned;
    Schedule schedule = schedule_of(instances_[size], candidate.runs);
    schedule.budget = asked_.request.budget;
    if (candidate.planned) schedule.solver.max_computes = candidate.planned->solver.max_computes;
    if (schedule.peak_memory > schedule.budget)
      throw InputError("sizes", "a smaller size needs more memory than a larger one: take narrower ranges");
    expect_valid(instances_[size], schedule);
    return schedule;
  }

  void choose(SizesAnswer& answer) const {
    const std::size_t sizes = instances_.size();
    std::vector<double> bounds;
    for (const Instance& instance : instances_) bounds.push_back(units(instance.baseline_duration()));
    answer.baseline_duration = std::accumulate(bounds.begin(), bounds.end(), 0.0);
    std::vector<std::vector<double>> durations;
    std::vector<std::size_t> reach;
    for (const SizedCandidate& candidate : candidates_) {
      reach.push_back(candidate.reach);
      std::vector<double>& row = durations.emplace_back(sizes, 0.0);
      for (std::size_t i = 0; i < candidate.reach; ++i) row[i] = units(at(candidate, i).duration);
      if (candidate.planned)
        bounds[candidate.at] = std::max(bounds[candidate.at], units(candidate.planned->lower_bound));
    }
    carry_over(bounds);
    answer.lower_bound = std::accumulate(bounds.begin(), bounds.end(), 0.0);
    std::size_t first = 0;
    for (const std::size_t k : fewest_schedules(durations, reach, asked_.most)) {
      for (std::size_t i = first; i < reach[k]; ++i) answer.duration += durations[k][i];
      first = reach[k];
      answer.ranges.push_back({first - 1, at(candidates_[k], first - 1)});
    }
  }

  /// A proof for one size holds for the larger ones, too: a schedule that fits there fits here, and what it recomputes
  /// takes longer there by the least ratio of the ops.
  void carry_over(std::vector<double>& bounds) const {
    for (const SizedCandidate& candidate : candidates_) {
      if (!candidate.planned) continue;
      const Instance& small = instances_[candidate.at];
      const double extra = units(candidate.planned->lower_bound) - units(small.baseline_duration());
      for (std::size_t i = candidate.at + 1; i < instances_.size(); ++i) {
        const Instance& large = instances_[i];
        if (!takes_more(small.graph(), large.graph())) continue;
        const double carried = extra * least_ratio(small.graph(), large.graph());
        bounds[i] = std::max(bounds[i], units(large.baseline_duration()) + carried);
      }
    }
  }

  const SizesRequest& asked_;
  const std::atomic<bool>* cancel_;
  std::vector<Instance> instances_{};
  std::vector<SizedCandidate> candidates_{};
};

}  // namespace

bool are_alike(const Graph& a, const Graph& b) {
  const auto same_tensor = [](const Tensor& x, const Tensor& y) { return x.keep == y.keep; };
  const auto same_op = [](const Op& x, const Op& y) { return has_same_form(x, y); };
  return a.recompute_allocates == b.recompute_allocates && std::ranges::equal(a.tensors, b.tensors, same_tensor) &&
         std::ranges::equal(a.ops, b.ops, same_op);
}

std::vector<std::size_t> fewest_schedules(std::span<const std::vector<double>> durations,
                                          std::span<const std::size_t> reach, int most) {
  std::vector<std::size_t> order(reach.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t k) { return reach[k]; });
  const std::size_t sizes = *std::ranges::max_element(reach);
  const auto cost = [&](std::size_t k, std::size_t first) {
    double sum = 0;
    for (std::size_t i = first; i < reach[k]; ++i) sum += durations[k][i];
    return sum;
  };
  struct Way {
    double sum = std::numeric_limits<double>::infinity();
    std::vector<std::size_t> chosen{};
  };
  // Of the sizes that each schedule reaches, with that one last.
  std::vector<Way> best;
  best.reserve(order.size());
  for (const std::size_t k : order) best.push_back({cost(k, 0), {k}});
  for (int more = 1; more < most; ++more) {
    std::vector<Way> further = best;
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const double sum = best[j].sum + cost(order[i], reach[order[j]]);
        if (sum >= further[i].sum) continue;
        further[i] = {sum, best[j].chosen};
        further[i].chosen.push_back(order[i]);
      }
    }
    best = std::move(further);
  }
  Way found;
  for (std::size_t i = 0; i < order.size(); ++i)
    if (reach[order[i]] == sizes && best[i].sum < found.sum) found = best[i];
  return found.chosen;
}

SizesAnswer solve_sizes(const SizesRequest& asked, const std::atomic<bool>* cancel) {
  check_request(asked.request);
  return SizesSolver(asked, cancel).run();
}

}  // namespace remora
