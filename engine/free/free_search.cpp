// SPDX-License-Identifier: Apache-2.0
#include "engine/free/free_search.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/tasks.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/free/free_workers.hpp"
#include "engine/free/state_worker.hpp"
#include "engine/groups/hierarchical.hpp"
#include "engine/order/minimise_peak.hpp"
#include "engine/search/workers/crew.hpp"
#include "model/evaluate.hpp"
#include "model/graph.hpp"
#include "model/random.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// Every place in the sequence is a choice: complete search ends on much smaller graphs only than in input order. Up to
/// the second size it takes part in every round.
constexpr int kMaxOpsForComplete = 40;
constexpr int kMaxOpsForEveryRound = 12;

/// The order without recompute takes this part of the limits at most, one turn that part, and one that has to solve
/// groups of a large network first that part.
constexpr double kOrderShare = 0.15;
constexpr double kSliceShare = 0.025;
constexpr double kGroupsShare = 0.4;
constexpr double kMaxTurnSeconds = 5;
constexpr double kMinTurnSeconds = 0.02;
constexpr double kForgetting = 0.8;
constexpr double kReward = 0.5;
constexpr double kMinFreeWeight = 0.1;

enum Turn : std::size_t { kPeakOrder, kInputOrder, kOwnOrder, kJoint, kTurns };

/// Small problems are searched over states instead of sequences, but where the constraint program alone is asked for.
bool searches_states(const Instance& instance, const SolveOptions& options) {
  return options.strategy != Strategy::cp && options.workers == Workers::all && StateWorker::fits(instance);
}

class FreeSearch {
 public:
  FreeSearch(Search& whole, const Deadline& deadline, BlockStore* blocks)
      : whole_(whole),
        deadline_(deadline),
        blocks_(blocks),
        random_(static_cast<std::uint64_t>(whole.options().seed)),
        held_at_(whole.holds_budget() ? std::optional(whole.elapsed()) : std::nullopt) {}

  void run() {
    if (searches_states(whole_.instance(), options()) && !is_over()) take(kJoint);
    find_order();
    for (std::size_t turn = 0; turn < kTurns && !is_over(); ++turn) take(turn);
    while (!is_over()) {
      take(draw_weighted(kTurns, random_, [&](std::size_t turn) { return is_open(turn) ? weights_[turn] : 0.0; }));
    }
    SolverReport& report = whole_.report();
    report.reached_peak = whole_.incumbent().peak;
    report.phase1_seconds = budget_held_at();
    report.phase2_seconds = whole_.elapsed() - report.phase1_seconds;
  }

 private:
  [[nodiscard]] bool is_over() const {
    return whole_.is_decided() || deadline_.reached() || whole_.work() >= work_limit(options().work_limit) ||
           whole_.over();
  }

  [[nodiscard]] const SolveOptions& options() const { return whole_.options(); }

  /// In seconds from the beginning; the end if it never was.
  [[nodiscard]] double budget_held_at() const {
    if (held_at_) return *held_at_;
    for (const Incumbent& incumbent : whole_.report().history) {
      if (incumbent.peak <= whole_.instance().budget()) return incumbent.seconds;
    }
    return whole_.elapsed();
  }

  /// A part of the limits, as far as it is left.
  [[nodiscard]] Limits part_of_limits(double part, double most_seconds = kMaxTurnSeconds) const {
    const Limits all = limits_of(options());
    const double left = std::max(0.0, all.seconds - deadline_.elapsed());
    // Nothing may depend on time, but for the time limit itself.
    if (all.counts_work()) return {left, std::clamp(part_of(all.work, part), Work(1), all.work - whole_.work())};
    return {std::clamp(all.seconds * part, std::min(left, kMinTurnSeconds), std::min(left, most_seconds))};
  }

