// SPDX-License-Identifier: Apache-2.0
#include "engine/hierarchy/option_grid.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/bound/footprint.hpp"
#include "engine/deadline.hpp"
#include "engine/hierarchy/composition.hpp"
#include "engine/search/worker.hpp"
#include "engine/solve.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

/// Limits on the peak, as parts of the way from the least that an op needs to what the option without a limit needs.
constexpr std::array kPeakParts{0.6, 0.25};

Bytes unlimited(const BlockProblem& problem) {
  Bytes sum;
  for (const Tensor& tensor : problem.graph->tensors) sum += tensor.size;
  Bytes workspace;
  for (const Op& op : problem.graph->ops) workspace = std::max(workspace, op.workspace);
  return sum + sum + workspace;
}

/// What is in memory between the halves, the interface's share included.
Bytes held_between(const BlockProblem& problem, const GroupOption& option) {
  const std::vector<int> interface = problem.block->interface();
  Bytes sum = option.saved;
  for (std::size_t i = 0; i < interface.size(); ++i) {
    if (option.reads[i]) sum += problem.block->tensors[static_cast<std::size_t>(interface[i])].size;
  }
  return sum;
}

std::vector<Compute> solve_ops(const Instance& instance, const SolveOptions& options, const CellLimits& limits) {
  SolveOptions inner = options;
  inner.strategy = Strategy::automatic;
  inner.threads = 1;
  inner.time_limit = limits.seconds;
  inner.work_limit = limits.work;
  const Schedule schedule = solve(instance, inner);
  std::vector<Compute> sequence;
  if (!schedule.has_schedule()) return sequence;
  sequence.reserve(schedule.steps.size());
  for (const Step& step : schedule.steps) sequence.push_back({step.op, 0});
  return sequence;
}

std::vector<Compute> solve_options(const Instance& instance, const SolveOptions& options, const CellLimits& limits) {
  const Deadline deadline(limits.seconds, nullptr);
  CompositionLimits inner;
  inner.effort = limits.work > 0 ? limits.work : INT64_MAX;
  inner.interrupted = [&] { return deadline.reached() || (limits.interrupted && limits.interrupted()); };
  Composition composition = compose(instance, options, static_cast<std::uint64_t>(options.seed), inner);
  if (composition.peak > instance.budget()) return {};
  return std::move(composition.sequence);
}

/// Whether a is nowhere worse than b.
bool beats(const GroupOption& a, const GroupOption& b) {
  const auto no_more = [](const auto& x, const auto& y) { return !(y < x); };
  if (!no_more(a.duration(), b.duration()) || !no_more(a.saved, b.saved) || a.computes > b.computes) return false;
  if (!no_more(a.forward_cost.workspace + a.saved, b.forward_cost.workspace + b.saved)) return false;
  if (!no_more(a.backward_cost.workspace + a.saved, b.backward_cost.workspace + b.saved)) return false;
  for (std::size_t i = 0; i < a.reads.size(); ++i) {
    if (a.reads[i] && !b.reads[i]) return false;
  }
  return true;
}

}  // namespace

GroupOption saving_option(const BlockProblem& problem) {
  const Instance instance(problem.graph, {.max_computes = problem.max_computes}, problem.options);
  return measure_option(problem, instance, computes_of(input_order(instance)));
}

std::vector<GridBudget> make_grid(const BlockProblem& problem, const GroupOption& saving, int levels) {
  const Bytes most = unlimited(problem);
  const Instance instance(problem.graph, {.max_computes = problem.max_computes}, problem.options);
  const Bytes least_peak = least_budget(instance);
  const Bytes held = held_between(problem, saving);
  std::vector<GridBudget> grid;
  const int rows = problem.block->has_halves() ? levels : 1;
  for (int row = 0; row < rows; ++row) {
    const double part = rows == 1 ? 1 : static_cast<double>(rows - 1 - row) / (rows - 1);
    const Bytes saved(static_cast<std::int64_t>(static_cast<double>(held.count()) * part));
    grid.push_back({most, saved});
    for (const double peak_part : kPeakParts) {
      const auto way = static_cast<double>(std::max<std::int64_t>(0, (saving.peak - least_peak).count()));
      grid.push_back({least_peak + Bytes(static_cast<std::int64_t>(way * peak_part)), saved});
    }
  }
  return grid;
}

std::optional<GroupOption> solve_cell(const BlockProblem& problem, const GridBudget& budget,
                                      const SolveOptions& options, const CellLimits& limits) {
  const Instance instance = with_budgets(problem, budget.peak, budget.saved);
  std::vector<Compute> sequence = problem.options ? solve_options(instance, options, limits)
                                                  : solve_ops(instance, options, limits);
  if (sequence.empty()) return std::nullopt;
  return measure_option(problem, instance, std::move(sequence));
}

std::vector<GroupOption> select_options(std::vector<GroupOption> options, std::size_t most) {
  std::stable_sort(options.begin(), options.end(), [](const GroupOption& a, const GroupOption& b) {
    return a.duration() != b.duration() ? a.duration() < b.duration() : a.saved < b.saved;
  });
  std::vector<GroupOption> pareto;
  for (GroupOption& option : options) {
    const bool beaten =
        std::any_of(pareto.begin(), pareto.end(), [&](const GroupOption& better) { return beats(better, option); });
    if (!beaten) pareto.push_back(std::move(option));
  }
  if (pareto.size() <= most) return pareto;
  // The shortest, the one that saves least, and then whichever is farthest from those chosen.
  const auto position = [&](std::size_t i) { return static_cast<double>(pareto[i].saved.count()); };
  std::vector<bool> chosen(pareto.size(), false);
  const auto least = std::min_element(pareto.begin(), pareto.end(), [](const GroupOption& a, const GroupOption& b) {
    return a.saved < b.saved;
  });
  chosen[0] = chosen[static_cast<std::size_t>(least - pareto.begin())] = true;
  for (auto count = static_cast<std::size_t>(std::count(chosen.begin(), chosen.end(), true)); count < most; ++count) {
    double farthest = -1;
    std::size_t next = 0;
    for (std::size_t i = 0; i < pareto.size(); ++i) {
      if (chosen[i]) continue;
      double nearest = 1e300;
      for (std::size_t j = 0; j < pareto.size(); ++j) {
        if (chosen[j]) nearest = std::min(nearest, std::abs(position(i) - position(j)));
      }
      if (nearest > farthest) {
        farthest = nearest;
        next = i;
      }
    }
    chosen[next] = true;
  }
  std::vector<GroupOption> result;
  for (std::size_t i = 0; i < pareto.size(); ++i) {
    if (chosen[i]) result.push_back(std::move(pareto[i]));
  }
  return result;
}

}  // namespace remora
