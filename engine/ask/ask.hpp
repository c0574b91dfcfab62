// SPDX-License-Identifier: Apache-2.0
//
// The door to the engine: a request in, an answer out. Every program that asks, on the command line, in Python, in C, in a
// compiler, fills a Request and reads an Answer.
//
//     remora::Request request{.graph = graph};
//     request.budget = remora::budget_of("80%", request);
//     request.options.time_limit = 10;
//     const remora::Answer answer = remora::solve(request);
//     if (answer.schedule.has_schedule()) run(answer.schedule);
//
//     solve           the shortest schedule within the budget, or why there is none
//     least_budget    the smallest budget that a schedule holds
//     sweep           schedules for many budgets
//     find_order      an order of small peak, without recompute
//     place_schedule  offsets for a schedule as it is (place() of engine/placement/place.hpp for buffers of any kind)
//
// In free order there are more schedules, none worse than the best one in input order, but they are harder to search
// and their bounds are weaker. Where the order is left to the engine, it is freed only if a quick search finds another
// one that fits within the budget or needs clearly less memory.
//
// The calls keep no state, print nothing, and may run in several threads at once. Asked for more threads than there are
// cores, they raise the limit of TBB for the process while they run. They throw InputError for what cannot be asked.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/callbacks.hpp"
#include "engine/base/options.hpp"
#include "engine/placement/place.hpp"
#include "engine/slices/request.hpp"
#include "model/api.hpp"
#include "model/curve.hpp"
#include "model/devices/graph.hpp"
#include "model/graph.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"
#include "model/slices.hpp"
#include "model/types.hpp"
#include "model/verify.hpp"

namespace remora {

/// Who decides on the order: the user, or the engine.
enum class OrderRequest { input, free, automatic };

/// "input", "free", "auto".
REMORA_API const char* order_request_name(OrderRequest request);
/// Throws InputError that lists the names, placed at `place`.
REMORA_API OrderRequest order_request_from_name(const std::string& name);

struct REMORA_API OrderChoice {
  OrderMode mode = OrderMode::input;
  /// In a few words: "another order needs 81.2 % of the input order's peak".
  std::string reason{};

  /// "order free: another order needs ...".
  [[nodiscard]] std::string text() const;
  /// Adds it, if there is a reason, to the note of a schedule of the problem.
  void explain(Schedule& schedule) const;
};

/// A question to the engine, which chooses whatever is left out.
struct Request {
  /// Ops may have several modes.
  std::shared_ptr<const Graph> graph{};
  /// Maximum memory at any step, fixed memory and the graph's inputs included. For solve() alone.
  Bytes budget = Bytes::max();
  /// Maximum runs of an op, the first included. None: the default of the strategy (default_computes), for a search two,
  /// or as many more as the budget needs or as shorten the schedule; the schedule has the number.
  std::optional<int> max_computes{};
  /// None: the input order.
  std::optional<OrderRequest> order{};
  /// Where offsets in one arena are wanted, within the budget: each a multiple of it, from 1 to 2^30. Of solve() alone.
  std::optional<Bytes> alignment{};
  /// A schedule's runs to begin with, of any budget: recomputes beyond max_computes are left out. Of solve() alone.
  std::vector<Compute> warm_start{};
  /// Permission to compute ops in slices (docs/design/slices.md), and their cost. For solve() and sweep(), not with
  /// modes, addresses or a start.
  SliceRequest slices{};
  SolveOptions options{};
};

/// Why a request has no schedule, and what would help: data, which every front end puts into words.
struct Refusal {
  enum class Cause : std::uint8_t {
    none,     ///< there is a schedule
    op,       ///< one op alone needs more than the budget, in any order and however often ops run
    kept,     ///< so do the tensors that must be kept, after the last op
    event,    ///< what must be resident while one op runs, in this order and with at most so many evaluations per op
    search,   ///< proved by more than one event, for this order and at most so many evaluations per op
    packing,  ///< schedules within the budget were found, but none whose buffers fit into one arena
    limits,   ///< none was found within the limits, or by the method
    no_way,   ///< over several devices: what an op reads, or what must be kept, cannot be copied to where it has to be
  };
  enum class Help : std::uint8_t {
    larger_budget,
    smaller_batch,
    split_op,
    offload,
    keep_less,
    free_order,
    more_computes,
    longer_time,
    more_work,
    smaller_alignment,
    automatic_strategy,
  };