  void find_order() {
    const std::shared_ptr<const Instance> least = least_of_modes(whole_.instance());
    if (is_over() || !least) return;
    const Limits limited = part_of_limits(kOrderShare);
    const Deadline deadline(limited.seconds, deadline_.cancel());
    const OrderProblem problem(*least);
    OrderSettings settings;
    settings.target = whole_.instance().budget();
    settings.work_limit = limited.work.count();
    settings.threads = thread_count(options());
    settings.seed = static_cast<std::uint64_t>(options().seed);
    settings.improved = [&](const std::vector<NodeId>& order, Bytes) {
      const std::vector<Compute> runs = computes_of(problem.sequence_of(order));
      if (modes_hold(whole_.instance(), runs)) whole_.offer(make_solution(whole_.instance(), runs), Source::order);
    };
    settings.enough = [this](std::int64_t work) {
      whole_.report_round(Work(work));
      return whole_.over();
    };
    const OrderResult result = minimise_peak(problem, settings, [&] { return deadline.reached(); });
    whole_.add_work(Work(result.work));
    peak_order_ = Order(problem.sequence_of(result.order));
    if (result.lower_bound > whole_.instance().budget()) require_recompute();
  }

  /// No order holds the budget: something has to be recomputed, at least what is cheapest.
  void require_recompute() {
    const Instance& instance = whole_.instance();
    Duration least = Duration::max();
    for (OpId op{0}; op < instance.op_count(); op = OpId(op + 1)) {
      if (instance.max_computes(op) > 1) least = std::min(least, instance.duration(op));
    }
    if (least == Duration::max()) {
      whole_.prove_infeasible();
    } else {
      whole_.raise_bound(least);
    }
    whole_.notify(Event::bound, Source::order);
  }

  [[nodiscard]] bool is_open(std::size_t turn) const {
    return turn == kJoint || turn == kOwnOrder || (views_[turn] && !views_[turn]->is_decided());
  }

  void take(std::size_t turn) {
    const Solution before = whole_.incumbent();
    const Work work = whole_.work();
    if (turn == kJoint) {
      search_jointly();
    } else {
      search_along(turn);
    }
    // A turn with nothing to do can't keep a solve under a work limit alive.
    if (whole_.work() == work) whole_.add_work(Work(1));
    const bool improved = better(whole_.instance(), whole_.incumbent(), before);
    weights_[turn] = std::max(kMinFreeWeight, weights_[turn] * kForgetting + (improved ? kReward : 0.0));
  }

  /// Goes on with the turn's search of one order, if that has anything left to find.
  void search_along(std::size_t turn) {
    if (turn != kOwnOrder && views_[turn]) {
      if (!views_[turn]->is_decided()) views_[turn]->run_session(part_of_limits(kSliceShare));
      return;
    }
    const std::vector<Compute> own = whole_.incumbent().computes(whole_.instance());
    Order order = turn == kInputOrder  ? input_order(whole_.instance())
                  : turn == kPeakOrder ? peak_order_
                                       : first_computes(whole_.instance(), ops_of(own));
    if (ViewSearch* same = view_along(order)) {
      // Another turn's search; the own order may have learned something since.
      if (turn != kOwnOrder || same->is_decided()) return;
      same->learn(own);
      same->run_session(part_of_limits(kSliceShare));
    } else if (!order.empty()) {
      begin_along(turn, std::move(order));
    }
  }

  [[nodiscard]] ViewSearch* view_along(const Order& order) const {
    for (const auto& view : views_) {
      if (view && view->order() == order) return view.get();
    }
    return nullptr;
  }

  void begin_along(std::size_t turn, Order order) {
    OrderView view(whole_.instance(), std::move(order));
    // Groups take long; one order's schedule composed of them is a start for all.
    const bool first = std::none_of(views_.begin(), views_.end(), [](const auto& other) { return other != nullptr; });
    const bool from_groups = first && wants_groups(view.staged(), options());
    const Limits limits = from_groups ? part_of_limits(kGroupsShare, kNoTimeLimit) : part_of_limits(kSliceShare);
    std::vector<Start> starts;
    if (from_groups) {
      starts.push_back({When::after_bound, [this](Search& search) { start_from_groups(search, blocks_); }});
    }
    views_[turn] = std::make_unique<ViewSearch>(whole_, std::move(view), within(options(), limits), std::move(starts));
    const std::vector<Compute> own = whole_.incumbent().computes(whole_.instance());
    if (views_[turn]->order() == first_computes(whole_.instance(), ops_of(own))) views_[turn]->learn(own);
    if (!views_[turn]->is_decided()) views_[turn]->run_session(limits);
  }

  /// Both at once, in rounds on the incumbent; on the clock of the whole.
  void search_jointly() {
    const Limits limits = part_of_limits(kSliceShare);
    const double now = deadline_.elapsed();
    whole_.run_session({Deadline(now + limits.seconds, deadline_.cancel(), now), plus(whole_.work(), limits.work)});
    whole_.begin(deadline_);
  }

