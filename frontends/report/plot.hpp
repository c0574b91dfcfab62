// SPDX-License-Identifier: Apache-2.0
//
// Plots as SVG text: series over two axes, with a legend below.
//
// Series are told apart by mark, dash and colour, not by colour alone. The text needs no network and no fonts of its
// own, and follows the reader's light or dark scheme.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/types.hpp"

namespace remora::report {

/// A unit that axes of memory are labelled in.
struct MemoryUnit {
  const char* name = "B";
  double bytes = 1;

  [[nodiscard]] double amount(Bytes count) const { return static_cast<double>(count.count()) / bytes; }
};

/// The largest of B, KiB, … EiB of which `most` makes at least one.
MemoryUnit memory_unit_for(Bytes most);

struct Axis {
  /// With its unit: "seconds".
  std::string label{};
  /// Ends of the axis; where missing, what the points need, 0 included.
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
  /// (x, y). A series without points is left out.
  std::vector<std::pair<double, double>> points{};
};

struct Figure {
  /// Also what a screen reader says.
  std::string title{};
  Axis x{};
  Axis y{};
  std::vector<Series> series{};
};

/// The figure as one SVG document. One without points says so.
std::string svg(const Figure& figure);

/// Where values lie along an axis, and which of them are written beside it.
class AxisScale {
 public:
  /// The scale of an axis that shows all the values.
  AxisScale(const Axis& axis, const std::vector<double>& values);

  /// 0 at the beginning of the axis, 1 at its end; beyond that, clipped.
  [[nodiscard]] double place(double value) const;
  [[nodiscard]] const std::vector<double>& ticks() const { return ticks_; }

 private:
  double least_ = 0;
  double most_ = 1;
  std::vector<double> ticks_{};
};

/// A tick as people write it: "0.5", "20", "10,000".
std::string tick_text(double value);

}  // namespace remora::report
