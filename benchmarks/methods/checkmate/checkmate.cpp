// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/methods/checkmate/checkmate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "benchmarks/methods/checkmate/mip.hpp"
#include "benchmarks/methods/checkmate/program.hpp"
#include "engine/bound/cover_mip.hpp"
#include "engine/search/solution.hpp"
#include "model/table.hpp"

namespace remora::checkmate {
namespace {

constexpr double kOne = 0.5;

}  // namespace

Rounding::Rounding(const Instance& instance, const Columns& columns, const std::vector<double>& values)
    : instance_(instance), columns_(columns), values_(values), retained_(at(columns.count())) {}

RecomputePlan Rounding::deterministic(double threshold) {
  round([&](double value) { return value >= threshold; });
  return complete_within_limits();
}

RecomputePlan Rounding::randomized(Random& random) {
  round([&](double value) { return random.unit() < value; });
  return complete_within_limits();
}

RecomputePlan Rounding::complete_within_limits() {
  RecomputePlan plan = complete();
  // Each time, an op beyond its limit retains its outputs in stages where it did not.
  while (repair(plan)) plan = complete();
  return plan;
}

void Rounding::round(const std::function<bool(double)>& is_one) {
  for (int t = 0; t < instance_.tensor_count(); ++t) {
    if (!instance_.producer(TensorId(t)).valid()) continue;
    for (Stage k = Stage{instance_.producer(TensorId(t))} + 1; k < columns_.stage_count(); ++k) {
      const Term held = columns_.retained(k, TensorId(t));
      if (!held.is_column()) continue;
      const auto column = at(held.column);
      retained_[column] = is_one(values_[column]);
    }
  }
}

bool Rounding::retained(Stage stage, TensorId tensor) const {
  const Term held = columns_.retained(stage, tensor);
  return held.is_column() ? retained_[at(held.column)] : held.is(1);
}

RecomputePlan Rounding::complete() const {
  RecomputePlan plan;
  for (Stage k{0}; k < columns_.stage_count(); ++k) complete_stage(k, plan);
  return plan;
}

void Rounding::complete_stage(Stage stage, RecomputePlan& plan) const {
  const int last = std::min<int>(stage, instance_.op_count() - 1);
  std::vector<bool> computed(at(last) + 1, false);
  const auto runs = [&](OpId op) { return computed[at(op)]; };
  if (stage == last) computed.back() = true;
  const std::size_t begin = plan.size();
  for (int i = last; i >= 0; --i) {
    const OpId op(i);
    // Users come after their producers, so that whether op is needed is known here.
    for (const TensorId t : instance_.outputs(op)) {
      if (Stage{op} < stage && retained(stage + 1, t) && !retained(stage, t)) computed[at(i)] = true;
    }
    if (!runs(op)) continue;
    if (Stage{op} < stage) plan.push_back({stage, op});
    for (const TensorId t : instance_.inputs(op)) {
      if (!retained(stage, t)) computed[at(instance_.producer(t))] = true;
    }
  }
  std::reverse(plan.begin() + static_cast<std::ptrdiff_t>(begin), plan.end());
}

bool Rounding::repair(const RecomputePlan& plan) {
  Table<OpId, std::vector<Stage>> stages(instance_.op_count());
  for (const Recompute& recompute : plan) stages[recompute.op].push_back(recompute.stage);
  bool any = false;
  for (int i = 0; i < instance_.op_count(); ++i) {
    const auto& again = stages[OpId(i)];
    const int excess = static_cast<int>(again.size()) + 1 - instance_.max_computes(OpId(i));
    if (excess <= 0) continue;
    retain_closest(OpId(i), again, at(excess));
    any = true;
  }
  return any;
}

void Rounding::retain_closest(OpId op, const std::vector<Stage>& again, std::size_t count) {
  std::vector<std::pair<Stage, Stage>> stretches;
  Stage from{op};
  for (const Stage stage : again) {
    stretches.emplace_back(from, stage);
    from = stage;
  }
  std::stable_sort(stretches.begin(), stretches.end(),
                   [](const auto& a, const auto& b) { return a.second - a.first < b.second - b.first; });
  stretches.resize(count);
  for (const auto& [first, last] : stretches) {
    for (const TensorId t : instance_.outputs(op)) {
      for (Stage k = first + 1; k <= last; ++k) {
        const Term held = columns_.retained(k, t);
        if (held.is_column()) retained_[at(held.column)] = true;
      }
    }
  }
}

RecomputePlan plan_of_values(const Instance& instance, const Columns& columns, const std::vector<double>& values) {
  RecomputePlan plan;
  for (Stage k{0}; k < columns.stage_count(); ++k) {
    for (int i = 0; i < std::min<int>(k, instance.op_count()); ++i) {
      const Term again = columns.recomputed(k, OpId(i));
      if (again.is_column() && values[at(again.column)] > kOne) plan.push_back({k, OpId(i)});
    }
  }
  return plan;
}

}  // namespace remora::checkmate

namespace remora {
namespace {

using checkmate::Columns;
using checkmate::Program;

/// The largest program for CBC: beyond it the relaxation alone takes hours, and CBC's copies take many GiB.
constexpr std::int64_t kMaxCoefficients = 3'000'000;
constexpr std::int64_t kUnlimitedNodes = INT64_MAX;
/// Thresholds of deterministic rounding are 1 / kThresholds apart.
constexpr int kThresholds = 20;
constexpr int kDraws = 50;
/// Parts of the budget beyond base memory that are subtracted from it after roundings exceeded it. The paper takes 0.1.
constexpr std::array kAllowances{0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5};

/// Why there will be no program; empty if there can be one.
std::string refusal(const Instance& instance) {
  if (!cover_mip_available()) return "this build has no COIN-OR CBC";
  if (instance.budget() < instance.base_memory()) return "the budget is below base memory";
  const checkmate::ProgramSize size = checkmate::program_size(instance);
  if (size.coefficients <= kMaxCoefficients) return "";
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
