// SPDX-License-Identifier: Apache-2.0
//
// Questions of tasks and the keys of their results, the records that answers are kept in, and who answers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontends/batch/manifest.hpp"
#include "frontends/formats/document.hpp"

namespace remora::batch {

// Question of a task, and the key of its result.
//
// The key is a digest of everything that the answer may depend on and the user decides: the graph's bytes, the budget,
// every option that changes what is asked (defaults written out), and the solver's version. It is not one of the task's
// id, the graph's path, the number of threads or the machine: these say for whom, where and how fast. Two tasks with
// the same key ask the same, and share one result.

class Solver;

/// Options as name and value, in a fixed order.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct Question {
  /// Version of remora.
  std::string version{};
  std::string graph_sha256{};
  std::string budget{};
  Settings settings{};

  friend bool operator==(const Question&, const Question&) = default;
};

/// The question as JSON, in one line: equal questions have equal texts.
std::string question_text(const Question& question);
/// Throws InputError with the JSON path.
Question read_question(const json::Node& node);

/// 64 hexadecimal digits.
std::string key_of(const Question& question);

/// The name that errors of the task are filed under, for what cannot be read has no key: a digest of its manifest
/// line, so that a line that was mended, or another manifest's, does not meet the error of an older one.
std::string error_name_of(const Task& task);

/// Makes questions of tasks. A file is read for its digest once, and not at all where the manifest states it.
class Asking {
 public:
  explicit Asking(Solver& solver) : solver_(solver) {}

  /// Throws InputError for a graph, or another file, that cannot be read.
  Question question_of(const Task& task);
  /// Throws InputError if the graph file is not the one that the manifest states.
  void check_digest(const Task& task);

 private:
  const std::string& digest_of(const std::string& path);

  Solver& solver_;
  std::map<std::string, std::string> digests_{};
};

// Files of a batch: a record for each question that was answered, or interrupted, and an error for each task
// that could not be asked (docs/guide/batch.md shows both).

/// Where and when something was done.
struct Origin {
  std::string host{};
  /// "3/8".
  std::string shard{};
  /// When it was done: UTC, ISO 8601.
  std::string when{};
};

/// The status of a task that another run has to go on with; all others are a schedule's.
inline constexpr const char* kInterrupted = "interrupted";

struct Record {
  Question question{};
  /// optimal, feasible, infeasible, unknown, as in the schedule; or kInterrupted.
  std::string status{};
  /// The task that first asked, and its graph's path.
  std::string task{};
  std::string graph{};
  /// Over all runs that it took, of which all but the last were interrupted.
  double seconds = 0;
  std::int64_t work = 0;
  std::int64_t runs = 1;
  /// Statistics of the last run, as are the origin and the schedule.
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

/// Bytes by device; of a graph for one device one amount without a name.
using Amounts = std::vector<std::pair<std::string, std::int64_t>>;
/// "123", or "gpu=12 cpu=3".
std::string amounts_text(const Amounts& amounts);
/// 123, or {"gpu": 12, "cpu": 3}.
void append_amounts(std::string& out, const Amounts& amounts);

/// The numbers of a schedule, which need no graph.
struct Figures {
  Amounts budget{};
  std::int64_t duration = 0;
  std::int64_t energy = 0;
  /// Bound on the objective.
  std::int64_t lower_bound = 0;
  Amounts peak_memory{};
  double overhead = 0;
  double gap = 0;
};
/// Throws InputError with the JSON path. `schedule`: a remora-schedule.
Figures read_figures(std::string_view schedule);

/// Result of an interrupted run of the same question.
struct Begun {
  std::string schedule{};
  double seconds = 0;
  std::int64_t work = 0;
};

struct Answer {
  /// As in Record.
  std::string status{};
  std::string schedule{};
  /// Limits of this run.
  double seconds = 0;
  std::int64_t work = 0;
  std::int64_t threads = 0;
};

struct Request {
  const Task& task;
  /// Hash of the graph file that is to be solved.
  const std::string& graph_sha256;
  const std::optional<Begun>& begun;
  /// To be called now and then with the best so far, as if it had been interrupted there: what a killed process leaves.
  /// May be empty.
  std::function<void(const Answer&)> keep{};
};

/// How tasks are solved. One lives through all tasks of a batch, so what tasks may share is its own.
class Solver {
 public:
  virtual ~Solver() = default;

  /// Everything that changes what the task asks, but for graph and budget. Throws for a file that cannot be read.
  virtual Settings settings(const Task& task) = 0;
  /// Solves it, or goes on with what was begun. Nothing if it was cancelled before it had begun. Throws std::exception
  /// for what cannot be solved.
  virtual std::optional<Answer> solve(const Request& request) = 0;
};

}  // namespace remora::batch
