// SPDX-License-Identifier: Apache-2.0
//
// What one run came to: one line of JSON in results.jsonl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/schedule.hpp"

namespace remora::bench {

/// What is measured. With the same graph, and the contender asked the same way, two runs are the same measurement.
struct RunKey {
  std::string instance{};
  /// As in the suite, "80%".
  std::string budget{};
  std::string contender{};
  std::int64_t seed = 1;
  double time_limit = 0;
  int threads = 0;

  friend auto operator<=>(const RunKey&, const RunKey&) = default;
};

struct Result {
  RunKey key{};
  std::string graph_sha256{};
  /// The contender's arguments or command, as the suite has them.
  std::string asked{};
  std::int64_t ops = 0;
  std::int64_t edges = 0;
  std::int64_t budget_bytes = 0;
  /// optimal, feasible, infeasible, unknown as in the schedule; or failed: no valid answer, `note` says why.
  std::string status{};
  /// The problem that the answer is one of.
  std::string order{};
  int max_computes = 0;
  std::int64_t baseline_duration = 0;
  /// Of the schedule; 0 without one.
  std::int64_t duration = 0;
  std::int64_t lower_bound = 0;
  std::int64_t peak_memory = 0;
  /// Wall-clock time of the process, and when its last improvement came by the contender's own clock.
  double seconds = 0;
  double reached = 0;
  double cpu_seconds = 0;
  std::int64_t peak_kibibytes = 0;
  /// Seconds and duration of every incumbent within the budget.
  std::vector<std::pair<double, std::int64_t>> history{};
  /// Figures of the solver's own run, as in SolverReport; empty if it tells none.
  Statistics statistics{};
  std::string note{};
  /// Who: the solver's version, and the commit that this program was built from.
  std::string version{};
  std::string commit{};
  /// Where: processor, cores, memory, system.
  std::string machine{};
  /// When: UTC, ISO 8601.
  std::string when{};

  [[nodiscard]] bool has_schedule() const { return status == "optimal" || status == "feasible"; }
  /// duration / baseline - 1 in per cent; nothing without a schedule.
  [[nodiscard]] std::optional<double> overhead() const;
  /// The same of the lower bound.
  [[nodiscard]] double bound() const;
};

/// value / baseline - 1 in per cent; 0 for a baseline of 0.
double percent_more(std::int64_t value, std::int64_t baseline);

/// One line, without its end.
std::string to_line(const Result& result);

/// Throws InputError with the JSON path.
Result from_line(std::string_view line);

}  // namespace remora::bench
