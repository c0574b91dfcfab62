// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/checkmate/rounding.hpp"

#include <algorithm>
#include <utility>

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
    for (Stage k = instance_.producer(TensorId(t)) + 1; k < columns_.stage_count(); ++k) {
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
  for (Stage k = 0; k < columns_.stage_count(); ++k) complete_stage(k, plan);
  return plan;
}

void Rounding::complete_stage(Stage stage, RecomputePlan& plan) const {
  const int last = std::min(stage, instance_.op_count() - 1);
  std::vector<bool> computed(at(last) + 1, false);
  const auto runs = [&](OpId op) { return computed[at(op)]; };
  if (stage == last) computed.back() = true;
  const std::size_t begin = plan.size();
  for (int i = last; i >= 0; --i) {
    const OpId op(i);
    // Users come after their producers, so that whether op is needed is known here.
    for (const TensorId t : instance_.outputs(op)) {
      if (op < stage && retained(stage + 1, t) && !retained(stage, t)) computed[at(i)] = true;
    }
    if (!runs(op)) continue;
    if (op < stage) plan.push_back({stage, op});
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
  Stage from = op;
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
  for (Stage k = 0; k < columns.stage_count(); ++k) {
    for (int i = 0; i < std::min(k, instance.op_count()); ++i) {
      const Term again = columns.recomputed(k, OpId(i));
      if (again.is_column() && values[at(again.column)] > kOne) plan.push_back({k, OpId(i)});
    }
  }
  return plan;
}

}  // namespace remora::checkmate
