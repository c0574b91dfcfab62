// SPDX-License-Identifier: Apache-2.0
#include "engine/search/answer.hpp"

#include <cstdint>

#include "engine/base/version.hpp"
#include "model/evaluate.hpp"

namespace remora {

Schedule describe_problem(const Instance& instance, const SolveOptions& options) {
  Schedule schedule;
  schedule.graph = instance.graph().name;
  schedule.order = instance.options().order;
  schedule.budget = instance.budget();
  schedule.baseline_duration = instance.baseline_duration();
  schedule.baseline_peak_memory = baseline_peak(instance);
  schedule.solver.version = version();
  schedule.solver.seed = static_cast<std::uint64_t>(options.seed);
  schedule.solver.threads = thread_count(options);
  schedule.solver.max_computes = instance.options().max_computes;
  schedule.solver.time_limit = options.time_limit;
  schedule.solver.work_limit = options.work_limit;
  schedule.solver.options = describe_options(options);
  return schedule;
}

void write_answer(const Instance& instance, const SearchState& state, std::span<const OpId> sequence,
                  Schedule& schedule) {
  schedule.lower_bound = instance.baseline_duration() + state.lower_bound;
  schedule.status = state.infeasible ? Status::infeasible : Status::unknown;
  schedule.solver.work = state.work;
  schedule.solver.history = state.history;
  if (sequence.empty() && instance.op_count() > 0) return;
  const Evaluation evaluation = evaluate(instance, sequence);
  if (evaluation.peak > instance.budget()) return;
  schedule.steps = steps_of(instance, sequence);
  schedule.duration = evaluation.duration;
  schedule.peak_memory = evaluation.peak;
  schedule.status = evaluation.duration <= schedule.lower_bound ? Status::optimal : Status::feasible;
}

Schedule incumbent_of(const Instance& instance, const SolveOptions& options, const SearchState& state,
                      std::span<const OpId> sequence, const Deadline& deadline) {
  Schedule schedule = describe_problem(instance, options);
  write_answer(instance, state, sequence, schedule);
  schedule.solver.seconds = deadline.elapsed();
  return schedule;
}

}  // namespace remora
