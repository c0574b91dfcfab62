// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>

#include "engine/solve.hpp"
#include "model/instance.hpp"

namespace remora::cli {

/// The table that a solve prints while it runs, in the manner of MIP solvers: a line for every better schedule and, at
/// most a few times a second, for a better bound.
///
///      seconds  phase  worker        overhead  peak/budget     bound       gap
///         0.02      1  peak            1.63 %      99.9 %     0.51 %    1.10 %
class ProgressTable {
 public:
  ProgressTable(const Instance& instance, std::ostream& out) : instance_(instance), out_(out) {}

  void add(const Progress& progress);

 private:
  void print_header();

  const Instance& instance_;
  std::ostream& out_;
  bool header_printed_ = false;
  double last_bound_line_ = -1;
  Progress last_{};
};

}  // namespace remora::cli
