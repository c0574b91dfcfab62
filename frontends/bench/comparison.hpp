// SPDX-License-Identifier: Apache-2.0
//
// Results side by side: a row for every instance and budget, a cell for every contender, medians over seeds.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/bench/result.hpp"
#include "frontends/bench/suite.hpp"
#include "model/schedule.hpp"

namespace remora::bench {

/// Of one contender on one instance and budget.
struct Cell {
  int runs = 0;
  int schedules = 0;
  int proved = 0;
  int infeasible = 0;
  int failed = 0;
  /// Medians over the runs (the upper one of two): overhead in per cent, in which no schedule is worst; seconds to the
  /// last improvement of the runs with a schedule; seconds of the process.
  std::optional<double> overhead{};
  double reached = 0;
  double seconds = 0;
  /// Of the best run: seconds and overhead in per cent of each incumbent, and the last one again at the run's end.
  std::vector<std::pair<double, double>> progress{};
  /// Of the first run that tells some.
  Statistics statistics{};
};

struct Row {
  std::string instance{};
  std::string graph_sha256{};
  std::int64_t ops = 0;
  std::int64_t edges = 0;
  std::string budget{};
  /// Seconds a run.
  double time_limit = 0;
  /// By contender, as in the comparison.
  std::vector<Cell> cells{};
  /// The best bound, in per cent, of those who solve the problem that the first contender solves; none without it.
  std::optional<double> bound{};
  /// The best of the cells' overheads.
  std::optional<double> best{};
};

struct Comparison {
  std::vector<std::string> contenders{};
  std::vector<Row> rows{};
};

/// Rows in the order of the results, contenders in that of the suite.
Comparison compare(const Suite& suite, const std::vector<Result>& results);

/// Where one contender's proof and another's schedule of the same problem (instance, budget, order, computes an op)
/// exclude each other: a line each. Something is wrong then.
std::vector<std::string> contradictions(const std::vector<Result>& results);

}  // namespace remora::bench
