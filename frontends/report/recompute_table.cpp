// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/recompute_table.hpp"

#include <ostream>
#include <string>

#include "frontends/interchange/csv.hpp"
#include "frontends/json/schedule_keys.hpp"
#include "frontends/json/text.hpp"

namespace remora::report {
namespace {

void write_overload(std::ostream& out, const Graph& graph, const Overload& overload) {
  out << ',' << overload.steps << ',';
  if (overload.steps > 0) out << interchange::csv_field(graph.ops[overload.op].name) << ',' << overload.above.count();
  if (overload.steps == 0) out << ',';
}

std::string number_text(double value) {
  std::string text;
  json::append_number(text, value);
  return text;
}

}  // namespace

void write_recompute_table(std::ostream& out, const Graph& graph, const ScheduleProfile& profile) {
  out << "op,type,recomputes,paid,saved,relieved_steps,relieved_worst_op,relieved_above,kept_steps,kept_worst_op,"
         "kept_above\n";
  for (const RecomputedOp& row : profile.recomputed_ops) {
    const Op& op = graph.ops[row.op];
    out << interchange::csv_field(op.name) << ',' << interchange::csv_field(op.type) << ',' << row.times << ','
        << row.paid.count() << ',' << row.saved.count();
    write_overload(out, graph, row.relieved);
    write_overload(out, graph, row.if_kept);
    out << '\n';
  }
}

void write_curve_table(std::ostream& out, const Curve& curve) {
  out << "budget,part,status,duration,overhead,peak_memory,lower_bound,least_overhead,schedule\n";
  for (const CurvePoint& point : curve.points) {
    out << point.budget.count() << ',' << number_text(curve.part_of_baseline(point.budget)) << ','
        << json::word_of(point.status, json::kStatusWords) << ',';
    if (point.has_schedule()) {
      out << point.duration.count() << ',' << number_text(curve.overhead(point)) << ',' << point.peak_memory.count();
    } else {
      out << ",,";
    }
    out << ',' << point.lower_bound.count() << ',' << number_text(curve.least_overhead(point)) << ','
        << interchange::csv_field(point.schedule_file) << '\n';
  }
}

}  // namespace remora::report
