// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/checkmate/checkmate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "engine/baselines/checkmate/mip.hpp"
#include "engine/baselines/checkmate/program.hpp"
#include "engine/baselines/checkmate/relaxation.hpp"
#include "engine/baselines/checkmate/rounding.hpp"
#include "engine/bound/cover_mip.hpp"
#include "engine/search/solution.hpp"

namespace remora {
namespace {

using checkmate::Columns;
using checkmate::Program;

/// What CBC can begin with: beyond it the relaxation alone takes hours, and the copies that CBC makes many GiB.
constexpr std::int64_t kMostCoefficients = 3'000'000;
constexpr std::int64_t kUnlimitedNodes = INT64_MAX;
/// Thresholds of deterministic rounding are 1 / kThresholds apart.
constexpr int kThresholds = 20;
constexpr int kDraws = 50;
/// What is taken off the budget where the roundings before exceeded it, in parts of the budget beyond base memory. The
/// paper takes 0.1.
constexpr std::array kAllowances{0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5};

/// Why there will be no program; empty if there can be one.
std::string refusal(const Instance& instance) {
  if (!cover_mip_available()) return "this build has no COIN-OR CBC";
  if (instance.budget() < instance.base_memory()) return "the budget is below base memory";
  const checkmate::ProgramSize size = checkmate::program_size(instance);
  if (size.coefficients <= kMostCoefficients) return "";
  return "too large for CBC: up to " + std::to_string(size.columns) + " columns and " +
         std::to_string(size.coefficients) + " coefficients";
}

std::string describe(const Program& program) {
  return std::to_string(program.costs.size()) + " columns, " + std::to_string(program.rows.least.size()) + " rows";
}

std::string percent(double part) {
  return std::to_string(std::lround(100 * part)) + " %";
}

double seconds_left(const MethodInput& input) {
  return std::max(0.0, input.options.time_limit - input.deadline.elapsed());
}

/// The bound is for plans, which follow the input order.
Duration bound_for(const Instance& instance, Duration bound) {
  return instance.problem().order == OrderMode::input ? bound : Duration(0);
}

/// The evaluator has the last word on memory, in whole bytes.
void take_solution(const Instance& instance, RecomputePlan plan, MethodResult& result) {
  const Solution best = make_solution(instance, std::move(plan));
  result.sequence = sequence_of(instance, best.plan());
  if (best.peak > instance.budget()) result.note += "; CBC's solution exceeds the budget, by its tolerances";
}

/// The best plan of one relaxation's roundings, if better than `best`.
void round_all(const Instance& instance, const Columns& columns, const std::vector<double>& values, Random& random,
               const Deadline& deadline, std::optional<Solution>& best) {
  checkmate::Rounding rounding(instance, columns, values);
  for (int i = 1; i < kThresholds + kDraws; ++i) {
    if (best && deadline.reached()) return;
    Solution solution = make_solution(
        instance, i < kThresholds ? rounding.deterministic(double(i) / kThresholds) : rounding.randomized(random));
    if (!best || better(instance, solution, *best)) best = std::move(solution);
  }
}

Instance with_less(const Instance& instance, double allowance) {
  const Bytes room = instance.budget() - instance.base_memory();
  return instance.with_budget(instance.budget() -
                              Bytes(static_cast<std::int64_t>(static_cast<double>(room.count()) * allowance)));
}

}  // namespace

MethodResult run_checkmate(const MethodInput& input) {
  const Instance& instance = input.instance;
  MethodResult result{.note = refusal(instance)};
  if (!result.note.empty()) return result;
  const Columns columns(instance);
  const std::optional<Program> program = make_program(instance, columns, input.deadline);
  if (!program) {
    result.note = "stopped before the program was made";
    return result;
  }
  result.note = describe(*program);
  const std::int64_t nodes = input.options.work_limit > 0 ? input.options.work_limit : kUnlimitedNodes;
  const checkmate::MipSolution solution =
      checkmate::solve_mip(*program, {input.deadline, seconds_left(input), nodes, input.options.gap});
  result.work = solution.nodes;
  result.lower_bound = bound_for(instance, solution.bound);
  if (solution.infeasible) result.note += "; CBC: infeasible";
  if (solution.values.empty()) return result;
  take_solution(instance, plan_of_values(instance, columns, solution.values), result);
  return result;
}

MethodResult run_checkmate_lp(const MethodInput& input) {
  const Instance& instance = input.instance;
  MethodResult result{.note = refusal(instance)};
  if (!result.note.empty()) return result;
  const Columns columns(instance);
  Random random(static_cast<std::uint64_t>(input.options.seed));
  std::optional<Solution> best;
  for (const double allowance : kAllowances) {
    if (best && (best->peak <= instance.budget() || input.deadline.reached())) break;
    const auto program = make_program(with_less(instance, allowance), columns, input.deadline);
    if (!program) break;
    const checkmate::Relaxation relaxation = solve_relaxation(*program, input.deadline);
    result.work += relaxation.iterations;
    if (allowance == 0) result.lower_bound = bound_for(instance, relaxation.bound);
    result.note = describe(*program);
    if (allowance > 0) result.note += "; budget lowered by up to " + percent(allowance);
    if (relaxation.infeasible) result.note += "; Clp: infeasible";
    if (relaxation.values.empty()) break;
    round_all(instance, columns, relaxation.values, random, input.deadline, best);
  }
  if (best) result.sequence = sequence_of(instance, best->plan());
  return result;
}

}  // namespace remora
