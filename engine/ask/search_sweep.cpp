// SPDX-License-Identifier: Apache-2.0
#include "engine/ask/search_sweep.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/ask/problem.hpp"
#include "engine/base/work.hpp"
#include "engine/groups/hierarchical.hpp"
#include "engine/search/local/local_search.hpp"
#include "engine/search/workers/crew.hpp"
#include "model/random.hpp"

namespace remora {
namespace {

/// Workers of graphs up to this size stay for the next session. Twenty budgets' workers on a larger one would fill the
/// memory that one search needs twenty times over.
constexpr int kMaxOpsToKeepWorkers = 5000;

/// A plan is made to fit in so many full rounds of a worker at most.
constexpr Effort kMaxEffortToFit = 2 * kRoundEffort;

/// The first session's seed is the user's own; the others' must not meet those of the user's other runs: 1, 2, 3.
std::int64_t seed_of_session(std::int64_t seed, int session) {
  constexpr std::uint64_t kStep = 1'000'003;
  const std::uint64_t sum = static_cast<std::uint64_t>(seed) + kStep * static_cast<std::uint64_t>(session);
  return static_cast<std::int64_t>(sum & static_cast<std::uint64_t>(INT64_MAX));
}

}  // namespace

Probe::Probe(const Instance& instance, Bytes budget, const SolveOptions& options, std::function<const Groups*()> groups)
    : instance_(instance.with_budget(budget)),
      search_(
          instance_, options,
          {.crew = input_order_crew,
           .starts = {{When::after_bound, [this](Search&) { start_from_relaxation(); }},
                      {When::after_bound, [this, groups = std::move(groups)](Search&) { start_from_shared(groups); }}},
           .proves = true}),
      found_under_(budget) {}

std::optional<Duration> Probe::gap() const {
  if (!search_.holds_budget()) return std::nullopt;
  return std::max(Duration(0), search_.incumbent().extra - search_.lower_bound());
}

void Probe::learn(const Probe& other) {
  if (search_.offer(other.search_.incumbent(), Source::another_budget)) found_under_ = other.found_under_;
  if (other.budget() < budget()) return;
  search_.raise_bound(other.search_.lower_bound());
  // A problem that is infeasible with the larger budget is infeasible with this one.
  if (other.search_.infeasible() && !search_.infeasible()) search_.prove_infeasible(other.search_.certificate());
}

/// A neighbour's plan that holds the budget goes before the relaxation's, which need not, but costs least.
void Probe::start_from_relaxation() {
  if (!search_.options().covering_start || search_.cover().given_up.empty()) return;
  fit(suggested_plan(instance_, search_.cover()), Source::relaxation, search_.deadline());
}

/// Groups are found for all budgets: their time is not this one's.
void Probe::start_from_shared(const std::function<const Groups*()>& groups) {
  const double before = search_.elapsed();
  const Groups* found = groups();
  search_.exclude_seconds(search_.elapsed() - before);
  if (found != nullptr) start_from_groups(search_, *found);
}

/// Makes a plan, of another budget perhaps, fit this one: recomputes are added until the budget holds, then those that
/// it does not need are taken out. Stops early where the session does.
void Probe::fit(const RecomputePlan& plan, Source source, const Deadline& deadline) {
  if (is_decided() || deadline.reached() || search_.work() >= end_) return;
  PlanMoves moves(instance_, plan);
  const PlanEvaluator& state = moves.state();
  const Effort begin = state.effort();
  const Effort end = begin + std::min(kMaxEffortToFit, effort_of(end_ - search_.work()));
  const std::function<bool()> over = [&] { return state.effort() >= end || deadline.reached(); };
  Random random(static_cast<std::uint64_t>(seed_of_session(search_.options().seed, sessions_)));
  Repair repair(moves, random);
  if (state.overflow() > Bytes(0)) repair.run({.effort_limit = end, .interrupted = over});
  if (state.overflow() == Bytes(0)) repair.prune(over);
  search_.add_work(work_of(state.effort() - begin));
  search_.offer(make_solution(instance_, state.plan()), source);
}

void Probe::run_session(const Limits& limits, const std::atomic<bool>* cancel,
                        std::span<const Probe* const> neighbours) {
  const double used = search_.elapsed();
  const Deadline deadline(used + limits.seconds, cancel, used);
  end_ = plus(search_.work(), limits.work);
  const Solution before = search_.incumbent();
  for (const Probe* neighbour : neighbours) {
    if (has_plans(instance_)) fit(neighbour->search_.incumbent().plan(), Source::another_budget, deadline);
  }
  search_.set_seed(seed_of_session(search_.options().seed, sessions_));
  search_.run_session({deadline, end_});
  if (is_decided() || instance_.op_count() > kMaxOpsToKeepWorkers) search_.clear_workers();
  if (better(instance_, search_.incumbent(), before)) found_under_ = budget();
  ++sessions_;
}

CurvePoint Probe::point() const {
  CurvePoint point{.budget = budget(),
                   .status = search_.infeasible() ? Status::infeasible : Status::unknown,
                   .lower_bound = instance_.baseline_duration() + search_.lower_bound(),
                   .seconds = search_.elapsed()};
  if (!search_.holds_budget()) return point;
  point.duration = instance_.baseline_duration() + search_.incumbent().extra;
  point.status = point.duration <= point.lower_bound ? Status::optimal : Status::feasible;
  point.peak_memory = search_.incumbent().peak;
  point.found_under = found_under_;
  return point;
}

Schedule Probe::schedule() const {
  Schedule schedule = search_.answer();
  schedule.solver.reached_peak = search_.incumbent().peak;
  return schedule;
}

namespace {

/// The parts of the remaining limits for the first and the second pass over the budgets; the third takes the rest.
/// Measured in benchmarks/README.md.
constexpr double kFirstPass = 0.4;
constexpr double kSecondPass = 0.5;
/// Minimum weight of a budget in a pass, and weight of one without a schedule, as parts of the largest gap.
constexpr double kMinSweepWeight = 0.05;
constexpr double kUnknownWeight = 0.5;
/// Where the first bound takes more than this part of a session, other budgets do without CBC.
constexpr double kMaxBoundShare = 0.2;
/// Groups get the time and the work that a solve of so large a part of the limits would give them.
constexpr double kGroupShare = 0.4;

class SearchSweep {
 public:
  SearchSweep(const SweepInput& input, BudgetChoice choice)
      : instance_(input.instance),
        options_(input.options),
        choice_(std::move(choice)),
        callbacks_(input.callbacks),
        allowance_(input.allowance),
        count_(choice_.left()) {}

