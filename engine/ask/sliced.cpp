// SPDX-License-Identifier: Apache-2.0
#include "engine/ask/sliced.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/ask/problem.hpp"
#include "engine/ask/short_search.hpp"
#include "engine/base/allowance.hpp"
#include "engine/baselines/method.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// Parts of what is left: for the graph as it is, for the choice, and for all candidates together.
constexpr double kWholeShare = 0.25;
constexpr double kChoiceShare = 0.25;
constexpr double kCandidatesShare = 0.4;

/// Limits of the search for the least memory in slices, where the request's own are not less, and the part of them for
/// the choice of slices.
constexpr Limits kReachLimits{.seconds = 16, .work = Work(40'000)};
constexpr double kReachChoiceShare = 0.4;
/// The part of the request's work that it may be.
constexpr double kReachShare = 0.3;
/// Larger graphs are only looked at in the input order.
constexpr std::size_t kMaxOpsToReach = 4'000;

/// They do not depend on the budget.
Limits limits_to_reach(const SolveOptions& options) {
  Limits limits = limits_of(short_options(options, kReachLimits));
  if (options.work_limit > 0)
    limits.work = std::max(Work(1), std::min(limits.work, part_of(Work(options.work_limit), kReachShare)));
  return limits;
}

std::vector<Slicing> smallest_slicings(const Request& request, Allowance& allowance) {
  Allowance choosing(allowance.share(kReachChoiceShare), allowance.deadline().cancel());
  std::vector<Slicing> found = choose_slices(*request.graph, Bytes(), request.slices.run, choosing);
  allowance.spend(choosing.spent());
  return found;
}

/// The least memory in slices that was seen, slicing by slicing: those that checkpoints bring lowest are searched
/// first.
class LeastInSlices {
 public:
  LeastInSlices(const Request& request, Allowance& allowance) : request_(request), allowance_(allowance) {}

  std::optional<SlicedReach> result() {
    const bool searches = is_search(request_.options.strategy);
    std::vector<SlicedReach> all;
    for (Slicing& slicing : all_of(smallest_slicings(request_, allowance_))) {
      if (slicing.sliced->ops.size() > kMaxOpsToReach && !all.empty()) continue;
      BudgetBracket bracket = first_bracket(slicing, searches);
      all.push_back({std::move(slicing), std::move(bracket)});
    }
    std::ranges::stable_sort(all, {}, [](const SlicedReach& one) { return one.bracket.reached; });
    std::optional<SlicedReach> best;
    for (SlicedReach& next : all) {
      if (best && next.slicing.figures.lower_bound >= best->bracket.reached) continue;
      if (searches && (!best || !allowance_.is_over())) search(next);
      if (!best || next.bracket.reached < best->bracket.reached) best = std::move(next);
    }
    return best;
  }

 private:
  [[nodiscard]] Instance instance_of(const Slicing& slicing, int computes) const {
    return {slicing.graph(), {.max_computes = computes}};
  }

  [[nodiscard]] int computes() const {
    return request_.max_computes.value_or(default_computes(request_.options.strategy));
  }

  /// By checkpoints between segments, or in the input order.
  BudgetBracket first_bracket(const Slicing& slicing, bool searches) {
    BudgetBracket bracket{slicing.figures.lower_bound, slicing.figures.peak,
                          input_order(instance_of(slicing, computes())), computes()};
    const bool applies = searches && is_whole_search(request_.options) && request_.options.segments &&
                         slicing.sliced->ops.size() <= kMaxOpsToReach && !allowance_.is_over();
    if (!applies) return bracket;
    const int most = request_.max_computes.value_or(kMaxComputes);
    const Instance deep = instance_of(slicing, most).with_budget(slicing.figures.lower_bound);
    Effort effort = 0;
    const Solution cut = short_checkpoints(deep, allowance_.deadline(), effort);
    allowance_.spend(work_of(effort));
    if (cut.peak >= bracket.reached) return bracket;
    return {bracket.proved, cut.peak, ops_of(cut.computes(deep)), most};
  }

  /// The smallest budget in these slices that a short search reaches.
  void search(SlicedReach& reach) {
    if (reach.slicing.sliced->ops.size() > kMaxOpsToReach) return;
    std::optional<BudgetBracket> found =
        short_least_budget(instance_of(reach.slicing, computes()), request_, allowance_);
    if (found && found->reached < reach.bracket.reached) reach.bracket = *std::move(found);
  }

  const Request& request_;
  Allowance& allowance_;
};

/// Slices that may be the answer's, none of the graph as it is, and the best schedule so far.
struct Candidate {
  Slicing slicing{};
  Answer answer{};
  /// The highest bound that was proved.
  Duration lower_bound{};

  [[nodiscard]] bool has_schedule() const { return answer.schedule.has_schedule(); }
};

class SlicedSolve {
 public:
  SlicedSolve(const Request& request, const SolveCallbacks& callbacks)
      : request_(request),
        asked_(request.slices),
        callbacks_(callbacks),
        allowance_(limits_of(request.options), callbacks.cancel) {}

  SlicedAnswer result() {
    Candidate best;
    if (!asked_.regions.empty())
      return of_asked({slice_as_asked(*request_.graph, asked_.regions, request_.budget, asked_.run)});
    search(best, allowance_.share(kWholeShare), {.cancel = callbacks_.cancel});
    const Answer whole = best.answer;
    if (!is_decided(best)) {
      compare(candidates(), best);
      Sequence start;
      if (!best.has_schedule()) start = reach(best);
      if (best.answer.schedule.status != Status::optimal) search(best, allowance_.left(), callbacks_, std::move(start));
    }
    if (!best.has_schedule()) {
      best.slicing = {};
      best.answer = whole;
    }
    return answer(std::move(best), whole);
  }

 private:
  SlicedAnswer of_asked(Candidate asked) {
    Candidate whole;
    search(whole, allowance_.share(kWholeShare), {.cancel = callbacks_.cancel});
    search(asked, allowance_.left(), callbacks_);
    return answer(std::move(asked), whole.answer);
  }

  SlicedAnswer answer(Candidate found, const Answer& whole) {
    SolverReport& report = found.answer.schedule.solver;
    report.seconds = allowance_.elapsed();
    report.work = allowance_.spent().count();
    report.time_limit = request_.options.time_limit;
    report.work_limit = request_.options.work_limit;
    std::shared_ptr<const Graph> graph = graph_of(found);
    return {std::move(found.slicing), std::move(graph), std::move(found.answer), whole, std::move(reach_)};
  }

  [[nodiscard]] std::shared_ptr<const Graph> graph_of(const Candidate& candidate) const {
    return candidate.slicing.sliced != nullptr ? candidate.slicing.graph() : request_.graph;
  }

  /// Rounds of short searches, of which each keeps the better half; the best schedule of all becomes `best`. Without
  /// any, the slices that are nearest to the budget do.
  void compare(std::vector<Candidate> all, Candidate& best) {
    const Limits limits = allowance_.share(kCandidatesShare);
    std::vector<Candidate> rest = all;
    const auto rounds = static_cast<double>(all.size() < 2 ? 1 : std::bit_width(all.size() - 1));
    while (!rest.empty()) {
      const double part = 1 / (rounds * static_cast<double>(rest.size()));
      for (Candidate& candidate : rest) {
        if (is_hopeless(candidate, best)) continue;
        search(candidate, limits.part(part), {.cancel = callbacks_.cancel});
        if (is_better(candidate, best)) best = candidate;
      }
      std::erase_if(rest, [&](const Candidate& candidate) { return is_hopeless(candidate, best); });
      std::ranges::stable_sort(rest, {}, [](const Candidate& candidate) { return prospect(candidate); });
      if (rest.size() <= 2) break;
      rest.resize((rest.size() + 1) / 2);
    }
    if (!best.has_schedule() && !all.empty()) best = std::move(*std::ranges::min_element(all, is_nearer));
  }

  /// True if no schedule in these slices is shorter, as far as is known. Nothing is without a recomputation.
  static bool is_hopeless(const Candidate& candidate, const Candidate& best) {
    return best.has_schedule() &&
           std::max(candidate.lower_bound, candidate.slicing.figures.duration) >= best.answer.schedule.duration;
  }

  /// Between what was found and what was proved: slices that a short search has not used yet have a lower bound.
  static std::pair<bool, Duration> prospect(const Candidate& candidate) {
    const Duration bound = candidate.lower_bound;
    if (!candidate.has_schedule()) return {true, bound};
    return {false, bound + Duration((candidate.answer.schedule.duration - bound).count() / 2)};
  }

  /// The budget that a refusal calls enough has a schedule: it becomes where the search begins.
  Sequence reach(Candidate& best) {
    Allowance reaching(limits_to_reach(request_.options), callbacks_.cancel);
    reach_ = reach_with_slices(request_, reaching);
    allowance_.spend(reaching.spent());
    if (!reach_ || reach_->bracket.reached > request_.budget) return {};
    best = {reach_->slicing};
    return reach_->bracket.sequence;
  }

  /// True if no slices can be better: nothing is recomputed.
  static bool is_decided(const Candidate& candidate) {
    const Schedule& schedule = candidate.answer.schedule;
    return schedule.has_schedule() && schedule.duration == schedule.baseline_duration &&
           candidate.slicing.regions.empty();
  }

  static bool is_better(const Candidate& a, const Candidate& b) {
    if (a.has_schedule() != b.has_schedule()) return a.has_schedule();
    return a.has_schedule() && a.answer.schedule.duration < b.answer.schedule.duration;
  }

  static bool is_nearer(const Candidate& a, const Candidate& b) {
    const SlicingFigures& x = a.slicing.figures;
    const SlicingFigures& y = b.slicing.figures;
    return std::tuple(x.lower_bound, x.peak) < std::tuple(y.lower_bound, y.peak);
  }

  std::vector<Candidate> candidates() {
    Allowance choosing(allowance_.share(kChoiceShare), callbacks_.cancel);
    std::vector<Candidate> result;
    for (Slicing& slicing : all_of(choose_slices(*request_.graph, request_.budget, asked_.run, choosing))) {
      if (slicing.figures.lower_bound <= request_.budget) result.push_back({std::move(slicing)});
    }
    // The shortest first: one that takes longer than a schedule without any recomputation cannot be better.
    std::ranges::stable_sort(result, {}, [](const Candidate& one) { return one.slicing.figures.duration; });
    allowance_.spend(choosing.spent());
    return result;
  }

  /// From the candidate's schedule, which stays where no shorter one is found, or else from `start`.
  void search(Candidate& candidate, const Limits& limits, const SolveCallbacks& callbacks, Sequence start = {}) {
    Request request = request_;
    request.slices.is_allowed = false;
    request.graph = graph_of(candidate);
    request.options = within(request_.options, limits);
    request.warm_start = candidate.has_schedule() ? ops_of(candidate.answer.schedule) : std::move(start);
    const bool is_sliced = !candidate.slicing.regions.empty();
    Answer answer = solve_whole(request, callbacks, !is_sliced || !asked_.regions.empty());
    allowance_.spend(Work(answer.schedule.solver.work));
    candidate.lower_bound = std::max(candidate.lower_bound, answer.schedule.lower_bound);
    const bool is_longer = candidate.has_schedule() && (!answer.schedule.has_schedule() ||
                                                        answer.schedule.duration > candidate.answer.schedule.duration);
    if (!is_longer) candidate.answer = std::move(answer);
  }

  const Request& request_;
  const SliceRequest& asked_;
  const SolveCallbacks& callbacks_;
  Allowance allowance_;
  std::optional<SlicedReach> reach_{};
};

}  // namespace

void check_sliceable(const Request& request) {
  const auto reject = [](const char* option) { throw InputError::of_option(option, "not with slices"); };
  if (request.graph) expect_one_mode(*request.graph, "a graph in slices");
  if (request.alignment) reject("addresses");
  if (!request.warm_start.empty()) reject("warm_start");
}

SlicedAnswer solve_sliced(const Request& request, const SolveCallbacks& callbacks) {
  check_sliceable(request);
  if (callbacks.incumbent) throw InputError::of_option("incumbent", "not with slices");
  return SlicedSolve(request, callbacks).result();
}

Answer answer_of(const Request& request, SlicedAnswer&& sliced) {
  Answer answer = std::move(sliced.answer);
  if (sliced.slicing.regions.empty()) return answer;
  answer.sliced = std::move(sliced.graph);
  const Instance whole(request.graph, {});
  Schedule& schedule = answer.schedule;
  schedule.baseline_duration = whole.baseline_duration();
  schedule.baseline_peak_memory = baseline_peak(whole);
  const Schedule& known = sliced.whole.schedule;
  const SliceRun& run = request.slices.run;
  schedule.slices = {.regions = with_effects(*request.graph, sliced.slicing.regions, run).regions,
                     .run = run,
                     .whole_status = known.status,
                     .whole_duration = known.has_schedule() ? known.duration : Duration(),
                     .whole_lower_bound = known.lower_bound,
                     .whole_max_computes = known.solver.bound_for_any_number ? 0 : known.solver.max_computes};
  return answer;
}

SlicedGraph graph_in_slices(const Graph& graph, const ScheduleSlices& slices) {
  try {
    const std::vector<Region> regions = regions_of(graph, slices.regions);
    auto [named, sliced] = with_effects(graph, regions, slices.run);
    for (std::size_t i = 0; i < named.size(); ++i) {
      if (named[i] == slices.regions[i]) continue;
      throw InputError("regions[" + std::to_string(i) + "]",
                       "saves and costs are not those of the region: its peak is lower by " +
                           std::to_string(named[i].saved_peak.count()) + ", the minimum by " +
                           std::to_string(named[i].saved_minimum.count()) + ", and it costs " +
                           std::to_string(named[i].cost.count()));
    }
    return std::move(sliced);
  } catch (const InputError& error) {
    throw InputError("$.slices" + (error.place().empty() ? "" : "." + error.place()), error.fault(), error.kind());
  }
}

Slicing find_slices(const Request& request, const std::atomic<bool>* cancel) {
  check_sliceable(request);
  const SliceRequest& asked = request.slices;
  if (!asked.regions.empty()) return slice_as_asked(*request.graph, asked.regions, Bytes(), asked.run);
  Allowance allowance(limits_to_reach(request.options), cancel);
  return smallest_slicings(request, allowance).front();
}

std::optional<SlicedReach> reach_with_slices(const Request& request, const std::atomic<bool>* cancel) {
  Allowance allowance(limits_to_reach(request.options), cancel);
  return reach_with_slices(request, allowance);
}

std::optional<SlicedReach> reach_with_slices(const Request& request, Allowance& allowance) {
  const bool has_axes = std::ranges::any_of(request.graph->ops, [](const Op& op) { return !op.axes.empty(); });
  if (!has_axes || has_modes(*request.graph) || request.alignment) return std::nullopt;
  return LeastInSlices(request, allowance).result();
}

}  // namespace remora
