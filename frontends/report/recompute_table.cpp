// SPDX-License-Identifier: Apache-2.0
#include "frontends/report/recompute_table.hpp"

#include <ostream>

#include "frontends/text/csv.hpp"

namespace remora::report {
namespace {

void write_overload(std::ostream& out, const Graph& graph, const Overload& overload) {
  out << ',' << overload.steps << ',';
  if (overload.steps > 0) out << text::csv_field(graph.ops[overload.op].name) << ',' << overload.above.count();
  if (overload.steps == 0) out << ',';
}

}  // namespace

void write_recompute_table(std::ostream& out, const Graph& graph, const ScheduleProfile& profile) {
  out << "op,type,recomputes,paid,saved,relieved_steps,relieved_worst_op,relieved_above,kept_steps,kept_worst_op,"
         "kept_above\n";
  for (const RecomputedOp& row : profile.recomputed_ops) {
    const Op& op = graph.ops[row.op];
    out << text::csv_field(op.name) << ',' << text::csv_field(op.type) << ',' << row.times << ',' << row.paid.count()
        << ',' << row.saved.count();
    write_overload(out, graph, row.relieved);
    write_overload(out, graph, row.if_kept);
    out << '\n';
  }
}

}  // namespace remora::report
