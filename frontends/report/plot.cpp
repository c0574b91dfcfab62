// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <locale>
#include <ostream>
#include <sstream>
#include <utility>

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

constexpr double kWidth = 760;
/// The height of the plot with its axes, below title and legend, if it has no lanes.
constexpr double kHeight = 320;
constexpr double kLaneHeight = 24;
/// The width of the lanes' names.
constexpr double kLaneNames = 128;
constexpr double kLeft = 72;
constexpr double kRight = 16;
constexpr double kTop = 14;
constexpr double kBeside = 12;
constexpr double kBottom = 40;
constexpr double kTitle = 28;
constexpr double kLine = 20;
constexpr double kSample = 26;
constexpr double kMark = 4.5;
constexpr double kBand = 20;
/// Between a band and an axis that does not begin at 0.
constexpr double kBreak = 8;
constexpr double kText = 12;

// The page's colours (assets/page.css), in both schemes: converters of SVG know no variables of CSS.
constexpr const char* kStyle =
    "<style>.remora text{font:12px sans-serif;fill:#1b1f24}.remora .tick{fill:#56606b}.remora .title{font-weight:bold}"
    ".remora .note{paint-order:stroke;stroke:#ffffff;stroke-width:3px;stroke-linejoin:round}"
    ".remora .axis{stroke:#56606b;fill:none}.remora .grid{stroke:#dde1e6;fill:none}.remora .back{fill:#ffffff}"
    ".remora .band{fill:#dde1e6}.remora .fill{fill:#0b5fae;fill-opacity:0.12}.remora "
    ".over{fill:url(#remora-hatch)}.remora .bar{fill:#0b5fae}"
    ".remora .after{stroke:#0b5fae;stroke-width:2;fill:none}"
    ".remora .before{stroke:#9a5b00;stroke-width:1.5;stroke-dasharray:5 3;fill:none}"
    ".remora .budget{stroke:#a1123f;stroke-width:1.5;stroke-dasharray:12 4;fill:none}"
    ".remora .bound{stroke:#1b1f24;stroke-width:1.5;stroke-dasharray:2 4;fill:none}"
    ".remora .minimum{stroke:#a1123f;stroke-width:1.5;stroke-dasharray:8 4;fill:none}"
    ".remora .mark{fill:#0b5fae;stroke:#0b5fae;stroke-width:1.5}.remora .hollow{fill:#ffffff}"
    ".remora .hatch{stroke:#9a5b00;stroke-width:1.5}"
    "@media(prefers-color-scheme:dark){.remora text{fill:#e8ebef}.remora .tick{fill:#a4aeb9}"
    ".remora .note{stroke:#13161a}.remora .axis{stroke:#a4aeb9}.remora .grid{stroke:#313841}.remora .back{fill:#13161a}"
    ".remora .band{fill:#313841}.remora .fill,.remora .bar{fill:#6ab3fb}.remora .after{stroke:#6ab3fb}.remora "
    ".before{stroke:#d9a441}"
    ".remora .budget{stroke:#ff87a4}.remora .bound{stroke:#e8ebef}.remora .minimum{stroke:#ff87a4}"
    ".remora .mark{fill:#6ab3fb;stroke:#6ab3fb}.remora .hollow{fill:#13161a}.remora .hatch{stroke:#d9a441}}</style>\n"
    "<defs><pattern id=\"remora-hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
    "<path class=\"hatch\" d=\"M-1 7L7 -1M-1 1L1 -1M5 7L7 5\"/></pattern></defs>\n";

const char* line_class(Look look) {
  switch (look) {
    case Look::input_order:
      return "before";
    case Look::budget:
      return "budget";
    case Look::bound:
      return "bound";
    case Look::least:
      return "minimum";
    case Look::schedule:
    case Look::peak:
    case Look::known:
    case Look::proved:
      break;
  }
  return "after";
}

using Points = std::vector<std::pair<double, double>>;

/// SVG writes numbers with a point, in every locale.
void begin(std::ostream& out) {
  out.imbue(std::locale::classic());
  out << std::fixed << std::setprecision(1);
}

