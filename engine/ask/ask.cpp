// SPDX-License-Identifier: Apache-2.0
#include "engine/ask/ask.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/ask/problem.hpp"
#include "engine/ask/sliced.hpp"
#include "engine/base/deadline.hpp"
#include "engine/base/tasks.hpp"
#include "engine/baselines/method.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/order/minimise_peak.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// Work per op for the quick search for another order: some passes of list scheduling, and some search.
constexpr std::int64_t kWorkPerOp = 200;
constexpr std::int64_t kMinWork = 20'000;
constexpr std::int64_t kMaxWork = 500'000;
/// The largest part of the solve's time limit for the quick search.
constexpr double kTimeShare = 0.1;
/// The part of the input order's peak above fixed memory that another order must save.
constexpr double kWorthwhile = 0.01;

constexpr std::array<std::pair<OrderRequest, const char*>, 3> kRequests{
    {{OrderRequest::input, "input"}, {OrderRequest::free, "free"}, {OrderRequest::automatic, "auto"}}};

/// "81.2 %", in every locale.
std::string per_cent(double part) {
  const std::int64_t tenths = std::llround(1000 * part);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

/// True if `op` must come after the op before it.
bool follows(const Instance& instance, OpId op, OpId former) {
  const auto& after = instance.graph().ops[op].after;
  const auto inputs = instance.inputs(op);
  return std::find(after.begin(), after.end(), former) != after.end() ||
         std::any_of(inputs.begin(), inputs.end(), [&](TensorId input) { return instance.producer(input) == former; });
}

bool has_one_order(const Instance& instance) {
  for (int v = 1; v < instance.op_count(); ++v) {
    if (!follows(instance, OpId(v), OpId(v - 1))) return false;
  }
  return true;
}

OrderChoice look(const Instance& instance, const SolveOptions& options, const std::atomic<bool>* cancel) {
  const std::int64_t work = std::clamp(kWorkPerOp * instance.op_count(), kMinWork, kMaxWork);
  const OrderSettings settings{.target = instance.budget(),
                               .work_limit = work,
                               .threads = thread_count(options),
                               .seed = static_cast<std::uint64_t>(options.seed)};
  const Deadline deadline(kTimeShare * options.time_limit, cancel);
  const Bytes peak = minimise_peak(OrderProblem(instance), settings, [&] { return deadline.reached(); }).peak;
  const double part = part_of_peak(peak, instance.graph().fixed_memory, baseline_peak(instance));
  if (peak > instance.budget() && part > 1 - kWorthwhile) {
    return {OrderMode::input,
            deadline.reached()
                ? "no other order was found in time that fits within the budget or needs clearly less memory"
                : "no other order was found that fits within the budget or needs clearly less memory"};
  }
  return {OrderMode::free, "another order needs " + per_cent(part) + " of the input order's peak" +
                               (instance.graph().fixed_memory > Bytes(0) ? " above fixed memory" : "")};
}

OrderMode mode_of(OrderRequest order) {
  return order == OrderRequest::free ? OrderMode::free : OrderMode::input;
}

int computes_of(const Request& request) {
  return request.max_computes.value_or(default_computes(request.options.strategy));
}

/// In the input order, which may not be the one asked for.
Instance instance_of(const Request& request) {
  return {request.graph, {.budget = request.budget, .max_computes = computes_of(request)}};
}

/// A start in another order is worth more than a look: it is there.
OrderChoice order_of(const Instance& instance, const Request& request, const std::atomic<bool>* cancel) {
  const OrderRequest asked = order_asked(request);
  const bool is_open = asked == OrderRequest::automatic && !request.warm_start.empty();
  if (is_open && !is_staged(instance, ops_of(request.warm_start)))
    return {OrderMode::free, "the warm start is in another order"};
  return settle_order(instance, asked, request.options, cancel);
}

Schedule solve_stated(const Instance& instance, const Request& request, const SolveCallbacks& callbacks) {
  if (!request.max_computes) {
    return solve_with_more_computes(instance, request.options, callbacks, request.warm_start, request.alignment);
  }
  if (request.alignment) {
    return solve_with_addresses(instance, request.options, *request.alignment, callbacks, request.warm_start);
  }
  return solve(instance, request.options, callbacks, request.warm_start);
}

/// Notes the computes that nobody reads before their op runs again: the input order keeps first computes where they are.
void note_unread(const Instance& instance, Schedule& schedule) {
  if (!schedule.has_schedule() || schedule.order != OrderMode::input || !has_plans(instance)) return;
  const Sequence all = ops_of(schedule);
  const Sequence read = without_useless(instance, all);
  const std::size_t count = all.size() - read.size();
  if (count == 0) return;
  const Duration saved = schedule.duration - evaluate(instance, read).duration;
  const double part =
      static_cast<double>(saved.count()) / static_cast<double>(std::max<std::int64_t>(1, schedule.duration.count()));
  std::string& note = schedule.solver.note;
  note += note.empty() ? "" : "; ";
  note += std::to_string(count) + (count == 1 ? " run is" : " runs are") + " unused (" + per_cent(part) +
          " of the time): the input order keeps every first run in its place, another order can delay it";
}

}  // namespace

