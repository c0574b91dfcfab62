// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/plot.hpp"

#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>

#include "frontends/report/axis_scale.hpp"
#include "frontends/report/markup.hpp"

namespace remora::report {
namespace {

constexpr double kPanelWidth = 380;
constexpr double kPanelHeight = 270;
constexpr double kLeft = 62;
constexpr double kRight = 14;
constexpr double kTop = 30;
constexpr double kBottom = 46;
constexpr double kTitle = 34;
constexpr double kLegendLine = 20;
constexpr double kLegendEntry = 150;
constexpr double kMark = 3.6;
constexpr std::size_t kMarks = 6;

/// Colours that are told apart with any colour vision (Okabe and Ito 2008), all but the two palest.
constexpr std::array kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"};
constexpr std::array kDashes{"", "6 3", "2 3", "8 3 2 3"};

/// Writes one figure.
class Drawing {
 public:
  explicit Drawing(const Figure& figure) : figure_(figure) {
    out_ << std::fixed << std::setprecision(1);
    for (const Panel& panel : figure.panels) {
      for (const Series& series : panel.series) {
        if (std::find(names_.begin(), names_.end(), series.name) == names_.end()) names_.push_back(series.name);
      }
    }
  }

  std::string text() {
    const auto columns = static_cast<std::size_t>(std::max(1, figure_.columns));
    const std::size_t rows = (figure_.panels.size() + columns - 1) / columns;
    const double width = kPanelWidth * static_cast<double>(std::min(columns, std::max<std::size_t>(1, panels())));
    const double legend = kTitle + kPanelHeight * static_cast<double>(rows) + 8;
    open(width, legend + legend_height(width));
    for (std::size_t i = 0; i < panels(); ++i) {
      const double x = kPanelWidth * static_cast<double>(i % columns);
      const std::size_t row = i / columns;
      draw(figure_.panels[i], x, kTitle + kPanelHeight * static_cast<double>(row));
    }
    draw_legend(width, legend);
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  [[nodiscard]] std::size_t panels() const { return figure_.panels.size(); }
  [[nodiscard]] static std::size_t entries_in_line(double width) {
    return std::max<std::size_t>(1, static_cast<std::size_t>((width - 2 * kRight) / kLegendEntry));
  }
  [[nodiscard]] double legend_height(double width) const {
    const std::size_t lines = (names_.size() + entries_in_line(width) - 1) / entries_in_line(width);
    return kLegendLine * static_cast<double>(lines) + 8;
  }

  void open(double width, double height) {
    out_ << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << " " << height << "\" width=\""
         << width << "\" height=\"" << height << "\" role=\"img\" aria-label=\"" << escaped(figure_.title) << "\">\n"
         << "<style>text{font:12px sans-serif;fill:#222}.axis{stroke:#222;fill:none}.grid{stroke:#ddd}.back{fill:#fff}"
            "@media(prefers-color-scheme:dark){text{fill:#ddd}.axis{stroke:#ddd}.grid{stroke:#444}.back{fill:#1b1b1b}}"
            "</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n";
    label(kRight, 20, "start", figure_.title, " font-weight=\"bold\"");
  }

  void label(double x, double y, const char* anchor, const std::string& text, const char* more = "") {
    out_ << "<text x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << "\"" << more << ">" << escaped(text)
         << "</text>\n";
  }

  void draw(const Panel& panel, double x, double y) {
    std::vector<double> across;
    std::vector<double> up;
    for (const Series& series : panel.series) {
      for (const auto& [a, b] : series.points) {
        across.push_back(a);
        up.push_back(b);
      }
    }
    const AxisScale horizontal(panel.x, across);
    const AxisScale vertical(panel.y, up);
    out_ << "<g transform=\"translate(" << x << " " << y << ")\">\n";
    label(kLeft, kTop - 10, "start", panel.title);
    draw_axes(panel, horizontal, vertical);
    if (across.empty()) label(kPanelWidth / 2, kPanelHeight / 2, "middle", "nothing to show");
    for (const Series& series : panel.series) draw(series, horizontal, vertical);
    out_ << "</g>\n";
  }

  [[nodiscard]] static double at_x(double part) { return kLeft + part * (kPanelWidth - kLeft - kRight); }
  [[nodiscard]] static double at_y(double part) {
    return kPanelHeight - kBottom - part * (kPanelHeight - kTop - kBottom);
  }

  void draw_axes(const Panel& panel, const AxisScale& horizontal, const AxisScale& vertical) {
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
    label((at_x(0) + at_x(1)) / 2, kPanelHeight - 10, "middle", panel.x.label);
    out_ << "<text transform=\"translate(14 " << (at_y(0) + at_y(1)) / 2 << ") rotate(-90)\" text-anchor=\"middle\">"
         << escaped(panel.y.label) << "</text>\n";
  }

  void draw(const Series& series, const AxisScale& horizontal, const AxisScale& vertical) {
    const auto style = static_cast<std::size_t>(std::find(names_.begin(), names_.end(), series.name) - names_.begin());
    std::vector<std::pair<double, double>> places;
    for (const auto& [x, y] : series.points) {
      if (horizontal.shows(x) && vertical.shows(y)) {
        places.emplace_back(at_x(horizontal.place(x)), at_y(vertical.place(y)));
      }
    }
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

  void draw_legend(double width, double y) {
    const std::size_t in_line = entries_in_line(width);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const double x = kRight + kLegendEntry * static_cast<double>(i % in_line);
      const std::size_t above = i / in_line;
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

}  // namespace remora::report
