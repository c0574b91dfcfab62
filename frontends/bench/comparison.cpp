// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/comparison.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace remora::bench {
namespace {

/// The upper median: of two values the worse.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<std::pair<double, double>> progress_of(const Result& run) {
  std::vector<std::pair<double, double>> points;
  points.reserve(run.history.size() + 1);
  for (const auto& [seconds, duration] : run.history) {
    points.emplace_back(seconds, percent_more(duration, run.baseline_duration));
  }
  points.emplace_back(std::max(run.seconds, run.reached), *run.overhead());
  return points;
}

Cell cell_of(const std::vector<const Result*>& runs) {
  Cell cell;
  std::vector<double> overheads;
  std::vector<double> reached;
  std::vector<double> seconds;
  const Result* best = nullptr;
  for (const Result* run : runs) {
    ++cell.runs;
    cell.schedules += run->has_schedule() ? 1 : 0;
    cell.proved += run->status == "optimal" ? 1 : 0;
    cell.infeasible += run->status == "infeasible" ? 1 : 0;
    cell.failed += run->status == "failed" ? 1 : 0;
    if (cell.statistics.empty()) cell.statistics = run->statistics;
    seconds.push_back(run->seconds);
    if (!run->has_schedule()) continue;
    overheads.push_back(*run->overhead());
    reached.push_back(run->reached);
    if (best == nullptr || run->duration < best->duration) best = run;
  }
  if (best != nullptr) cell.progress = progress_of(*best);
  // No schedule counts as worse than any: the median of all runs exists if more than half have one.
  std::sort(overheads.begin(), overheads.end());
  const std::size_t middle = runs.size() / 2;
  if (middle < overheads.size()) cell.overhead = overheads[middle];
  cell.reached = median(reached);
  cell.seconds = median(seconds);
  return cell;
}

/// Whether two runs are asked the same question.
bool same_problem(const Result& a, const Result& b) {
  return a.order == b.order && a.max_computes == b.max_computes;
}

Row row_of(const Suite& suite, const std::vector<const Result*>& results) {
  const Result& any = *results.front();
  Row row{.instance = any.key.instance,
          .graph_sha256 = any.graph_sha256,
          .ops = any.ops,
          .edges = any.edges,
          .budget = any.key.budget,
          .time_limit = any.key.time_limit};
  const Result* first = nullptr;
  for (const Contender& contender : suite.contenders) {
    std::vector<const Result*> runs;
    for (const Result* result : results) {
      if (result->key.contender == contender.name) runs.push_back(result);
    }
    for (const Result* run : runs) {
      if (first == nullptr && &contender == &suite.contenders.front() && run->status != "failed") first = run;
    }
    row.cells.push_back(cell_of(runs));
    const auto& overhead = row.cells.back().overhead;
    if (overhead) row.best = std::min(row.best.value_or(*overhead), *overhead);
  }
  for (const Result* result : results) {
    if (first == nullptr || result->status == "failed" || !same_problem(*result, *first)) continue;
    row.bound = std::max(row.bound.value_or(result->bound()), result->bound());
  }
  return row;
}

}  // namespace

Comparison compare(const Suite& suite, const std::vector<Result>& results) {
  Comparison comparison;
  for (const Contender& contender : suite.contenders) comparison.contenders.push_back(contender.name);
  std::vector<std::pair<std::string, std::string>> keys;
  std::map<std::pair<std::string, std::string>, std::vector<const Result*>> groups;
  for (const Result& result : results) {
    auto& group = groups[{result.key.instance, result.key.budget}];
    if (group.empty()) keys.emplace_back(result.key.instance, result.key.budget);
    group.push_back(&result);
  }
  for (const auto& key : keys) comparison.rows.push_back(row_of(suite, groups[key]));
  return comparison;
}

std::vector<std::string> contradictions(const std::vector<Result>& results) {
  std::map<std::tuple<std::string, std::string, std::string, int>, std::vector<const Result*>> problems;
  for (const Result& result : results) {
    if (result.status == "failed") continue;
    problems[{result.key.instance, result.key.budget, result.order, result.max_computes}].push_back(&result);
  }
  std::vector<std::string> lines;
  for (const auto& [problem, runs] : problems) {
    for (const Result* proof : runs) {
      for (const Result* schedule : runs) {
        if (!schedule->has_schedule()) continue;
        const bool excluded = proof->status == "infeasible" || proof->lower_bound > schedule->duration;
        if (!excluded) continue;
        lines.push_back(std::get<0>(problem) + " " + std::get<1>(problem) + ": " + proof->key.contender +
                        (proof->status == "infeasible" ? " calls it infeasible" : " has a bound above") + ", " +
                        schedule->key.contender + " has a schedule");
      }
    }
  }
  return lines;
}

}  // namespace remora::bench
