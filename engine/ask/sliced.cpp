// SPDX-License-Identifier: Apache-2.0
#include "engine/ask/sliced.hpp"

#include <algorithm>
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
constexpr double kChoiceShare = 0.2;
constexpr double kCandidatesShare = 0.4;

/// Limits of the choice for the smallest budget, and how many of its slicings are searched.
constexpr Limits kSmallestChoice{.seconds = 1, .work = Work(400)};
constexpr std::size_t kMostToReach = 4;
/// Larger graphs are only looked at in the input order.
constexpr std::size_t kMaxOpsToReach = 4'000;

std::vector<Slicing> smallest_slicings(const Request& request, const std::atomic<bool>* cancel) {
  Allowance choosing(limits_of(short_options(request.options, kSmallestChoice)), cancel);
  return choose_slices(*request.graph, Bytes(), request.slices.run, choosing);
}

/// The smallest budget in these slices that a short search reaches.
BudgetBracket least_budget_in(const Slicing& slicing, const Request& request, const std::atomic<bool>* cancel) {
  const int computes = request.max_computes.value_or(default_computes(request.options.strategy));
  const Instance instance(slicing.graph(), {.max_computes = computes});
  std::optional<BudgetBracket> bracket;
  const bool is_small = slicing.sliced->ops.size() <= kMaxOpsToReach;
  if (is_small && is_search(request.options.strategy)) bracket = short_least_budget(instance, request, cancel);
  if (bracket) return *std::move(bracket);
  return {slicing.figures.lower_bound, slicing.figures.peak, input_order(instance), computes};
}