/// Writes one figure.
class Drawing {
 public:
  explicit Drawing(const Figure& figure)
      : figure_(figure),
        top_(kTop + (figure.x.beside.empty() ? 0 : kBeside)),
        height_(figure.lanes.empty() ? kHeight
                                     : top_ + kLaneHeight * static_cast<double>(figure.lanes.size()) + kBottom),
        bottom_(height_ - kBottom - (figure.y.band.empty() ? 0 : kBand)),
        begin_(figure.lanes.empty() ? kLeft : kLaneNames),
        left_(begin_ + (figure.x.band.empty() ? 0 : kBand + break_of(figure.x))),
        labels_({begin_, top_, kWidth - kRight, bottom_}) {
    begin(out_);
  }

  /// The drawing and its height.
  std::pair<std::string, double> text() {
    std::vector<double> across;
    std::vector<double> up;
    for (const Series& series : figure_.series) {
      for (const auto& [a, b] : series.points) {
        across.push_back(a);
        up.push_back(b);
      }
    }
    for (const Lane& lane : figure_.lanes) {
      for (const Bar& bar : lane.bars) across.push_back(bar.end);
    }
    const AxisScale horizontal(figure_.x, across);
    const AxisScale vertical(figure_.y, up);
    horizontal_ = &horizontal;
    vertical_ = &vertical;
    const double legend = draw_head();
    out_ << "<g transform=\"translate(0 " << legend << ")\">\n";
    draw_axes();
    if (across.empty()) label(kWidth / 2, height_ / 2, "middle", "nothing to show");
    for (std::size_t i = 0; i < figure_.lanes.size(); ++i) draw_lane(i);
    for (const Series& series : figure_.series) draw(series);
    for (const Note& note : figure_.notes) draw_note(note);
    out_ << "</g>\n";
    return {std::move(out_).str(), legend + height_};
  }

 private:
  static double break_of(const Axis& axis) { return axis.least.value_or(0) > 0 ? kBreak : 0; }

  /// Title and legend; how high they are.
  double draw_head() {
    label(kRight, 20, "start", figure_.title, "title");
    double y = kTitle + 10;
    double x = kRight;
    std::vector<std::string> shown;
    for (const Series& series : figure_.series) {
      const bool known = std::find(shown.begin(), shown.end(), series.name) != shown.end();
      if (known || series.name.empty() || series.points.empty()) continue;
      shown.push_back(series.name);
      const double width = kSample + width_of(series.name) + 24;
      if (x + width > kWidth && x > kRight) {
        x = kRight;
        y += kLine;
      }
      draw_sample(series, x, y);
      label(x + kSample, y + 4, "start", series.name);
      x += width;
    }
    return shown.empty() ? kTitle : y + 6;
  }

  void label(double x, double y, const char* anchor, const std::string& text, const char* style = "tick") {
    out_ << "<text class=\"" << style << "\" x=\"" << x << "\" y=\"" << y << "\" text-anchor=\"" << anchor << "\">"
         << escaped(text) << "</text>\n";
  }

  [[nodiscard]] double at_x(double value) const {
    return left_ + horizontal_->place(value) * (kWidth - kRight - left_);
  }
  [[nodiscard]] double at_y(double value) const { return bottom_ - vertical_->place(value) * (bottom_ - top_); }

  void draw_axes() {
    const double floor = height_ - kBottom;
    for (const double tick : horizontal_->ticks()) {
      const double x = at_x(tick);
      out_ << "<path class=\"axis\" d=\"M" << x << " " << floor << "v4\"/>\n";
      label(x, floor + 17, "middle", tick_text(tick));
    }
    if (figure_.lanes.empty()) draw_levels();
    draw_bands();
    out_ << "<path class=\"axis\" d=\"M" << begin_ << " " << top_ << "V" << floor << "H" << kWidth - kRight << "\"/>\n";
    label(kWidth - kRight, height_ - 6, "end", figure_.x.label);
    out_ << "<text class=\"tick\" transform=\"translate(14 " << (top_ + floor) / 2
         << ") rotate(-90)\" text-anchor=\"middle\">" << escaped(figure_.y.label) << "</text>\n";
    draw_beside();
  }

