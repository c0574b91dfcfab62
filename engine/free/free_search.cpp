// SPDX-License-Identifier: Apache-2.0
#include "engine/free/free_search.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/draw_weighted.hpp"
#include "model/free_sequence.hpp"
#include "engine/free/view_search.hpp"
#include "engine/order/minimise_peak.hpp"
#include "engine/order/order_problem.hpp"
#include "engine/search/answer.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/random.hpp"

namespace remora {
namespace {

/// The order without recompute takes this part of the limits at most, one turn that part, and one that has to solve
/// groups of a large network first that part.
constexpr double kOrderShare = 0.15;
constexpr double kTurnShare = 0.025;
constexpr double kGroupsShare = 0.4;
constexpr double kMostTurnSeconds = 5;
constexpr double kLeastTurnSeconds = 0.02;
constexpr double kForgetting = 0.8;
constexpr double kReward = 0.5;
constexpr double kLeastWeight = 0.1;

/// Sources of turns.
enum Turn : std::size_t { kPeakOrder, kInputOrder, kOwnOrder, kJoint, kTurns };

class FreeSearch {
 public:
  FreeSearch(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
             const Deadline& deadline, SearchState& state, SolverReport& report)
      : instance_(instance),
        options_(options),
        callbacks_(callbacks),
        deadline_(deadline),
        state_(state),
        report_(report),
        random_(static_cast<std::uint64_t>(options.seed)) {}

  void run() {
    if (holds_budget()) give_incumbent();
    tell("start");
    find_order();
    for (std::size_t turn = 0; turn < kTurns && !is_over(); ++turn) take(turn);
    while (!is_over()) {
      take(draw_weighted(kTurns, random_, [&](std::size_t turn) { return is_open(turn) ? weights_[turn] : 0.0; }));
    }
    report_.reached_peak = state_.incumbent.peak;
    report_.phase1_seconds = budget_held_at_ < 0 ? deadline_.elapsed() : budget_held_at_;
    report_.phase2_seconds = deadline_.elapsed() - report_.phase1_seconds;
  }

 private:
  [[nodiscard]] bool holds_budget() const { return state_.incumbent.peak <= instance_.budget(); }

  [[nodiscard]] Progress progress(const std::string& source) const {
    return {deadline_.elapsed(),
            holds_budget() ? 2 : 1,
            source,
            instance_.baseline_duration() + state_.incumbent.extra,
            state_.incumbent.peak,
            instance_.baseline_duration() + state_.lower_bound,
            state_.work + turn_work_};
  }

  void tell(const std::string& source) const {
    if (callbacks_.progress) callbacks_.progress(progress(source));
  }

  void give_incumbent() {
    if (budget_held_at_ < 0) budget_held_at_ = deadline_.elapsed();
    if (!callbacks_.incumbent) return;
    callbacks_.incumbent(incumbent_of(instance_, options_, state_, state_.incumbent.sequence, deadline_));
  }

  /// Takes a sequence over if it is better than the incumbent.
  bool offer(std::span<const OpId> sequence, const std::string& source) {
    Solution found = make_solution(instance_, sequence);
    if (!better(instance_, found, state_.incumbent)) return false;
    state_.incumbent = std::move(found);
    state_.history.push_back(
        {deadline_.elapsed(), instance_.baseline_duration() + state_.incumbent.extra, state_.incumbent.peak, source});
    if (holds_budget()) give_incumbent();
    tell(source);
    return true;
  }

  [[nodiscard]] bool is_over() const {
    if (is_settled(instance_, state_) || deadline_.reached()) return true;
    if (options_.work_limit > 0 && state_.work >= options_.work_limit) return true;
    return callbacks_.enough && callbacks_.enough(progress(""));
  }

  /// What every round of a turn does, whatever the turn: `work` is what the turn has done so far.
  bool beat(std::int64_t work) {
    turn_work_ = work;
    if (callbacks_.heartbeat) callbacks_.heartbeat(progress(""));
    return is_settled(instance_, state_) || (callbacks_.enough && callbacks_.enough(progress("")));
  }
  void end_turn(std::int64_t work) {
    turn_work_ = 0;
    state_.work += work;
  }