  Cause cause = Cause::none;
  /// For causes op, kept and event: the op during or after which `needed` bytes are resident at once, fixed memory
  /// included.
  OpId op{};
  Bytes needed{};
  /// A lower bound on any feasible budget: no smaller one has a schedule of this order and of at most `max_computes` evaluations
  /// per op, or of any order and number where the cause is `op` or `kept`.
  Bytes lower_bound{};
  int max_computes = 0;
  /// With addresses, placed_baseline(), to which percentages of a budget refer; otherwise 0.
  Bytes placed{};
  /// A budget that is enough: a schedule within it is known. 0 where none is known.
  Bytes enough{};
  /// That schedule's runs, where they are at hand, and how often at most an op runs.
  std::vector<Compute> runs{};
  int computes_of_enough = 0;
  /// With so many slices, a lower budget is enough if the engine may choose them. 0 where none is known.
  int slices = 0;
  Bytes enough_in_slices{};
  /// The request did so.
  bool lets_choose_slices = false;
  /// Over several devices, in place of `needed` and the budgets below: every device on which the op can run (or on which tensors must
  /// be kept), what it needs there at least, and the device's budget, which is less.
  struct Shortage {
    DeviceId device{};
    Bytes needed{};
    Bytes budget{};
  };
  std::vector<Shortage> shortages{};
  /// For cause `limits`: the strategy that makes one schedule instead of a search, and why it has none; empty where
  /// that schedule is above the budget.
  std::optional<Strategy> method{};
  std::string method_lacks{};
  /// Suggestions, the most promising first.
  std::vector<Help> help{};

  [[nodiscard]] bool is_proved() const {
    return (cause != Cause::none && cause < Cause::packing) || cause == Cause::no_way;
  }
};

/// The answer to a request: a Schedule, or a DeviceSchedule (engine/devices/ask.hpp).
template <class AnySchedule>
struct AnswerWith {
  /// Replayed by verify(); or without steps: infeasible, with a certificate where one event alone proves it, or unknown. Its
  /// graph_sha256 and reading are the caller's business.
  AnySchedule schedule{};
  /// With a reason where the engine chose the order; the schedule's note says it, too.
  OrderChoice order{};
  /// Why there is no schedule.
  Refusal refusal{};
  /// The graph in slices, which the schedule is one of (Schedule::slices). Null where that is the request's graph.
  std::shared_ptr<const Graph> sliced{};
};

using Answer = AnswerWith<Schedule>;

/// Why the schedule has no steps, by what it says itself, without a search: its certificate and the lowest peak that it reached. Of an
/// answer, `refusal` says more. `graph`: the schedule's.
REMORA_API Refusal explain(const Graph& graph, const Schedule& schedule);

/// `callbacks.order_chosen` hears of the order before the search begins.
REMORA_API Answer solve(const Request& request, const SolveCallbacks& callbacks = {});

/// The budget that a text names (model/budget.hpp), of the request's graph: "80%", "12GiB". Where addresses are asked for, a
/// percentage is of placed_baseline().
REMORA_API Bytes budget_of(const std::string& text, const Request& request);
/// The same of lists and ranges: "100%:40%:5%".
REMORA_API std::vector<Bytes> budgets_of(const std::string& text, const Request& request);

/// Throws InputError if the request is invalid for every graph: an option out of range, or one that the strategy
/// ignores.
REMORA_API void check_request(const Request& request);

/// The order mode: the request's, or else the strategy's default.
REMORA_API OrderRequest order_asked(const Request& request);

/// True if a schedule of this order and of so many runs per op (in its report) is of the problem asked for.
REMORA_API bool is_asked(const Request& request, const Schedule& schedule);

/// The graph in the slices that a schedule of it states. Throws InputError with the path in the schedule's file
/// ("$.slices.regions[0].parts[0][2]") for what slice() rejects, and for effects that the regions do not have.
REMORA_API SlicedGraph graph_in_slices(const Graph& graph, const ScheduleSlices& slices);

/// The smallest budget for which a schedule exists lies within [proved, reached].
struct BudgetBracket {
  /// No schedule fits within a smaller budget.
  Bytes proved{};
  /// The peak of a schedule that was found.
  Bytes reached{};
  /// Its runs, if they are known.
  std::vector<Compute> sequence{};
  /// How often an op may run in all this.
  int max_computes = 0;
};

/// Searches within the options' time limit, half of what is left of it for each number of computes, as long as one more
/// reaches less. In free order the lower end is what one op alone needs. Throws InputError for order auto, for strategies that
/// do not search, and where every op once by mode 0 is not allowed. `cancel`, which may be null, ends it with the bracket at hand.
REMORA_API BudgetBracket least_budget(const Request& request, const std::atomic<bool>* cancel = nullptr);

struct SweepOptions {
  /// In any order, each at most once; empty: chosen by recursive bisection.
  std::vector<Bytes> budgets{};
  /// Bisection: budgets at most.
  int points = 20;
  /// Bisection: budgets are not chosen closer than this part of the range between the minimum budget and the input
  /// order's peak.
  double resolution = 0.005;
};

/// State of a sweep after one session: a stretch of search under one budget.
struct SweepProgress {
  double seconds = 0;
  /// Budget of the session that is over.
  Bytes budget{};
  Status status = Status::unknown;
  Duration duration{};
  Bytes peak{};
  Duration lower_bound{};
  /// Budgets so far, and those among them for which nothing is left to search.
  int points = 0;
  int settled = 0;
};

struct SweepCallbacks {
  /// After every session, from the thread that called sweep(). May be empty.
  std::function<void(const SweepProgress&)> progress{};
  /// Set to true from anywhere to end with what is known. May be null.
  const std::atomic<bool>* cancel = nullptr;
  /// As in SolveCallbacks.
  BlockStore* blocks = nullptr;
};

template <class AnySchedule>
struct SweepResultWith {
  Curve curve{};
  /// The best schedule within the budget of each point of the curve, or the knowledge if there is none. Each is as
  /// solve() would give it; its solver report covers the sessions at its own budget.
  std::vector<AnySchedule> schedules{};
  /// By point, the graph in the slices of its schedule, or null; empty where none were allowed.
  std::vector<std::shared_ptr<const Graph>> sliced{};

