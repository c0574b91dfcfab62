// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/curve_csv.hpp"

#include <array>
#include <cstdio>
#include <optional>
#include <ostream>
#include <string>

#include "frontends/json/schedule_keys.hpp"

namespace remora::report {
namespace {

std::string number(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

}  // namespace

void write_curve_csv(std::ostream& out, const Curve& curve) {
  out << "budget,part,status,duration,overhead,peak_memory,lower_bound,least_overhead,found_under,seconds,mark\n";
  const std::optional<std::size_t> smallest = curve.smallest_feasible();
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const CurvePoint& point = curve.points[i];
    out << point.budget.count() << ',' << number(curve.part_of_baseline(point.budget)) << ','
        << json::status_word(point.status) << ',';
    if (point.has_schedule()) {
      out << point.duration.count() << ',' << number(curve.overhead(point)) << ',' << point.peak_memory.count();
    } else {
      out << ",,";
    }
    out << ',' << point.lower_bound.count() << ',' << number(curve.least_overhead(point)) << ',';
    if (point.has_schedule()) out << point.found_under.count();
    const bool knee = curve.knee == i;
    out << ',' << number(point.seconds) << ',' << (knee ? "knee" : "") << (knee && smallest == i ? " " : "")
        << (smallest == i ? "smallest" : "") << "\n";
  }
}

}  // namespace remora::report