  /// The options with a part of the limits, as far as it is left.
  [[nodiscard]] SolveOptions part_of_limits(double part, double most_seconds = kMostTurnSeconds) const {
    SolveOptions options = options_;
    if (options_.work_limit > 0) {
      const auto wanted = static_cast<std::int64_t>(static_cast<double>(options_.work_limit) * part);
      options.work_limit = std::clamp<std::int64_t>(wanted, 1, options_.work_limit - state_.work);
      // Nothing may depend on time, but for the time limit itself.
      part = 1;
    }
    const double left = std::max(0.0, options_.time_limit - deadline_.elapsed());
    const double most = options_.work_limit > 0 ? left : std::min(left, most_seconds);
    options.time_limit = std::clamp(options_.time_limit * part, std::min(left, kLeastTurnSeconds), most);
    return options;
  }

  void find_order() {
    if (is_over()) return;
    const SolveOptions options = part_of_limits(kOrderShare);
    const Deadline deadline(options.time_limit, callbacks_.cancel);
    const OrderProblem problem(instance_);
    OrderSettings settings;
    settings.target = instance_.budget();
    settings.work_limit = options.work_limit;
    settings.threads = thread_count(options_);
    settings.seed = static_cast<std::uint64_t>(options_.seed);
    settings.improved = [&](const std::vector<NodeId>& order, Bytes) { offer(problem.sequence_of(order), "order"); };
    settings.enough = [this](std::int64_t work) { return beat(work); };
    const OrderResult result = minimise_peak(problem, settings, [&] { return deadline.reached(); });
    end_turn(result.work);
    peak_order_ = problem.sequence_of(result.order);
    if (result.lower_bound > instance_.budget()) require_recompute();
  }

  /// No order holds the budget: something has to be recomputed, at least what is cheapest.
  void require_recompute() {
    Duration least = Duration::max();
    for (OpId op{0}; op < instance_.op_count(); op = OpId(op + 1)) {
      if (instance_.max_computes(op) > 1) least = std::min(least, instance_.duration(op));
    }
    if (least == Duration::max()) {
      state_.infeasible = true;
    } else {
      state_.lower_bound = std::max(state_.lower_bound, least);
    }
    tell("order");
  }

  [[nodiscard]] bool is_open(std::size_t turn) const {
    return turn == kJoint || turn == kOwnOrder || (views_[turn] && !views_[turn]->settled());
  }

  void take(std::size_t turn) {
    const Solution before = state_.incumbent;
    const std::int64_t work = state_.work;
    if (turn == kJoint) {
      search_jointly();
    } else if (ViewSearch* view = view_of(turn)) {
      search_view(*view);
    }
    // A turn with nothing to do can't keep a solve under a work limit alive.
    state_.work = std::max(state_.work, work + 1);
    const bool improved = better(instance_, state_.incumbent, before);
    weights_[turn] = std::max(kLeastWeight, weights_[turn] * kForgetting + (improved ? kReward : 0.0));
  }

  /// The turn's search of one order, made when it is first wanted; null if another one has that order or if it has
  /// nothing left to find.
  ViewSearch* view_of(std::size_t turn) {
    if (turn == kOwnOrder || !views_[turn]) {
      std::vector<OpId> order = turn == kInputOrder  ? input_order(instance_)
                                : turn == kPeakOrder ? peak_order_
                                                     : first_computes(instance_, state_.incumbent.sequence);
      for (std::size_t other = 0; other < views_.size(); ++other) {
        if (views_[other] && views_[other]->order() == order) {
          ViewSearch* same = views_[other].get();
          if (turn != kOwnOrder || same->settled()) return nullptr;
          same->learn(state_.incumbent.sequence);
          return same;
        }
      }
      if (order.empty()) return nullptr;
      const bool own = order == first_computes(instance_, state_.incumbent.sequence);
      // Groups take long; one order's schedule composed of them is a start for all.
      const bool first = std::none_of(views_.begin(), views_.end(), [](const auto& view) { return view != nullptr; });
      views_[turn] = std::make_unique<ViewSearch>(instance_, std::move(order), first);
      if (own) views_[turn]->learn(state_.incumbent.sequence);
    }
    return views_[turn]->settled() ? nullptr : views_[turn].get();
  }