  void draw_levels() {
    for (const double tick : vertical_->ticks()) {
      const double y = at_y(tick);
      out_ << "<path class=\"grid\" d=\"M" << kLeft << " " << y << "H" << kWidth - kRight << "\"/>\n";
      label(kLeft - 8, y + 4, "end", tick_text(tick));
    }
  }

  /// The name of a lane, and its bars, of which none is too narrow to be seen.
  void draw_lane(std::size_t number) {
    const Lane& lane = figure_.lanes[number];
    const double top = top_ + kLaneHeight * static_cast<double>(number);
    label(begin_ - 8, top + kLaneHeight / 2 + 4, "end", lane.name);
    out_ << "<path class=\"grid\" d=\"M" << begin_ << " " << top + kLaneHeight << "H" << kWidth - kRight << "\"/>\n";
    for (const Bar& bar : lane.bars) {
      const double x = at_x(bar.first);
      out_ << "<rect class=\"" << (bar.again ? "over" : "bar") << "\" x=\"" << x << "\" y=\"" << top + 4
           << "\" width=\"" << std::max(0.5, at_x(bar.end) - x) << "\" height=\"" << kLaneHeight - 8 << "\"/>\n";
    }
  }

  void draw_bands() {
    const double floor = height_ - kBottom;
    if (!figure_.y.band.empty()) {
      out_ << "<rect class=\"band\" x=\"" << kLeft << "\" y=\"" << bottom_ << "\" width=\"" << kWidth - kRight - kLeft
           << "\" height=\"" << floor - bottom_ << "\"/>\n";
      label(kLeft + 8, floor - 6, "start", figure_.y.band);
    }
    if (!figure_.x.band.empty()) {
      out_ << "<rect class=\"band\" x=\"" << kLeft << "\" y=\"" << top_ << "\" width=\"" << kBand << "\" height=\""
           << floor - top_ << "\"/>\n<text class=\"tick\" transform=\"translate(" << kLeft + kBand - 6 << " "
           << floor - 8 << ") rotate(-90)\">" << escaped(figure_.x.band) << "</text>\n";
      labels_.avoid({kLeft, top_, kLeft + kBand, floor});
    }
  }

  /// The second measure of the axis across, above the plot.
  void draw_beside() {
    if (figure_.x.beside.empty()) return;
    label(kLeft - 24, top_ - 8, "end", figure_.x.beside_label);
    double free_from = kLeft - kSample;
    for (const auto& [value, words] : figure_.x.beside) {
      const double x = at_x(value);
      const double half = width_of(words) / 2;
      if (x - half < free_from || x + half > kWidth) continue;
      free_from = x + half + kText;
      out_ << "<path class=\"axis\" d=\"M" << x << " " << top_ << "v-4\"/>\n";
      label(x, top_ - 8, "middle", words);
    }
  }

  void draw(const Series& series) {
    if (series.points.empty()) return;
    Points places;
    places.reserve(series.points.size());
    for (const auto& [x, y] : series.points) places.emplace_back(at_x(x), at_y(y));
    if (series.look == Look::schedule) draw_fill(places);
    if (series.look == Look::input_order && figure_.limit) draw_overload(places, at_y(*figure_.limit));
    if (series.join != Join::none) draw_path(places, series.join, series.look);
    if (series.look == Look::least) labels_.avoid({places[0].first - 3, top_, places[0].first + 3, bottom_});
    if (series.look == Look::known) avoid_stairs(places);
    if (series.join != Join::none) return;
    for (const auto& [x, y] : places) draw_mark(x, y, series.look);
  }

  void avoid_stairs(const Points& places) {
    for (std::size_t i = 1; i < places.size(); ++i) {
      const auto [left, top] = places[i - 1];
      const auto [right, bottom] = places[i];
      labels_.avoid({left, top - 2, right, top + 2});
      labels_.avoid({right - 2, std::min(top, bottom), right + 2, std::max(top, bottom)});
    }
  }