const char* order_request_name(OrderRequest request) {
  const auto* const row = std::find_if(kRequests.begin(), kRequests.end(),
                                       [&](const auto& candidate) { return candidate.first == request; });
  return row == kRequests.end() ? "" : row->second;
}

OrderRequest order_request_from_name(const std::string& name) {
  for (const auto& [request, word] : kRequests) {
    if (name == word) return request;
  }
  throw InputError::of_option("order", "'" + name + "' is not one of input, free, auto");
}

std::string OrderChoice::text() const {
  return std::string("order ") + (mode == OrderMode::free ? "free" : "input") + ": " + reason;
}

void OrderChoice::explain(Schedule& schedule) const {
  if (reason.empty()) return;
  std::string& note = schedule.solver.note;
  note = text() + (note.empty() ? "" : "; ") + note;
}

OrderChoice choose_order(const Instance& instance, const SolveOptions& options, const std::atomic<bool>* cancel) {
  if (baseline_peak(instance) <= instance.budget())
    return {OrderMode::input, "it fits within the budget without recomputation"};
  const std::shared_ptr<const Instance> least = least_of_modes(instance);
  if (!least || has_one_order(instance)) return {OrderMode::input, "there is no other"};
  return look(*least, options, cancel);
}

OrderChoice settle_order(const Instance& instance, OrderRequest request, const SolveOptions& options,
                         const std::atomic<bool>* cancel) {
  if (request == OrderRequest::automatic) return choose_order(instance, options, cancel);
  return {request == OrderRequest::free ? OrderMode::free : OrderMode::input, ""};
}

Instance with_order(const Instance& instance, OrderMode order) {
  if (instance.problem().order == order) return instance;
  Problem problem = instance.problem();
  problem.order = order;
  return instance.with_problem(problem);
}

OrderRequest order_asked(const Request& request) {
  return request.order.value_or(OrderRequest::input);
}

void check_request(const Request& request) {
  check_options(request.options);
  if (request.max_computes && *request.max_computes < 1) {
    throw InputError::of_option("max_computes", "must be at least 1, but is " + std::to_string(*request.max_computes));
  }
  // An option without effect is reported.
  if (is_search(request.options.strategy)) return;
  const std::string name = strategy_name(request.options.strategy);
  if (request.options.work_limit > 0) throw InputError::of_option("work_limit", name + " has none");
  if (!request.warm_start.empty()) throw InputError::of_option("warm_start", name + " does not start from a schedule");
}

Bytes budget_of(const std::string& text, const Request& request) {
  const Instance unlimited(request.graph, {});
  const bool is_placed = request.alignment && text.find('%') != std::string::npos;
  const Bytes peak = is_placed ? placed_baseline(request.graph, *request.alignment) : baseline_peak(unlimited);
  return parse_budget(text, unlimited.graph().fixed_memory, peak);
}

std::vector<Bytes> budgets_of(const std::string& text, const Request& request) {
  const Instance unlimited(request.graph, {});
  return parse_budgets(text, unlimited.graph().fixed_memory, baseline_peak(unlimited));
}

bool is_asked(const Request& request, const Schedule& schedule) {
  const int computes = schedule.solver.max_computes;
  const OrderRequest order = order_asked(request);
  return (request.max_computes ? computes == *request.max_computes : computes >= computes_of(request)) &&
         (order == OrderRequest::automatic || schedule.order == mode_of(order));
}