  void search_view(ViewSearch& view) {
    const SolveOptions options =
        view.begins_with_groups(options_) ? part_of_limits(kGroupsShare, kNoTimeLimit) : part_of_limits(kTurnShare);
    const Deadline deadline(options.time_limit, callbacks_.cancel);
    const std::int64_t before = view.work();
    SolveCallbacks callbacks;
    callbacks.cancel = callbacks_.cancel;
    callbacks.blocks = callbacks_.blocks;
    callbacks.progress = [&](const Progress&) { offer(view.sequence(), view.source()); };
    callbacks.enough = [&](const Progress& view_progress) { return beat(view_progress.work - before); };
    view.sit(options, callbacks, deadline);
    end_turn(view.work() - before);
    offer(view.sequence(), view.source());
  }

  void search_jointly() {
    SolveOptions options = part_of_limits(kTurnShare);
    // The clock of the whole search, for what is told of times.
    const double now = deadline_.elapsed();
    const Deadline deadline(now + options.time_limit, callbacks_.cancel, now);
    if (options_.work_limit > 0) options.work_limit += state_.work;
    SolveCallbacks callbacks;
    callbacks.cancel = callbacks_.cancel;
    Duration given = holds_budget() ? state_.incumbent.extra : Duration::max();
    callbacks.progress = [&](const Progress& news) {
      if (news.source == "start" || news.source == "phase 2") return;
      if (holds_budget() && state_.incumbent.extra < given) {
        given = state_.incumbent.extra;
        give_incumbent();
      }
      tell(news.source);
    };
    callbacks.enough = [&](const Progress&) { return beat(0); };
    SolverReport ignored;
    run_phases(instance_, options, callbacks, deadline, joint_, state_, ignored);
  }

  const Instance& instance_;
  const SolveOptions& options_;
  const SolveCallbacks& callbacks_;
  const Deadline& deadline_;
  SearchState& state_;
  SolverReport& report_;
  Random random_;
  std::vector<OpId> peak_order_;
  std::array<std::unique_ptr<ViewSearch>, kJoint> views_;
  PhaseWorkers joint_;
  std::array<double, kTurns> weights_{1, 1, 1, 1};
  /// Of the turn at hand, as far as it is not in the state's.
  std::int64_t turn_work_ = 0;
  /// Seconds from the beginning; below 0 before that.
  double budget_held_at_ = -1;
};

}  // namespace

Solution first_free_solution(const Instance& instance, std::span<const OpId> warm_start) {
  const std::vector<OpId> plain_sequence = input_order(instance);
  Solution plain = make_solution(instance, std::span<const OpId>(plain_sequence));
  if (warm_start.empty()) return plain;
  std::vector<OpId> sequence;
  std::vector<int> computes(static_cast<std::size_t>(instance.op_count()), 0);
  for (const OpId op : warm_start) {
    const bool known = op.valid() && op < instance.op_count();
    if (!known || ++computes[op] <= instance.max_computes(op)) sequence.push_back(op);
  }
  if (!is_free_sequence(instance, sequence)) {
    throw InputError("warm start", "an op is missing, or comes before one that it has to wait for");
  }
  Solution warm = make_solution(instance, std::span<const OpId>(sequence));
  return better(instance, warm, plain) ? warm : plain;
}

void search_free_order(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
                       const Deadline& deadline, SearchState& state, SolverReport& report) {
  FreeSearch(instance, options, callbacks, deadline, state, report).run();
}

}  // namespace remora
