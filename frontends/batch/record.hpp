// SPDX-License-Identifier: Apache-2.0
//
// What a batch writes down: a record for each question that was answered, or interrupted, and an error for each task
// that could not be asked (docs/batch.md shows both).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "frontends/batch/question.hpp"

namespace remora::batch {

/// Where and when something was done.
struct Origin {
  std::string host{};
  /// "3/8".
  std::string shard{};
  /// When it was done: UTC, ISO 8601.
  std::string when{};
};

struct Record {
  Question question{};
  /// optimal, feasible, infeasible, unknown, as in the schedule; or interrupted.
  std::string status{};
  /// The task that first asked, and its graph's path.
  std::string task{};
  std::string graph{};
  /// Over all runs that it took, of which all but the last were interrupted.
  double seconds = 0;
  std::int64_t work = 0;
  std::int64_t runs = 1;
  /// Of the last run, as are the origin and the schedule.
  std::int64_t threads = 0;
  /// UTC, ISO 8601.
  std::string started{};
  Origin origin{};
  /// A remora-schedule, as JSON; without steps where there is none.
  std::string schedule{};
};

/// A whole file. Throws InputError for text that is not UTF-8.
std::string record_text(const Record& record);
/// Throws InputError with the JSON path, also if the record is filed under another key than its question's.
Record read_record(std::string_view text, const std::string& key);

/// Why there is no result.
struct TaskError {
  std::string task{};
  std::string graph{};
  /// One line.
  std::string message{};
  Origin origin{};
};

/// A message as it can stand in JSON, whatever bytes of a broken file it holds.
std::string utf8_text(const std::string& message);

std::string error_text(const TaskError& error);
/// Throws InputError with the JSON path.
TaskError read_error(std::string_view text);

/// The numbers of a schedule, which need no graph.
struct Figures {
  std::int64_t budget = 0;
  std::int64_t duration = 0;
  std::int64_t lower_bound = 0;
  std::int64_t peak_memory = 0;
  double overhead = 0;
  double gap = 0;
};
/// Throws InputError with the JSON path. `schedule`: a remora-schedule.
Figures read_figures(std::string_view schedule);

}  // namespace remora::batch