Instance unbudgeted(const Request& request, const std::string& why) {
  const OrderRequest order = order_asked(request);
  if (order == OrderRequest::automatic) throw InputError::of_option("order", "auto chooses for one budget; " + why);
  if (request.alignment || !request.warm_start.empty()) throw InputError("", "addresses and a start are of one budget");
  return with_order(instance_of(request).with_budget(Bytes::max()), mode_of(order));
}

void expect_valid(const Instance& instance, const Schedule& schedule) {
  if (!schedule.has_schedule()) return;
  const Verdict verdict = verify(instance.graph(), schedule);
  ensure(verdict.valid(), "the schedule found does not verify");
}

Answer solve(const Request& request, const SolveCallbacks& callbacks) {
  Answer answer;
  std::optional<SlicedReach> reach;
  if (request.slices.is_allowed) {
    SlicedAnswer sliced = solve_sliced(request, callbacks);
    reach = std::move(sliced.reach);
    answer = answer_of(request, std::move(sliced));
  } else {
    answer = solve_whole(request, callbacks);
  }
  const bool is_cancelled = callbacks.cancel != nullptr && callbacks.cancel->load();
  if (answer.schedule.has_schedule() || !request.slices.regions.empty() || is_cancelled) return answer;
  if (!request.slices.is_allowed) reach = reach_with_slices(request, callbacks.cancel);
  if (reach) {
    Refusal& refusal = answer.refusal;
    if (refusal.enough > Bytes() && reach->bracket.reached >= refusal.enough) return answer;
    refusal.slices = reach->slicing.sliced->slices;
    refusal.enough_in_slices = reach->bracket.reached;
    refusal.lets_choose_slices = request.slices.is_allowed;
  }
  return answer;
}

Answer solve_whole(const Request& request, const SolveCallbacks& callbacks, bool explains) {
  check_request(request);
  const Instance instance = instance_of(request);
  Answer answer{.order = order_of(instance, request, callbacks.cancel)};
  if (callbacks.order_chosen && !answer.order.reason.empty()) callbacks.order_chosen(answer.order.text());
  const Instance stated = with_order(instance, answer.order.mode);
  answer.schedule = solve_stated(stated, request, callbacks);
  if (!answer.schedule.has_schedule() && explains) {
    answer.refusal = refuse(request, stated, answer.schedule, callbacks.cancel);
  }
  if (answer.schedule.order != answer.order.mode) {
    answer.order = {answer.schedule.order, "the only one in which a schedule was found"};
  }
  answer.order.explain(answer.schedule);
  note_unread(stated, answer.schedule);
  expect_valid(stated, answer.schedule);
  return answer;
}

PlaceSettings place_settings(const SolveOptions& options) {
  return {.work_limit = work_limit(options.work_limit).count(),
          .threads = thread_count(options),
          .seed = static_cast<std::uint64_t>(options.seed)};
}

FoundOrder find_order(const Request& request, Bytes target, const OrderCallbacks& callbacks) {
  check_options(request.options);
  const Deadline deadline(request.options.time_limit, callbacks.cancel);
  const Instance instance(request.graph, {});
  expect_one_mode(instance.graph(), "an order without recomputation");
  const OrderProblem problem(instance);
  OrderSettings settings{.target = target,
                         .work_limit = work_limit(request.options.work_limit).count(),
                         .threads = thread_count(request.options),
                         .seed = static_cast<std::uint64_t>(request.options.seed)};
  if (callbacks.improved) {
    settings.improved = [&](const std::vector<NodeId>&, Bytes peak) { callbacks.improved(deadline.elapsed(), peak); };
  }
  const OrderResult found = minimise_peak(problem, settings, [&] { return deadline.reached(); });
  Order order(problem.sequence_of(found.order));
  ensure(evaluate(instance, order).peak == found.peak, "order: its peak is another than its search says");
  return {.order = std::move(order),
          .peak = found.peak,
          .lower_bound = found.lower_bound,
          .input_peak = baseline_peak(instance),
          .seconds = deadline.elapsed(),
          .work = found.work};
}

}  // namespace remora
