// SPDX-License-Identifier: Apache-2.0
//
// What a sweep prints: a line after every sitting, and the curve at its end.
//
//      seconds        budget           part  status       overhead      bound   settled
//         0.31      9.42 GiB       87.500 %  feasible       1.63 %     0.51 %    3 of 7
//
// In less than 80 columns without the part of the peak, and what is settled or the peak.
#pragma once

#include <iosfwd>

#include "engine/sweep.hpp"
#include "frontends/cli/showing/summary.hpp"
#include "model/curve.hpp"
#include "model/graph.hpp"
#include "model/instance.hpp"

namespace remora::cli {

class SweepTable {
 public:
  /// `instance`: of any budget.
  SweepTable(const Instance& instance, std::ostream& out, int width = kSummaryWidth);

  void add(const SweepProgress& progress);

 private:
  /// For what is of the baseline.
  Curve baseline_{};
  std::ostream& out_;
  bool is_narrow_;
  bool header_printed_ = false;
};

/// A line a point, then the knee and the smallest budgets.
void print_curve(std::ostream& out, const Graph& graph, const Curve& curve, int width = kSummaryWidth);

}  // namespace remora::cli