  std::vector<Outcome> run() {
    visit_all_once();
    bool ascending = true;
    revisit(kSecondPass, ascending);
    // Another pass uses what is left after budgets were proved optimal or infeasible.
    for (Work before(-1); allowance_.spent() > before && !allowance_.is_over() && !open_probes().empty();) {
      ascending = !ascending;
      before = allowance_.spent();
      revisit(1.0, ascending);
    }
    std::vector<Outcome> outcomes;
    outcomes.reserve(probes_.size());
    for (const auto& [budget, probe] : probes_) outcomes.push_back({probe.point(), probe.schedule()});
    return outcomes;
  }

 private:
  /// Found when a search first needs a start; null if the strategy wants none.
  const Groups* groups() {
    if (groups_ || !wants_groups(instance_, options_)) return groups_ ? &*groups_ : nullptr;
    groups_ = find_groups(instance_, within(options_, allowance_.limits().part(kGroupShare)), allowance_.deadline(),
                          callbacks_.blocks);
    allowance_.spend(groups_->work);
    return &*groups_;
  }

  /// The first pass, which finds out which budgets there are. A listed one gets its point also where time is over, and
  /// so does the first.
  void visit_all_once() {
    const Limits reserved = allowance_.left().part(1 - kFirstPass);
    SolveOptions options = within(options_, allowance_.limits().part(1.0 / static_cast<double>(count_)));
    while (choice_.is_listed() || probes_.empty() || !allowance_.is_over()) {
      const std::optional<Bytes> budget = choice_.next(points(), reached_);
      if (!budget) return;
      Probe& probe =
          probes_.try_emplace(*budget, instance_, *budget, options, [this] { return groups(); }).first->second;
      for (const auto& [other_budget, other] : probes_) {
        if (&other != &probe) probe.learn(other);
      }
      const double part = 1.0 / static_cast<double>(choice_.left() + 1);
      if (probe.is_decided() || allowance_.is_over()) {
        report(probe);
      } else {
        const Limits limits = allowance_.share(part, reserved);
        run_session(probe, limits);
        // On large graphs CBC overruns its time; one budget's experience serves the others.
        const bool dear = probe.search().bound_seconds() > kMaxBoundShare * limits.seconds;
        if (dear && !allowance_.counts_work() && options.covering == Covering::on) options.covering = Covering::lp;
      }
    }
  }

