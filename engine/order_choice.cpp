// SPDX-License-Identifier: Apache-2.0
#include "engine/order_choice.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "engine/base/deadline.hpp"
#include "engine/base/tasks.hpp"
#include "engine/baselines/method.hpp"
#include "engine/order/minimise_peak.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

/// Of the look, by op: some passes of list scheduling, and some search.
constexpr std::int64_t kWorkPerOp = 200;
constexpr std::int64_t kLeastWork = 20'000;
constexpr std::int64_t kMostWork = 500'000;
/// Of the solve's time limit the look takes no more than this part.
constexpr double kTimeShare = 0.1;
/// Of the input order's peak above fixed memory: what another order must save.
constexpr double kWorthwhile = 0.01;

constexpr std::array<std::pair<OrderRequest, const char*>, 3> kRequests{
    {{OrderRequest::input, "input"}, {OrderRequest::free, "free"}, {OrderRequest::automatic, "auto"}}};

/// Whether `op` must come after the op before it.
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

OrderChoice look(const Instance& instance, const SolveOptions& options, Bytes input_peak,
                 const std::atomic<bool>* cancel) {
  const std::int64_t work = std::clamp(kWorkPerOp * instance.op_count(), kLeastWork, kMostWork);
  const OrderSettings settings{.target = instance.budget(),
                               .work_limit = work,
                               .threads = thread_count(options),
                               .seed = static_cast<std::uint64_t>(options.seed)};
  const Deadline deadline(kTimeShare * options.time_limit, cancel);
  const Bytes peak = minimise_peak(OrderProblem(instance), settings, [&] { return deadline.reached(); }).peak;
  const double part = part_of_peak(peak, instance.graph().fixed_memory, input_peak);
  if (peak > instance.budget() && part > 1 - kWorthwhile) {
    return {OrderMode::input,
            deadline.reached() ? "no other order was found in time that holds the budget or needs clearly less memory"
                               : "no other order was found that holds the budget or needs clearly less memory"};
  }
  const std::int64_t tenths = std::llround(1000 * part);  // of a per cent; printed so in every locale
  return {OrderMode::free, "another order needs " + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) +
                               " % of the input order's peak" +
                               (instance.graph().fixed_memory > Bytes(0) ? " above fixed memory" : "")};
}

}  // namespace

const char* order_request_name(OrderRequest request) {
  const auto* const row = std::find_if(kRequests.begin(), kRequests.end(),
                                       [&](const auto& candidate) { return candidate.first == request; });
  return row == kRequests.end() ? "" : row->second;
}

OrderRequest order_request_from_name(const std::string& name, const std::string& place) {
  for (const auto& [request, word] : kRequests) {
    if (name == word) return request;
  }
  throw InputError(place, "'" + name + "' is not one of input, free, auto");
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
  // Other methods keep to the input order, but "no schedule of that order" is no answer to who leaves the order open.
  if (default_problem(options.strategy).order == OrderMode::free) {
    return {OrderMode::free, std::string("the problem of ") + strategy_name(options.strategy)};
  }
  if (instance.has_modes()) return {OrderMode::input, "ops have several modes"};
  const Bytes input_peak = baseline_peak(instance);
  if (input_peak <= instance.budget()) return {OrderMode::input, "it holds the budget without recompute"};
  if (has_one_order(instance)) return {OrderMode::input, "there is no other"};
  return look(instance, options, input_peak, cancel);
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
  return {instance.shared_graph(), problem, instance.shared_modes()};
}

}  // namespace remora