/// A graph that may be the answer's, and its best schedule so far.
struct Candidate {
  Slicing slicing{};
  std::shared_ptr<const Graph> graph{};
  Answer answer{};

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
    Candidate best{.graph = request_.graph};
    if (!asked_.regions.empty())
      return of_asked(candidate_of(slice_as_asked(*request_.graph, asked_.regions, request_.budget, asked_.run)));
    search(best, allowance_.share(kWholeShare), {.cancel = callbacks_.cancel});
    const Answer whole = best.answer;
    if (!is_decided(best)) {
      std::vector<Candidate> all = candidates();
      const Limits limits = allowance_.share(kCandidatesShare);
      const double part = 1.0 / static_cast<double>(std::max<std::size_t>(1, all.size()));
      // The shortest first: one that takes longer than a schedule without any recomputation cannot be better.
      for (Candidate& candidate : all) {
        const Duration least = candidate.slicing.figures.duration;
        if (best.has_schedule() && least >= best.answer.schedule.duration) continue;
        search(candidate, limits.part(part), {.cancel = callbacks_.cancel});
        if (is_better(candidate, best)) best = std::move(candidate);
      }
      if (!best.has_schedule() && !all.empty()) best = std::move(*std::ranges::min_element(all, is_nearer));
      Sequence start;
      if (!best.has_schedule()) start = reach(best);
      if (best.answer.schedule.status != Status::optimal) search(best, allowance_.left(), callbacks_, std::move(start));
    }
    if (!best.has_schedule()) {
      best.slicing = {};
      best.graph = request_.graph;
      best.answer = whole;
    }
    return answer(std::move(best), whole);
  }

 private:
  SlicedAnswer of_asked(Candidate asked) {
    Candidate whole{.graph = request_.graph};
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
    return {std::move(found.slicing), std::move(found.graph), std::move(found.answer), whole, std::move(reach_)};
  }

  static Candidate candidate_of(Slicing slicing) {
    auto graph = slicing.graph();
    return {.slicing = std::move(slicing), .graph = std::move(graph)};
  }

  /// The budget that a refusal calls enough has a schedule: it becomes where the search begins.
  Sequence reach(Candidate& best) {
    reach_ = reach_with_slices(request_, callbacks_.cancel);
    if (!reach_ || reach_->bracket.reached > request_.budget) return {};
    best = candidate_of(reach_->slicing);
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
    const auto add = [&](Slicing&& slicing) {
      if (slicing.regions.empty() || slicing.figures.lower_bound > request_.budget) return;
      result.push_back(candidate_of(std::move(slicing)));
    };
    for (Slicing& slicing : choose_slices(*request_.graph, request_.budget, asked_.run, choosing)) {
      for (Slicing& milder : slicing.milder) add(std::move(milder));
      slicing.milder.clear();
      add(std::move(slicing));
    }
    std::ranges::stable_sort(result, {}, [](const Candidate& one) { return one.slicing.figures.duration; });
    allowance_.spend(choosing.spent());
    return result;
  }

  /// From the candidate's schedule, which stays where no shorter one is found, or else from `start`.
  void search(Candidate& candidate, const Limits& limits, const SolveCallbacks& callbacks, Sequence start = {}) {
    Request request = request_;
    request.slices.is_allowed = false;
    request.graph = candidate.graph;
    request.options = within(request_.options, limits);
    request.warm_start = candidate.has_schedule() ? ops_of(candidate.answer.schedule) : std::move(start);
    const bool is_sliced = !candidate.slicing.regions.empty();
    Answer answer = solve_whole(request, callbacks, !is_sliced || !asked_.regions.empty());
    allowance_.spend(Work(answer.schedule.solver.work));
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
  if (request.modes != nullptr) reject("modes");
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
  schedule.slices = {.regions = with_effects(*request.graph, sliced.slicing.regions, run),
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
    SlicedGraph sliced = slice(graph, regions, slices.run);
    const std::vector<NamedRegion> named = with_effects(graph, regions, slices.run);
    for (std::size_t i = 0; i < named.size(); ++i) {
      if (named[i] == slices.regions[i]) continue;
      throw InputError("regions[" + std::to_string(i) + "]",
                       "saves and costs are not those of the region: its peak is lower by " +
                           std::to_string(named[i].saved_peak.count()) + ", the minimum by " +
                           std::to_string(named[i].saved_minimum.count()) + ", and it costs " +
                           std::to_string(named[i].cost.count()));
    }
    return sliced;
  } catch (const InputError& error) {
    throw InputError("$.slices" + (error.place().empty() ? "" : "." + error.place()), error.fault(), error.kind());
  }
}

Slicing find_slices(const Request& request, const std::atomic<bool>* cancel) {
  check_sliceable(request);
  const SliceRequest& asked = request.slices;
  if (!asked.regions.empty()) return slice_as_asked(*request.graph, asked.regions, Bytes(), asked.run);
  return smallest_slicings(request, cancel).front();
}

std::optional<SlicedReach> reach_with_slices(const Request& request, const std::atomic<bool>* cancel) {
  const bool has_axes = std::ranges::any_of(request.graph->ops, [](const Op& op) { return !op.axes.empty(); });
  if (!has_axes || request.modes != nullptr || request.alignment) return std::nullopt;
  std::optional<SlicedReach> best;
  const auto look = [&](const Slicing& slicing) {
    if (slicing.regions.empty() || (best && slicing.figures.lower_bound >= best->bracket.reached)) return false;
    BudgetBracket bracket = least_budget_in(slicing, request, cancel);
    if (best && bracket.reached >= best->bracket.reached) return false;
    best = {slicing, std::move(bracket)};
    return true;
  };
  std::vector<Slicing> found = smallest_slicings(request, cancel);
  if (found.size() > kMostToReach) found.resize(kMostToReach);
  for (const Slicing& slicing : found) look(slicing);
  if (!best) return best;
  // A search may do better with fewer slices, though the bound is higher.
  const std::vector<Slicing> milder = std::move(best->slicing.milder);
  for (const Slicing& slicing : milder) {
    if (!look(slicing) && slicing.regions != milder.front().regions) break;
  }
  return best;
}

}  // namespace remora
