// SPDX-License-Identifier: Apache-2.0
//
// Of the C interface what looks at more than one problem of a graph: many budgets, and other orders.
#include "engine/sweep.hpp"

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/base/tasks.hpp"
#include "engine/order/minimise_peak.hpp"
#include "frontends/capi/handles.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora::capi {
namespace {

Bytes budget_from(const Instance& instance, const char* budget, const std::string& argument) {
  const std::string words = text(budget, argument.c_str());
  return about(argument, [&] { return parse_budget(words, instance.graph().fixed_memory, baseline_peak(instance)); });
}

SweepOptions sweep_options_from(const Instance& instance, const char* const* budgets, std::size_t count, int points) {
  SweepOptions options;
  constexpr std::size_t kMost = 1U << 20U;
  if (count > kMost) throw InputError("budgets", std::to_string(count) + " are too many");
  if (count > 0) given(budgets, "budgets");
  for (std::size_t i = 0; i < count; ++i) {
    options.budgets.push_back(budget_from(instance, budgets[i], "budgets[" + std::to_string(i) + "]"));
  }
  if (points != 0) options.points = points;
  return options;
}

remora_progress progress_of_sweep(const SweepProgress& progress) {
  const bool found = progress.status == Status::optimal || progress.status == Status::feasible;
  return {.size = sizeof(remora_progress),
          .seconds = progress.seconds,
          .phase = found ? 2 : 1,
          .duration = progress.duration.count(),
          .peak = progress.peak.count(),
          .lower_bound = progress.lower_bound.count(),
          .work = 0,
          .source = "",
          .event = REMORA_EVENT_ROUND,
          .budget = progress.budget.count()};
}

SweepCallbacks sweep_callbacks_from(const remora_callbacks& callbacks) {
  SweepCallbacks made;
  if (callbacks.stop != nullptr) made.cancel = &callbacks.stop->value;
  if (callbacks.progress != nullptr) {
    made.progress = [tell = callbacks.progress, context = callbacks.context](const SweepProgress& news) {
      const remora_progress given = progress_of_sweep(news);
      tell(context, &given);
    };
  }
  return made;
}

remora_ordering find_order(const Instance& instance, const SolveOptions& options, const char* target,
                           const std::atomic<bool>* cancel) {
  const Deadline deadline(options.time_limit, cancel);
  const OrderProblem problem(instance);
  OrderSettings settings{.work_limit = options.work_limit,
                         .threads = thread_count(options),
                         .seed = static_cast<std::uint64_t>(options.seed)};
  if (target != nullptr) settings.target = budget_from(instance, target, "target");
  const OrderResult result = minimise_peak(problem, settings, [&] { return deadline.reached(); });
  const std::vector<OpId> order = problem.sequence_of(result.order);
  ensure(evaluate(instance, order).peak == result.peak, "order: its peak is another than its search says");
  return {.ops = {order.begin(), order.end()}, .peak = result.peak, .lower_bound = result.lower_bound};
}

}  // namespace
}  // namespace remora::capi

namespace capi = remora::capi;

remora_status remora_sweep(const remora_instance* instance, const remora_options* options, const char* const* budgets,
                           std::size_t count, std::int32_t points, const remora_callbacks* callbacks,
                           remora_curve** made) {
  return capi::made_by(made, [&] {
    const remora::Instance& value = capi::given(instance, "instance").value;
    const remora::SweepOptions asked = capi::sweep_options_from(value, budgets, count, points);
    const remora::SweepCallbacks given =
        callbacks != nullptr ? capi::sweep_callbacks_from(capi::known_part(*callbacks)) : remora::SweepCallbacks{};
    const remora::SolveOptions chosen = options != nullptr ? options->value : remora::SolveOptions{};
    remora::SweepResult result = capi::about("", [&] {
      return instance->more_computes ? remora::sweep_with_more_computes(value, chosen, asked, given)
                                     : remora::sweep(value, chosen, asked, given);
    });
    remora_curve curve{.value = std::move(result.curve), .schedules = {}};
    for (remora::Schedule& schedule : result.schedules) curve.schedules.push_back({std::move(schedule)});
    return curve;
  });
}

void remora_curve_free(remora_curve* curve) {
  delete curve;
}

remora_status remora_curve_write(const remora_curve* curve, const char* path) {
  return capi::guarded([&] {
    const remora::Curve& value = capi::given(curve, "curve").value;
    remora::json::write_file(capi::text(path, "path"),
                             [&](std::ostream& out) { remora::json::write_curve(out, value); });
  });
}

std::size_t remora_curve_point_count(const remora_curve* curve) {
  return curve == nullptr ? 0 : curve->schedules.size();
}

const remora_schedule* remora_curve_schedule(const remora_curve* curve, std::size_t point) {
  return curve == nullptr || point >= curve->schedules.size() ? nullptr : &curve->schedules[point];
}

std::int64_t remora_curve_knee(const remora_curve* curve) {
  return curve == nullptr || !curve->value.knee ? -1 : static_cast<std::int64_t>(*curve->value.knee);
}

std::int64_t remora_curve_least_budget(const remora_curve* curve) {
  return curve == nullptr ? 0 : curve->value.least_budget.count();
}

remora_status remora_order_ops(const remora_instance* instance, const remora_options* options, const char* target,
                               remora_stop* stop, remora_ordering** made) {
  return capi::made_by(made, [&] {
    const remora::Instance& value = capi::given(instance, "instance").value;
    const remora::SolveOptions chosen = options != nullptr ? options->value : remora::SolveOptions{};
    return capi::find_order(value, chosen, target, stop == nullptr ? nullptr : &stop->value);
  });
}

void remora_ordering_free(remora_ordering* ordering) {
  delete ordering;
}

std::size_t remora_ordering_op_count(const remora_ordering* ordering) {
  return ordering == nullptr ? 0 : ordering->ops.size();
}

std::int32_t remora_ordering_op(const remora_ordering* ordering, std::size_t place) {
  return ordering == nullptr || place >= ordering->ops.size() ? -1 : ordering->ops[place];
}

std::int64_t remora_ordering_peak(const remora_ordering* ordering) {
  return ordering == nullptr ? 0 : ordering->peak.count();
}

std::int64_t remora_ordering_lower_bound(const remora_ordering* ordering) {
  return ordering == nullptr ? 0 : ordering->lower_bound.count();
}
