// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <sstream>

#include "frontends/report/markup.hpp"

namespace remora::report {

MemoryUnit memory_unit_for(Bytes most) {
  constexpr std::array kNames{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  MemoryUnit unit;
  for (std::size_t i = 1; i < kNames.size() && unit.amount(most) >= 1024; ++i) {
    unit = {kNames[i], unit.bytes * 1024};
  }
  return unit;
}

namespace {

constexpr double kWidth = 380;
constexpr double kHeight = 270;
constexpr double kLeft = 62;
constexpr double kRight = 14;
constexpr double kTop = 30;
constexpr double kBottom = 46;
constexpr double kTitle = 34;
constexpr double kLegendLine = 20;
constexpr double kLegendEntry = 150;
constexpr std::size_t kEntriesInLine = 2;
constexpr double kMark = 3.6;
constexpr std::size_t kMarks = 6;

/// Colours that are told apart with any colour vision (Okabe and Ito 2008), all but the two palest.
constexpr std::array kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"};
constexpr std::array kDashes{"", "6 3", "2 3", "8 3 2 3"};

constexpr int kTicks = 5;

/// The least of 1, 2, 5 times a power of ten that is at least `step`.
double round_step(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

/// Writes one figure.
class Drawing {
 public:
  explicit Drawing(const Figure& figure) : figure_(figure) {
    out_ << std::fixed << std::setprecision(1);
    for (const Series& series : figure.series) {
      const bool known = std::find(names_.begin(), names_.end(), series.name) != names_.end();
      if (!known && !series.points.empty()) names_.push_back(series.name);
    }
  }

  std::string text() {
    const double legend = kTitle + kHeight + 8;
    open(legend + legend_height());
    std::vector<double> across;
    std::vector<double> up;
    for (const Series& series : figure_.series) {
      for (const auto& [a, b] : series.points) {
        across.push_back(a);
        up.push_back(b);
      }
    }
    const AxisScale horizontal(figure_.x, across);
    const AxisScale vertical(figure_.y, up);
    out_ << "<g transform=\"translate(0 " << kTitle << ")\">\n";
    draw_axes(horizontal, vertical);
    if (across.empty()) label(kWidth / 2, kHeight / 2, "middle", "nothing to show");
    for (const Series& series : figure_.series) draw(series, horizontal, vertical);
    out_ << "</g>\n";
    draw_legend(legend);
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  [[nodiscard]] double legend_height() const {
    const std::size_t lines = (names_.size() + kEntriesInLine - 1) / kEntriesInLine;
    return kLegendLine * static_cast<double>(lines) + 8;
  }

  void open(double height) {
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << kWidth << " " << height << "\" width=\""
         << kWidth << "\" height=\"" << height << "\" role=\"img\" aria-label=\"" << escaped(figure_.title) << "\">\n"
         << "<style>text{font:12px sans-serif;fill:#222}.axis{stroke:#222;fill:none}.grid{stroke:#ddd}.back{fill:#fff}"
            "@media(prefers-color-scheme:dark){text{fill:#ddd}.axis{stroke:#ddd}.grid{stroke:#444}.back{fill:#1b1b1b}}"
            "</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n";
    label(kRight, 20, "start", figure_.title, " font-weight=\"bold\"");
  }

  void label(double x, double y, const char* anchor, const std::string& text, const char* more = "") {
    out_ << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << "\"" << more << ">" << escaped(text)
         << "</text>\n";
  }

  [[nodiscard]] static double at_x(double part) { return kLeft + part * (kWidth - kLeft - kRight); }
  [[nodiscard]] static double at_y(double part) { return kHeight - kBottom - part * (kHeight - kTop - kBottom); }

  void draw_axes(const AxisScale& horizontal, const AxisScale& vertical) {
    for (const double tick : horizontal.ticks()) {
      const double x = at_x(horizontal.place(tick));
      out_ << "<path class=\"grid\" d=\"M" << x << " " << at_y(0) << "V" << at_y(1) << "\"/>\n";
      label(x, at_y(0) + 16, "middle", tick_text(tick));
    }
    for (const double tick : vertical.ticks()) {
      const double y = at_y(vertical.place(tick));
      out_ << "<path class=\"grid\" d=\"M" << at_x(0) << " " << y << "H" << at_x(1) << "\"/>\n";
      label(at_x(0) - 6, y + 4, "end", tick_text(tick));
    }
    out_ << "<path class=\"axis\" d=\"M" << at_x(0) << " " << at_y(1) << "V" << at_y(0) << "H" << at_x(1) << "\"/>\n";
    label((at_x(0) + at_x(1)) / 2, kHeight - 10, "middle", figure_.x.label);
    out_ << "<text transform=\"translate(14 " << (at_y(0) + at_y(1)) / 2 << ") rotate(-90)\" text-anchor=\"middle\">"
         << escaped(figure_.y.label) << "</text>\n";
  }

  void draw(const Series& series, const AxisScale& horizontal, const AxisScale& vertical) {
    const auto style = static_cast<std::size_t>(std::find(names_.begin(), names_.end(), series.name) - names_.begin());
    std::vector<std::pair<double, double>> places;
    places.reserve(series.points.size());
    for (const auto& [x, y] : series.points) places.emplace_back(at_x(horizontal.place(x)), at_y(vertical.place(y)));
    if (places.empty()) return;
    if (series.join != Join::none) draw_path(places, series.join, style);
    // A single step is no line: it is marked.
    if (series.join == Join::steps && places.front() != places.back()) return;
    for (const auto& [x, y] : places) draw_mark(x, y, style);
  }

  void draw_path(const std::vector<std::pair<double, double>>& places, Join join, std::size_t style) {
    out_ << "<path fill=\"none\" stroke-width=\"1.8\" stroke=\"" << kColours[style % kColours.size()]
         << "\" stroke-dasharray=\"" << kDashes[style % kDashes.size()] << "\" d=\"M" << places.front().first << " "
         << places.front().second;
    for (std::size_t i = 1; i < places.size(); ++i) {
      if (join == Join::steps) out_ << "H" << places[i].first << "V" << places[i].second;
      if (join == Join::line) out_ << "L" << places[i].first << " " << places[i].second;
    }
    out_ << "\"/>\n";
  }

  /// Disc, square, triangle, diamond, cross or ring.
  void draw_mark(double x, double y, std::size_t style) {
    const std::string colour = kColours[style % kColours.size()];
    const double r = kMark;
    switch (style % kMarks) {
      case 0:
        out_ << "<circle cx=\"" << x << "\" cy=\"" << y << "\" r=\"" << r << "\" fill=\"" << colour << "\"/>\n";
        return;
      case 1:
        out_ << "<path fill=\"" << colour << "\" d=\"M" << x - r << " " << y - r << "h" << 2 * r << "v" << 2 * r << "h"
             << -2 * r << "z\"/>\n";
        return;
      case 2:
        out_ << "<path fill=\"" << colour << "\" d=\"M" << x << " " << y - r << "l" << r << " " << 2 * r << "h"
             << -2 * r << "z\"/>\n";
        return;
      case 3:
        out_ << "<path fill=\"" << colour << "\" d=\"M" << x << " " << y - r << "l" << r << " " << r << "l" << -r << " "
             << r << "l" << -r << " " << -r << "z\"/>\n";
        return;
      case 4:
        out_ << "<path stroke-width=\"1.8\" stroke=\"" << colour << "\" d=\"M" << x - r << " " << y - r << "l" << 2 * r
             << " " << 2 * r << "m0 " << -2 * r << "l" << -2 * r << " " << 2 * r << "\"/>\n";
        return;
      default:
        out_ << "<circle cx=\"" << x << "\" cy=\"" << y << "\" r=\"" << r
             << "\" fill=\"none\" stroke-width=\"1.6\" stroke=\"" << colour << "\"/>\n";
    }
  }

  void draw_legend(double y) {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const double x = kRight + kLegendEntry * static_cast<double>(i % kEntriesInLine);
      const std::size_t above = i / kEntriesInLine;
      const double line = y + 6 + kLegendLine * static_cast<double>(above);
      draw_path({{x, line}, {x + 24, line}}, Join::line, i);
      draw_mark(x + 12, line, i);
      label(x + 30, line + 4, "start", names_[i]);
    }
  }

  const Figure& figure_;
  /// Of the series, in order of appearance: the index is the style.
  std::vector<std::string> names_{};
  std::ostringstream out_{};
};

}  // namespace

std::string svg(const Figure& figure) {
  return Drawing(figure).text();
}

AxisScale::AxisScale(const Axis& axis, const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  least_ = axis.least.value_or(values.empty() ? 0 : std::min(*least, 0.0));
  most_ = axis.most.value_or(values.empty() ? 1 : *most);
  if (most_ <= least_) most_ = least_ + 1;
  const double step = round_step((most_ - least_) / kTicks);
  // Up to the tick above the greatest value, so that no mark touches the border.
  if (most_ > 0) most_ = step * std::ceil(most_ / step - 1e-9);
  // Of an axis that shows a short stretch of large values, the multiples exceed 32 bits.
  const auto first = static_cast<std::int64_t>(std::ceil(least_ / step - 1e-9));
  const auto last = static_cast<std::int64_t>(std::floor(most_ / step + 1e-9));
  for (std::int64_t i = first; i <= last; ++i) ticks_.push_back(static_cast<double>(i) * step);
}

double AxisScale::place(double value) const {
  return std::clamp((value - least_) / (most_ - least_), 0.0, 1.0);
}

std::string tick_text(double value) {
  std::ostringstream text;
  text.precision(6);
  text << std::abs(value) * (std::abs(value) < 1e-12 ? 0 : 1);
  std::string digits = text.str();
  // Thousands apart, where the number is written out.
  if (digits.find_first_of(".e") == std::string::npos) {
    for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  }
  return value < 0 && digits != "0" ? "-" + digits : digits;
}

}  // namespace remora::report
