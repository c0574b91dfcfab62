// SPDX-License-Identifier: Apache-2.0
//
// Plots as SVG text, drawn as the page of `remora report` draws them: the same colours, dashes and marks.
//
//     title    -- series  o series                       a legend of the series with names
//     0 ms         20 ms        40 ms      time          beside: another measure of the axis across
//     |  o- - -.    note                                 notes stand aside of marks and of each other
//     |        ' - - - - -
//     |/////////////////////  fixed memory 1.07 GiB      a band: what the axis does not count
//     0       100      200        step
//
// The text needs no network and no fonts of its own, and follows the reader's light or dark scheme.
#pragma once

#include <optional>
#include <span>
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
  /// About how many ticks there are.
  int ticks = 5;
  /// Band before the axis' 0, not to scale: "fixed memory 1.07 GiB". Empty for no band.
  std::string band{};
  /// For the axis across: further labels at places of it, on the other side of the plot, with its name. Where they
  /// would touch, the later one is left out.
  std::vector<std::pair<double, std::string>> beside{};
  std::string beside_label{};
};

/// How a series' points are joined.
enum class Join {
  none,   ///< marks alone
  line,   ///< straight from point to point
  steps,  ///< the value holds until the next point
};

/// Meaning of a series, which decides its look.
enum class Look {
  schedule,     ///< a line, filled below
  input_order,  ///< dashed, hatched above the figure's limit
  budget,       ///< long dashes
  peak,         ///< triangles that point down
  known,        ///< a line, or hollow marks
  proved,       ///< filled marks
  bound,        ///< dotted
  least,        ///< long dashes
};

struct Series {
  /// Name in the legend; series of one name share a line of it, and one without has none.
  std::string name{};
  Look look = Look::known;
  Join join = Join::none;
  /// (x, y). A series without points is left out.
  std::vector<std::pair<double, double>> points{};
};

/// Words about a point, written where nothing else stands.
struct Note {
  std::string words{};
  double x = 0;
  double y = 0;
};

/// A stretch of the axis across.
struct Bar {
  double first = 0;
  double end = 0;
  /// Hatched.
  bool again = false;
};

/// A row of bars.
struct Lane {
  std::string name{};
  std::vector<Bar> bars{};
};

struct Figure {
  /// Also what a screen reader says.
  std::string title{};
  Axis x{};
  Axis y{};
  std::vector<Series> series{};
  std::vector<Note> notes{};
  /// Scale of y.
  std::optional<double> limit{};
  /// In place of an axis upwards and of series; the first one above.
  std::vector<Lane> lanes{};
};

/// The figure as one SVG document. One without points says so.
std::string svg(const Figure& figure);
/// Several of them, one below the other.
std::string svg(std::span<const Figure> figures);

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

/// A rectangle on a drawing that something stands on.
struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;

  [[nodiscard]] bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

/// Finds places for words.
class Labels {
 public:
  explicit Labels(const Box& within) : within_(within) {}

  /// Where nothing may be written.
  void avoid(const Box& box) { taken_.push_back(box); }
  /// The box of the words beside the point, which is taken then: the first of the places around it, nearer ones first, that
  /// is free; if none is, the one that meets least.
  Box place(const std::string& words, double x, double y);

 private:
  Box within_;
  std::vector<Box> taken_{};
};

/// How wide words are, about.
double width_of(const std::string& words);

}  // namespace remora::report
