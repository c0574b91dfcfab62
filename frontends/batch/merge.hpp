// SPDX-License-Identifier: Apache-2.0
//
// Results of a batch: every task of the manifest with its result, its error, or as missing.
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontends/batch/manifest.hpp"
#include "frontends/batch/question.hpp"
#include "frontends/batch/store.hpp"

namespace remora::batch {

/// One task.
struct MergedTask {
  Task task{};
  /// Empty where the graph cannot be read, and the manifest states no digest.
  std::string key{};
  /// As in Record; or error: it could not be asked; damaged: its result is not valid; missing: not begun.
  std::string status{};
  /// Message of an error or a damage.
  std::string message{};
  /// Record of the result, or of an interrupted task's latest run.
  std::optional<Record> record{};
  /// The schedule's, where there is one.
  std::optional<Figures> figures{};

  [[nodiscard]] bool has_schedule() const { return status == "optimal" || status == "feasible"; }
  /// Another run has to be made: interrupted or missing.
  [[nodiscard]] bool is_missing() const { return status == "missing" || status == kInterrupted; }
  [[nodiscard]] bool has_failed() const { return status == "error" || status == "damaged"; }
};

/// Smallest, quartiles and largest of some values.
struct Spread {
  double least = 0;
  double lower = 0;
  double median = 0;
  double upper = 0;
  double most = 0;
};
/// Nothing of no values. Between two values the quartile is linear.
std::optional<Spread> spread_of(std::vector<double> values);

struct Merged {
  std::vector<MergedTask> tasks{};
  std::map<std::string, std::size_t> counts{};
  /// Spread over tasks with a schedule.
  std::optional<Spread> overhead{};
  std::optional<Spread> gap{};
  /// Total of all results and interrupted runs, each counted once however many tasks share it.
  double seconds = 0;
  std::size_t results = 0;
  /// Results in the folder that no task of the manifest asks for.
  std::size_t other_results = 0;

  [[nodiscard]] std::size_t missing() const;
  [[nodiscard]] std::size_t failed() const;
};

/// Why the record is not what it says; empty if it is.
using RecordCheck = std::function<std::string(const Task&, const Record&)>;

/// `check`: called for every result; may be empty. Throws InputError for a folder that cannot be read.
Merged merge(const std::vector<Task>& tasks, const Store& store, Solver& solver, const RecordCheck& check);

/// For people, in so many columns: a line for each task, then the figures, then what is missing and why.
void print_merged(std::ostream& out, const Merged& merged, int columns);
/// A line a task below a line of names; RFC 4180.
void write_csv(std::ostream& out, const Merged& merged);
/// The whole as one JSON object.
void write_summary(std::ostream& out, const Merged& merged);
/// A page (HTML) of graphs against budgets: in each cell what its tasks came to. Below it what is missing, and why.
void write_page(std::ostream& out, const Merged& merged);

}  // namespace remora::batch
