// SPDX-License-Identifier: Apache-2.0
//
// The part of the C interface that looks at more than one problem of a graph: many budgets, and other orders.
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "engine/ask/ask.hpp"
#include "frontends/capi/handles.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"

namespace remora::capi {
namespace {

Bytes budget_from(const remora_instance& instance, const char* budget, const std::string& argument) {
  const std::string words = text(budget, argument.c_str());
  const Bytes fixed = instance.request.graph->fixed_memory;
  return about(argument, [&] { return parse_budget(words, fixed, instance.baseline_peak); });
}

SweepOptions sweep_options_from(const remora_instance& instance, const char* const* budgets, std::size_t count,
                                int points) {
  SweepOptions options;
  constexpr std::size_t kMaximum = 1U << 20U;
  if (count > kMaximum) throw InputError("budgets", std::to_string(count) + " are too many");
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
    made.progress = [tell = callbacks.progress, context = callbacks.context](const SweepProgress& update) {
      const remora_progress given = progress_of_sweep(update);
      tell(context, &given);
    };
  }
  return made;
}

}  // namespace
}  // namespace remora::capi

namespace capi = remora::capi;

remora_status remora_sweep(const remora_instance* instance, const remora_options* options, const char* const* budgets,
                           std::size_t count, std::int32_t points, const remora_callbacks* callbacks,
                           remora_curve** made) {
  return capi::made_by(made, [&] {
    const remora::SweepOptions asked =
        capi::sweep_options_from(capi::given(instance, "instance"), budgets, count, points);
    const remora::Request request = capi::request_from(*instance, options);
    const remora::SweepCallbacks given =
        callbacks != nullptr ? capi::sweep_callbacks_from(capi::known_part(*callbacks)) : remora::SweepCallbacks{};
    remora::SweepResult result = capi::about("", [&] { return remora::sweep(request, asked, given); });
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
    remora::json::write_file(capi::output_path(path),
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
    const remora::Request request = capi::request_from(capi::given(instance, "instance"), options);
    const remora::Bytes enough = target == nullptr ? remora::Bytes() : capi::budget_from(*instance, target, "target");
    const remora::FoundOrder found =
        remora::find_order(request, enough, {.cancel = stop == nullptr ? nullptr : &stop->value});
    return remora_ordering{
        .ops = {found.order.begin(), found.order.end()}, .peak = found.peak, .lower_bound = found.lower_bound};
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
