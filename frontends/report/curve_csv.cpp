// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/curve_csv.hpp"

#include <cstddef>
#include <optional>
#include <ostream>

#include "frontends/formats/json_text.hpp"
#include "frontends/formats/schedule_keys.hpp"
#include "frontends/text/csv.hpp"

namespace remora::report {

using json::number_text;

void write_curve_csv(std::ostream& out, const Curve& curve) {
  out << "budget,part,status,duration,overhead,peak_memory,lower_bound,least_overhead,found_under,seconds,mark,"
         "schedule\n";
  const std::optional<std::size_t> smallest = curve.smallest_feasible();
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const CurvePoint& point = curve.points[i];
    out << point.budget.count() << ',' << number_text(curve.part_of_baseline(point.budget)) << ','
        << json::status_word(point.status) << ',';
    if (point.has_schedule()) {
      out << point.duration.count() << ',' << number_text(curve.overhead(point)) << ',' << point.peak_memory.count();
    } else {
      out << ",,";
    }
    out << ',' << point.lower_bound.count() << ',' << number_text(curve.least_overhead(point)) << ',';
    if (point.has_schedule()) out << point.found_under.count();
    const bool knee = curve.knee == i;
    out << ',' << number_text(point.seconds) << ',' << (knee ? "knee" : "") << (knee && smallest == i ? " " : "")
        << (smallest == i ? "smallest" : "") << ',' << text::csv_field(point.schedule_file) << "\n";
  }
}

}  // namespace remora::report