  void draw_path(const Points& places, Join join, Look look) {
    out_ << "<path class=\"" << line_class(look) << "\" d=\"";
    append_path(places, join);
    out_ << "\"/>\n";
  }

  void append_path(const Points& places, Join join) {
    out_ << "M" << places.front().first << " " << places.front().second;
    for (std::size_t i = 1; i < places.size(); ++i) {
      if (join == Join::steps) out_ << "H" << places[i].first << "V" << places[i].second;
      if (join == Join::line) out_ << "L" << places[i].first << " " << places[i].second;
    }
  }

  void draw_fill(const Points& places) {
    out_ << "<path class=\"fill\" d=\"";
    append_path(places, Join::steps);
    out_ << "V" << height_ - kBottom << "H" << places.front().first << "z\"/>\n";
  }

  /// Draws the part of the stairs above the limit.
  void draw_overload(const Points& places, double limit) {
    out_ << "<path class=\"over\" d=\"";
    for (std::size_t i = 0; i + 1 < places.size(); ++i) {
      if (places[i].second >= limit) continue;
      out_ << "M" << places[i].first << " " << limit << "V" << places[i].second << "H" << places[i + 1].first << "V"
           << limit << "z";
    }
    out_ << "\"/>\n";
  }

  void draw_mark(double x, double y, Look look) {
    if (look == Look::peak) {
      out_ << "<path class=\"mark\" d=\"M" << x << " " << y - 4 << "l-5 -8h10z\"/>\n";
    } else {
      out_ << "<circle class=\"mark" << (look == Look::proved ? "" : " hollow") << "\" cx=\"" << x << "\" cy=\"" << y
           << "\" r=\"" << kMark << "\"/>\n";
    }
    labels_.avoid({x - kMark - 2, y - kMark - 2, x + kMark + 2, y + kMark + 2});
  }

  void draw_sample(const Series& series, double x, double y) {
    const double end = x + kSample - 6;
    if (series.look == Look::peak) {
      out_ << "<path class=\"mark\" d=\"M" << x + 10 << " " << y + 4 << "l-5 -8h10z\"/>\n";
    } else if (series.look == Look::proved) {
      out_ << "<circle class=\"mark\" cx=\"" << x + 10 << "\" cy=\"" << y << "\" r=\"" << kMark << "\"/>\n";
    } else {
      draw_path({{x, y}, {end, y}}, Join::line, series.look);
      if (series.look == Look::known) {
        out_ << "<circle class=\"mark hollow\" cx=\"" << x + 10 << "\" cy=\"" << y << "\" r=\"" << kMark << "\"/>\n";
      }
    }
  }

  void draw_note(const Note& note) {
    const Box box = labels_.place(note.words, at_x(note.x), at_y(note.y));
    label(box.left, box.bottom - 3, "start", note.words, "note");
  }

  const Figure& figure_;
  /// The edges of the plot, where the axes have 0 or their minimum; bands are beyond.
  double top_;
  double height_;
  double bottom_;
  double begin_;
  double left_;
  Labels labels_;
  const AxisScale* horizontal_ = nullptr;
  const AxisScale* vertical_ = nullptr;
  std::ostringstream out_{};
};

}  // namespace

std::string svg(std::span<const Figure> figures) {
  std::ostringstream body;
  begin(body);
  double height = 0;
  std::string title;
  for (const Figure& figure : figures) {
    const auto [text, own] = Drawing(figure).text();
    if (height > 0) body << "<g transform=\"translate(0 " << height << ")\">\n" << text << "</g>\n";
    if (height == 0) body << text;
    title += (title.empty() ? "" : "; ") + figure.title;
    height += own;
  }
  std::ostringstream out;
  begin(out);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"remora\" viewBox=\"0 0 " << kWidth << " " << height
      << "\" width=\"" << kWidth << "\" height=\"" << height << "\" role=\"img\" aria-label=\"" << escaped(title)
      << "\">\n"
      << kStyle << "<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n"
      << std::move(body).str() << "</svg>\n";
  return std::move(out).str();
}

std::string svg(const Figure& figure) {
  return svg(std::span(&figure, 1));
}

}  // namespace remora::report