  Search& whole_;
  const Deadline& deadline_;
  BlockStore* blocks_;
  Random random_;
  Order peak_order_;
  std::array<std::unique_ptr<ViewSearch>, kJoint> views_;
  std::array<double, kTurns> weights_{1, 1, 1, 1};
  /// Where the search began with a schedule that holds it.
  std::optional<double> held_at_;
};

}  // namespace

Mix free_order_crew(const Instance& instance, const SolveOptions& options, SearchPhase phase) {
  const bool by_states = searches_states(instance, options);
  Crew crew(instance, options,
            {.most_ops = by_states ? 0 : kMaxOpsForComplete, .most_ops_of_every_round = kMaxOpsForEveryRound});
  if (by_states) crew.add_for_every_round(std::make_unique<StateWorker>(instance));
  crew.add_neighbourhoods(phase);
  // In place of the workers that know one order only, which have their turn elsewhere.
  crew.add<ReorderWorker>(std::min(2, crew.plan().ruins));
  crew.add<JointAnnealingWorker>(std::min(4, 2 * crew.plan().annealings));
  return crew.mix();
}

void search_free_order(Search& whole, const Deadline& deadline, BlockStore* blocks) {
  FreeSearch(whole, deadline, blocks).run();
}

namespace {

Instance staged_instance(const Instance& free, const Order& order) {
  Problem problem = free.problem();
  problem.order = OrderMode::input;
  return {std::make_shared<const Graph>(reordered(free.graph(), order)), problem};
}

}  // namespace

OrderView::OrderView(const Instance& free, Order order)
    : order_(std::move(order)), places_(places_in(order_)), staged_(staged_instance(free, order_)) {}

std::vector<Compute> OrderView::sequence_of(std::vector<Compute> runs) const {
  for (Compute& run : runs) run.op = order_[run.op];
  return runs;
}

std::vector<Compute> OrderView::staged_runs(std::span<const Compute> sequence) const {
  struct Placed {
    Stage stage{0};
    Compute run{};
  };
  std::vector<Placed> placed;
  Stage stage{0};
  for (const Compute& run : sequence) {
    const OpId place = places_[run.op];
    placed.push_back({stage, {place, run.mode}});
    if (Stage{place} == stage) ++stage;
  }
  const auto key = [](const Placed& one) { return std::pair(one.stage, one.run.op); };
  std::ranges::stable_sort(placed, {}, key);
  const auto is_same = [&](const Placed& a, const Placed& b) { return key(a) == key(b); };
  placed.erase(std::unique(placed.begin(), placed.end(), is_same), placed.end());
  std::vector<Compute> runs;
  runs.reserve(placed.size());
  for (const Placed& one : placed) runs.push_back(one.run);
  return within_limits(staged_, runs);
}

ViewSearch::ViewSearch(Search& whole, OrderView view, const SolveOptions& options, std::vector<Start> starts)
    : whole_(whole), view_(std::move(view)), search_(view_.staged(), options, {input_order_crew, std::move(starts)}) {
  search_.listen({.progress =
                      [this](const Progress& progress) {
                        if (progress.event == Event::start || progress.event == Event::schedule) offer_best();
                        if (progress.event == Event::round) whole_.report_round(search_.work() - before_);
                      },
                  .enough = [this](const Progress&) { return whole_.over(); }});
}

void ViewSearch::offer_best() {
  const Solution& best = search_.incumbent();
  if (offered_ && best.peak == offered_->first && best.extra == offered_->second) return;
  offered_ = {best.peak, best.extra};
  whole_.offer(make_solution(whole_.instance(), view_.sequence_of(best.computes(view_.staged()))), search_.source());
}

void ViewSearch::learn(std::span<const Compute> sequence) {
  const std::vector<Compute> runs = view_.staged_runs(sequence);
  if (modes_hold(view_.staged(), runs)) search_.offer(make_solution(view_.staged(), runs), Source::start);
}

void ViewSearch::run_session(const Limits& limits) {
  before_ = search_.work();
  search_.run_session({Deadline(limits.seconds, whole_.deadline().cancel()), plus(before_, limits.work)});
  whole_.add_work(search_.work() - before_);
  offer_best();
}

}  // namespace remora
