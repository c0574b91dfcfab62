// SPDX-License-Identifier: Apache-2.0
//
// Plots as SVG text: panels side by side, each with two axes and the same series, one legend below.
//
// A series keeps its mark, dash and colour in every panel of a figure, so that none is told by colour alone. The text
// needs no network and no fonts of its own, and follows the reader's light or dark scheme.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace remora::report {

struct Axis {
  /// With its unit: "seconds".
  std::string label{};
  bool logarithmic = false;
  /// Ends of the axis; where missing, what the points need.
  std::optional<double> least{};
  std::optional<double> most{};
};

/// How a series' points are joined.
enum class Join {
  none,   ///< marks alone
  line,   ///< straight from mark to mark
  steps,  ///< the value holds until the next point; marked only where it is one point
};

struct Series {
  /// What the legend says; series of one name share their style and one line of it.
  std::string name{};
  Join join = Join::none;
  /// (x, y); points that a logarithmic axis cannot show (not above 0) are left out.
  std::vector<std::pair<double, double>> points{};
};

struct Panel {
  std::string title{};
  Axis x{};
  Axis y{};
  std::vector<Series> series{};
};

struct Figure {
  /// Also what a screen reader says.
  std::string title{};
  std::vector<Panel> panels{};
  /// Panels in a row.
  int columns = 1;
};

/// The figure as one SVG document. A panel without points says so.
std::string svg(const Figure& figure);

}  // namespace remora::report
