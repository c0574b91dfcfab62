// SPDX-License-Identifier: Apache-2.0
//
// A report as one self-contained HTML page: style, script and data are inside, nothing is fetched. Its
// Content-Security-Policy allows exactly its own script and style, so that no name of a graph can ever run.
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/curve.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"

namespace remora::report {

struct Page {
  std::shared_ptr<const Graph> graph{};
  /// "ns", …, or "" if unknown.
  std::string duration_unit{};
  /// Each without steps, or one that `verify` finds valid for the graph. At least one unless there is a curve.
  std::vector<Schedule> schedules{};
  std::optional<Curve> curve{};

  struct PointSchedule {
    /// Number of the point's schedule in `schedules`; none if it has none here.
    std::optional<std::size_t> schedule{};
    /// Why there is none.
    std::string why{};
  };
  /// One for each point of the curve; several may share a schedule.
  std::vector<PointSchedule> points{};
};

/// Writes the page. Throws InputError for names that are not UTF-8; then nothing has been written. Numbers are exact up
/// to 2^53, JavaScript's limit.
void write_page(std::ostream& out, const Page& page);

}  // namespace remora::report
