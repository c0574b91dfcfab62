// SPDX-License-Identifier: Apache-2.0
#include "engine/ask/constructed.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "engine/ask/problem.hpp"
#include "engine/baselines/method.hpp"
#include "engine/search/search.hpp"
#include "engine/search/segments.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// The part of the remaining time for a schedule with any number of runs.
constexpr double kPartOfConstruction = 0.2;

}  // namespace

Instance with_computes_of(const Instance& instance, std::span<const Compute> start) {
  std::vector<int> computes(static_cast<std::size_t>(instance.op_count()), 0);
  int most = 0;
  for (const auto& [op, mode] : start) {
    if (!op.valid() || op >= instance.op_count()) return instance;  // solve() rejects it
    most = std::max(most, ++computes[op.index()]);
  }
  if (most <= instance.problem().max_computes || most > kMaxConstructedComputes) return instance;
  Instance wider = with_computes(instance, most);
  const bool holds =
      is_permitted(wider, ops_of(start)) && modes_hold(wider, start) && evaluate(wider, start).peak <= wider.budget();
  return holds ? wider : instance;
}

bool is_better(const Schedule& one, const Schedule& other) {
  return one.has_schedule() && (!other.has_schedule() || one.duration < other.duration);
}

const ConstructedSchedule& Constructed::best() const {
  static const ConstructedSchedule none;
  const ConstructedSchedule& checkpoints = checkpoints_ ? *checkpoints_ : none;
  const ConstructedSchedule& any = any_ ? *any_ : none;
  return is_better(checkpoints.schedule, any.schedule) ? checkpoints : any;
}

const ConstructedSchedule& Constructed::best_for(const Instance& next, bool has_none) {
  const bool applies = applies_ && has_plans(next);
  if (!applies || allowance_.deadline().reached()) return best();
  if (!checkpoints_) checkpoints_ = construct_checkpoints(next, allowance_.deadline());
  const bool wants_any = has_none && !best().schedule.has_schedule() && !allowance_.deadline().reached();
  if (wants_any && !any_) any_ = construct_any();
  return best();
}

/// Between segments, with as many runs per op as the instance allows.
ConstructedSchedule Constructed::construct_checkpoints(const Instance& instance, const Deadline& deadline) const {
  if (!options_.segments) return {};
  return described(instance, start_from_segments(instance, [&] { return deadline.reached(); }), Source::segments);
}

/// Within the budget, with any number of runs: nested segments, or a method from the literature.
ConstructedSchedule Constructed::construct_any() const {
  const Deadline deadline(allowance_.uncounted_seconds(kPartOfConstruction), allowance_.deadline().cancel());
  const int fewest = instance_.problem().max_computes;
  ConstructedSchedule nested =
      construct_checkpoints(with_computes(instance_, std::max(kMaxComputes, fewest)), deadline);
  if (nested.schedule.has_schedule() || deadline.reached()) return nested;
  const Instance often = with_computes(instance_, std::max(kMaxConstructedComputes, fewest));
  const Construction found = construct(often, options_, deadline);
  if (found.sequence.empty()) return {};
  return described(often, make_solution(often, found.sequence), found.source);
}

/// The solution as an answer to the problem with as many runs per op as it needs.
ConstructedSchedule Constructed::described(const Instance& instance, const Solution& found, Source source) const {
  if (found.peak > instance.budget()) return {};
  Schedule schedule = describe_problem(instance, options_);
  schedule.lower_bound = instance.baseline_duration();
  schedule.solver.reached_peak = found.peak;
  write_steps(instance, found.computes(instance), schedule);
  schedule.solver.max_computes = with_computes_of(instance_, computes_of(schedule)).problem().max_computes;
  return {std::move(schedule), source};
}

}  // namespace remora
