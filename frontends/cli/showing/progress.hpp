// SPDX-License-Identifier: Apache-2.0
//
// How a solve shows its progress on standard error: a table that grows, and on a terminal a line below it that changes.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "engine/base/callbacks.hpp"
#include "engine/base/options.hpp"
#include "model/devices/schedule.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora::cli {

/// A moment of a solve as parts of one.
struct ProgressFigures {
  bool feasible = false;
  /// Overheads of the schedule and of the lower bound, beyond every op once.
  double overhead = 0;
  double bound = 0;
  /// Peak by budget.
  double filled = 0;
  /// Means nothing above the budget.
  double gap = 0;
};

ProgressFigures progress_figures(const Instance& instance, const Progress& progress);

/// The table that a solve prints while it runs, in the manner of MIP solvers: a line for every better schedule and, at
/// most a few times a second, for a better bound.
///
///      seconds  phase  worker        overhead  peak/budget     bound       gap
///         0.02      1  peak            1.63 %      99.9 %     0.51 %    1.10 %
///
/// Below kWideTable columns phase, worker and peak are left out. Of several devices:
///
///      seconds  worker                duration             bound       gap
///         0.02  local                  8390329           8256618    1.59 %
class ProgressTable {
 public:
  static constexpr int kWideTable = 84;

  /// `pause`: seconds between two lines at least, for logs; what came last is printed at the end.
  ProgressTable(const Instance& instance, std::ostream& out, int width = kWideTable, double pause = 0);
  ProgressTable(Objective objective, std::ostream& out, double pause = 0);
  ProgressTable(const ProgressTable&) = delete;
  ProgressTable& operator=(const ProgressTable&) = delete;
  ~ProgressTable();

  void add(const Progress& progress);
  /// After every round: what waits is printed when its time has come.
  void beat(const Progress& progress);

 private:
  void print(const Progress& progress);

  std::string header_;
  std::function<std::string(const Progress&)> line_;
  std::ostream& out_;
  double pause_;
  double last_line_ = 0;
  /// The last one is not printed yet.
  bool is_waiting_ = false;
  bool header_printed_ = false;
  double last_bound_line_ = -1;
  Progress last_{};
};

// One line for every event, as JSON, for programs; the last one says what came out.

void write_event(std::ostream& out, const Instance& instance, const Progress& progress);
/// Progress over several devices, in the unit of this objective.
void write_event(std::ostream& out, Objective objective, const Progress& progress);
/// `refusal`: why there is no schedule, in a line; empty if there is one.
void write_end(std::ostream& out, const Schedule& schedule, const std::string& refusal);
void write_end(std::ostream& out, const DeviceSchedule& schedule, const std::string& refusal);

/// One line on a terminal that is updated a few times a second while a solve runs, and wiped away at the end:
///
///     [=======>            ]  38 %    22.9 s  phase 2  overhead 3.031 %  gap 1.943 %
///
/// The bar is the part of the time or work limit that is used, whichever is more; without a limit there is none.
class ProgressBar {
 public:
  /// `width`: of the terminal, in columns; what is longer is cut off.
  ProgressBar(const Instance& instance, const SolveOptions& options, std::ostream& out, int width = 120)
      : instance_(instance), options_(options), out_(out), width_(static_cast<std::size_t>(width)) {}
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();

  void show(const Progress& progress);
  /// Makes room for a line of something else; the next `show` brings it back.
  void wipe();

 private:
  [[nodiscard]] double part_used(const Progress& progress) const;

  const Instance& instance_;
  const SolveOptions& options_;
  std::ostream& out_;
  std::size_t width_;
  double last_ = -1;
};

}  // namespace remora::cli