  /// The graph that the point's schedule is of.
  [[nodiscard]] const Graph& graph_of(std::size_t point, const Graph& whole) const {
    return point < sliced.size() && sliced[point] ? *sliced[point] : whole;
  }
};

using SweepResult = SweepResultWith<Schedule>;

/// Computes the curve of memory against time. The limits are of the whole sweep; with a work limit the same seed gives
/// the same curve. Without max_computes, a part of the limits is for more runs per op where they may be worth it. Every
/// schedule is replayed. Throws InputError for what solve() rejects, for order auto, for free order (but for methods
/// that do not search), for a budget given twice and for options out of range.
REMORA_API SweepResult sweep(const Request& request, const SweepOptions& options, const SweepCallbacks& callbacks = {});

/// Places a schedule as it is: it gets its arena where that and the fixed memory stay within its budget, and loses one that
/// it had. Throws InputError for an alignment that is not from 1 to 2^30, and for a schedule of another graph; the rest as place().
REMORA_API PlaceResult place_schedule(const Graph& graph, Schedule& schedule, Bytes alignment,
                                      const PlaceSettings& settings, const std::function<bool()>& interrupted);

/// Memory of the input order without recomputation, with addresses: fixed memory, and the smallest arena that a short
/// search finds for it. The same for the same graph and alignment, and a budget that is enough with addresses. For a
/// graph without addresses, its peak.
REMORA_API Bytes placed_baseline(const std::shared_ptr<const Graph>& graph, Bytes alignment);

/// Throws InputError for an alignment that is not from 1 to 2^30.
REMORA_API void check_alignment(Bytes alignment);

/// The limits and the seed of a placement, from the options of a solve.
REMORA_API PlaceSettings place_settings(const SolveOptions& options);

struct OrderCallbacks {
  /// Called with every better order's peak and the seconds since the beginning, from the calling thread. May be empty.
  std::function<void(double seconds, Bytes peak)> improved{};
  /// Set to true from anywhere to end with the best one so far. May be null.
  const std::atomic<bool>* cancel = nullptr;
};

struct FoundOrder {
  /// Every op once.
  Order order{};
  Bytes peak{};
  /// No order has a lower peak.
  Bytes lower_bound{};
  /// Peak of the input order.
  Bytes input_peak{};
  double seconds = 0;
  std::int64_t work = 0;
};

/// Only graph and options of the request count. `target`: an order of at most this peak is accepted.
REMORA_API FoundOrder find_order(const Request& request, Bytes target = {}, const OrderCallbacks& callbacks = {});

}  // namespace remora