  [[nodiscard]] std::vector<Probe*> open_probes() {
    std::vector<Probe*> open;
    for (auto& [budget, probe] : probes_) {
      if (!probe.is_decided()) open.push_back(&probe);
    }
    return open;
  }

  /// Another pass, over what is not settled; who has more to gain gets more.
  void revisit(double part, bool ascending) {
    std::vector<Probe*> open = open_probes();
    if (!ascending) std::reverse(open.begin(), open.end());
    const Limits reserved = allowance_.left().part(1 - part);
    for (std::size_t i = 0; i < open.size() && !allowance_.is_over(); ++i) {
      if (open[i]->is_decided()) continue;
      const double weight = weight_of_first({open.begin() + static_cast<std::ptrdiff_t>(i), open.end()});
      run_session(*open[i], allowance_.share(weight, reserved));
    }
  }

  /// The first one's part of all that there is to gain; more than nothing, and a fair share where it has no schedule.
  static double weight_of_first(const std::vector<Probe*>& open) {
    double most = 1;
    for (const Probe* probe : open)
      most = std::max(most, static_cast<double>(probe->gap().value_or(Duration(0)).count()));
    const auto weight = [most](const Probe& probe) {
      const double gap = probe.gap() ? static_cast<double>(probe.gap()->count()) : kUnknownWeight * most;
      return probe.is_decided() ? 0 : gap + kMinSweepWeight * most;
    };
    double sum = 0;
    for (const Probe* probe : open) sum += weight(*probe);
    return weight(*open.front()) / sum;
  }

  void run_session(Probe& probe, const Limits& limits) {
    const Work before = probe.search().work();
    std::vector<const Probe*> neighbours;
    const auto here = probes_.find(probe.budget());
    if (here != probes_.begin()) neighbours.push_back(&std::prev(here)->second);
    if (std::next(here) != probes_.end()) neighbours.push_back(&std::next(here)->second);
    probe.run_session(limits, callbacks_.cancel, neighbours);
    allowance_.spend(probe.search().work() - before);
    reached_ = std::min(reached_, probe.search().incumbent().peak);
    for (auto& [budget, other] : probes_) {
      if (&other != &probe) other.learn(probe);
    }
    report(probe);
  }

  void report(const Probe& probe) const {
    if (!callbacks_.progress) return;
    const CurvePoint point = probe.point();
    const auto settled =
        std::count_if(probes_.begin(), probes_.end(), [](const auto& entry) { return entry.second.is_decided(); });
    callbacks_.progress({.seconds = allowance_.elapsed(),
                         .budget = point.budget,
                         .status = point.status,
                         .duration = point.duration,
                         .peak = probe.search().incumbent().peak,
                         .lower_bound = point.lower_bound,
                         .points = static_cast<int>(probes_.size()),
                         .settled = static_cast<int>(settled)});
  }

  [[nodiscard]] std::vector<CurvePoint> points() const {
    std::vector<CurvePoint> points;
    points.reserve(probes_.size());
    for (const auto& [budget, probe] : probes_) points.push_back(probe.point());
    return points;
  }

  const Instance& instance_;
  const SolveOptions& options_;
  BudgetChoice choice_;
  const SweepCallbacks& callbacks_;
  Allowance& allowance_;
  std::size_t count_;
  std::map<Bytes, Probe> probes_;
  std::optional<Groups> groups_;
  Bytes reached_ = Bytes::max();
};

}  // namespace

std::vector<Outcome> sweep_by_search(const SweepInput& input, BudgetChoice choice) {
  return SearchSweep(input, std::move(choice)).run();
}

}  // namespace remora
