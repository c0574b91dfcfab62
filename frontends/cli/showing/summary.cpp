// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/showing/summary.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iomanip>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "frontends/formats/keys.hpp"
#include "frontends/text/refusal.hpp"
#include "frontends/text/slices.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"
#include "model/evaluate.hpp"
#include "model/quote.hpp"

namespace remora::cli {
namespace {

constexpr std::size_t kOpsShown = 8;

struct Row {
  std::size_t op = 0;
  int times = 0;
  Duration paid{};
};

std::string signed_percent(double part) {
  return (part >= 0 ? "+" : "") + text::percent_text(part, 3);
}

void print_recomputed(std::ostream& out, const Graph& graph, const Schedule& schedule, int width) {
  std::vector<Row> rows(graph.ops.size());
  for (std::size_t v = 0; v < rows.size(); ++v) rows[v] = {v, -1, Duration(0)};
  for (const Step& step : schedule.steps) {
    Row& row = rows[step.op.index()];
    if (++row.times > 0) row.paid += mode_of(graph, step.op, step.mode).duration;
  }
  std::erase_if(rows, [](const Row& row) { return row.times < 1; });
  if (rows.empty()) {
    const char* order = schedule.order == OrderMode::input ? "the input order" : "this order";
    out << "recomputed  nothing" << (has_modes(graph) ? "" : std::string(": ") + order + " fits within the budget")
        << "\n";
    return;
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.paid > b.paid; });
  // Where columns are few, the line of the whole time alone says a word like "operations".
  const std::size_t type_width = width < 84 ? 0 : 18;
  std::string unit = text::duration_unit_of(graph);
  if (type_width == 0 && unit != "ns") unit.clear();
  constexpr std::size_t kMinTime = 12;
  std::size_t time_width = kMinTime;
  Duration all;
  for (const Row& row : rows) all += row.paid;
  if (rows.size() > kOpsShown) time_width = std::max(time_width, text::duration_text(all, unit).size());
  for (std::size_t i = 0; i < std::min(rows.size(), kOpsShown); ++i) {
    time_width = std::max(time_width, text::duration_text(rows[i].paid, unit).size());
  }
  const auto left = static_cast<std::ptrdiff_t>(width) - static_cast<std::ptrdiff_t>(time_width + 24 + type_width);
  const auto name_width = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(left, 12, 80));
  out << "recomputed  " << rows.size() << (rows.size() == 1 ? " op" : " ops") << ", costliest first:\n";
  const auto print = [&](const std::string& name, const std::string& type, int times, Duration paid,
                         const std::string& size) {
    out << "  " << fitted(name, name_width);
    if (type_width > 0) out << " " << fitted(type, type_width);
    out << " " << std::setw(3) << times << "x  " << std::setw(static_cast<int>(time_width))
        << text::duration_text(paid, unit);
    if (!size.empty()) out << "  " << std::setw(11) << size;
    out << "\n";
  };
  Row rest;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i >= kOpsShown) {
      rest.times += rows[i].times;
      rest.paid += rows[i].paid;
      continue;
    }
    const Op& op = graph.ops[rows[i].op];
    Bytes size;
    for (const TensorId t : op.outputs) size += graph[t].size;
    print(printable(op.name), printable(op.type), rows[i].times, rows[i].paid, text::bytes_text(size));
  }
  if (rows.size() <= kOpsShown) return;
  const std::size_t more = rows.size() - kOpsShown;
  print("and " + std::to_string(more) + (more == 1 ? " more op" : " more ops"), "", rest.times, rest.paid, "");
}

/// "modes       F 1, B 1": ops with a step in another mode than their own.
void print_modes(std::ostream& out, const Graph& graph, const Schedule& schedule) {
  if (!has_modes(graph)) return;
  std::vector<std::string> ops;
  for (const Step& step : schedule.steps) {
    if (step.mode == 0) continue;
    std::string text = printable(graph[step.op].name) + " " + std::to_string(step.mode);
    if (std::find(ops.begin(), ops.end(), text) == ops.end()) ops.push_back(std::move(text));
  }
  out << "modes       ";
  for (std::size_t i = 0; i < std::min(ops.size(), kOpsShown); ++i) out << (i > 0 ? ", " : "") << ops[i];
  if (ops.size() > kOpsShown) out << " and " << ops.size() - kOpsShown << " more";
  out << (ops.empty() ? "0 of every op\n" : "; 0 of all others\n");
}

/// "1.11 GiB, 1.07 GiB fixed + 60.0 % of the rest of the peak". `placed`: as part_of_peak_text() takes it.
std::string amount_text(const Graph& graph, const Schedule& schedule, Bytes amount, Bytes placed) {
  return text::bytes_text(amount) + ", " +
         text::part_of_peak_text(amount, graph.fixed_memory, schedule.baseline_peak_memory, placed);
}

}  // namespace

std::string unknown_text(const Graph& graph) {
  const std::int64_t count = text::unknown_tensors_of(graph);
  if (count == 0) return "";
  return ", " + text::grouped(count) + (count == 1 ? " tensor" : " tensors") + " of unknown size not counted";
}

void print_computes(std::ostream& out, Status status, const SolverReport& solver) {
  if (solver.bound_for_any_number || solver.optimal_for_max_computes == kAnyNumber) {
    out << "            with any number of runs per op\n";
  }
  if (solver.optimal_for_max_computes > 0 && solver.optimal_for_max_computes < kAnyNumber) {
    out << "            optimal with at most " << solver.optimal_for_max_computes
        << " runs per op; more were tried until " << text::fixed(solver.seconds, 2) << " s\n";
  } else if (!solver.bound_for_any_number && solver.optimal_for_max_computes == 0 &&
             (status == Status::optimal || status == Status::feasible) && solver.max_computes > 0) {
    out << "            with at most " << solver.max_computes << " runs per op\n";
  }
}

namespace {

void print_slices(std::ostream& out, const Schedule& schedule, const std::string& unit) {
  const char* word = "slices      ";
  for (const std::string& line : text::region_lines(*schedule.slices, unit)) {
    out << word << line << "\n";
    word = "            ";
  }
  out << "without     " << text::without_slices_text(schedule) << "\n";
}

void print_schedule(std::ostream& out, const Graph& graph, const Schedule& schedule) {
  const std::string unit = text::duration_unit_of(graph);
  const double after = part_of_peak(schedule.peak_memory, graph.fixed_memory, schedule.baseline_peak_memory);
  const Bytes placed =
      schedule.arena ? placed_baseline(std::make_shared<const Graph>(graph), schedule.arena->alignment) : Bytes(0);
  out << "budget      " << amount_text(graph, schedule, schedule.budget, placed) << "\n"
      << "peak        " << text::bytes_text(schedule.baseline_peak_memory) << " -> "
      << text::bytes_text(schedule.peak_memory) << " (" << text::percent_text(after, 1)
      << (graph.fixed_memory > Bytes(0) ? " of the rest)" : ")") << "\n"
      << "time        " << text::duration_text(schedule.baseline_duration, unit) << " -> "
      << text::duration_text(schedule.duration, unit) << " (" << signed_percent(schedule.overhead()) << ")\n"
      << "bound       " << signed_percent(schedule.least_overhead()) << " at least, gap "
      << text::percent_text(schedule.gap(), 3) << (schedule.status == Status::optimal ? ": proved optimal" : "")
      << (schedule.slices ? ", for these slices" : "") << "\n";
  print_computes(out, schedule.status, schedule.solver);
  if (schedule.slices) print_slices(out, schedule, unit);
}

text::RefusalStyle refusal_style(std::function<std::string(Bytes)> amount) {
  return {.amount = std::move(amount),
          .name = [](const std::string& name) { return printable(name); },
          .option =
              [](const std::string& option, const std::string& value) {
                return "--" + text::dashed(option) + (value.empty() ? "" : " " + value);
              }};
}

/// `budget`: a line; may be empty.
void print_refusal(std::ostream& out, const Refusal& refusal, const text::RefusalText& text,
                   const std::string& budget) {
  out << (refusal.is_proved() ? "infeasible  proved: " : "none found  ") << text.what << "\n" << budget;
  if (!text.because.empty()) out << "because     " << text.because << "\n";
  if (!text.budgets.empty()) out << "needed      " << text.budgets << "\n";
  if (!text.suggestions.empty()) out << "try         " << text.suggestions << "\n";
}

/// The refusal, or for a schedule from a file the reason that it states itself.
Refusal reason_of(const Graph& graph, const Schedule& schedule, const Refusal& refusal) {
  return refusal.cause == Refusal::Cause::none ? explain(graph, schedule) : refusal;
}

void print_no_schedule(std::ostream& out, const Graph& graph, const Schedule& schedule, const Refusal& refusal) {
  const text::RefusalStyle style = refusal_style([&](Bytes amount) {
    return text::budget_text(amount, graph.fixed_memory, schedule.baseline_peak_memory, refusal.placed);
  });
  print_refusal(out, refusal, text::refusal_text(graph, schedule, refusal, "the budget", style),
                "budget      " + amount_text(graph, schedule, schedule.budget, refusal.placed) + "\n");
}

/// Why the search ended, where the status does not say it.
void print_stop(std::ostream& out, const SolverReport& solver) {
  const auto option = [&](const char* name) {
    const auto row = std::find_if(solver.options.begin(), solver.options.end(),
                                  [&](const auto& pair) { return pair.first == name; });
    return row == solver.options.end() ? std::string() : row->second;
  };
  const auto seconds = [](double value) {
    std::ostringstream text;
    text << value << " s";
    return std::move(text).str();
  };
  switch (solver.stop) {
    case Stop::unknown:
    case Stop::optimum:
    case Stop::infeasible:
      return;
    case Stop::gap:
      out << "stopped     the gap is at most the --gap of " << option("gap") << "\n";
      return;
    case Stop::stall:
      out << "stopped     no better schedule in the " << option("stall") << " s of --stall\n";
      return;
    case Stop::time:
      out << "stopped     time limit of " << seconds(solver.time_limit) << "\n";
      return;
    case Stop::work:
      out << "stopped     work limit of " << text::grouped(solver.work_limit) << "\n";
      return;
    case Stop::cancelled:
      out << "stopped     cancelled after " << text::fixed(solver.seconds, 2) << " s\n";
      return;
    case Stop::callback:
      out << "stopped     by the caller\n";
      return;
    case Stop::exhausted:
      out << "stopped     nothing more to try\n";
      return;
  }
}

/// Whole numbers by thousands, times to the millisecond.
std::string statistic_text(const Statistic& statistic) {
  constexpr double kExact = 1e15;
  const double value = statistic.value;
  const bool is_time = statistic.unit == Statistic::Unit::seconds;
  if (!is_time && std::trunc(value) == value && std::abs(value) < kExact) {
    return text::grouped(static_cast<std::int64_t>(value));
  }
  std::ostringstream text;
  if (is_time) text << std::fixed << std::setprecision(3);
  text << value << (is_time ? " s" : "");
  return std::move(text).str();
}

/// "levels 3, distinct groups 1,028, compose 1.250 s".
void print_statistics(std::ostream& out, const Statistics& statistics) {
  const char* separator = "figures     ";
  for (const Statistic& statistic : statistics) {
    std::string words = statistic.name;
    std::replace(words.begin(), words.end(), '_', ' ');
    out << separator << printable(words) << " " << statistic_text(statistic);
    separator = ", ";
  }
  if (!statistics.empty()) out << "\n";
}

}  // namespace

std::string fitted(const std::string& name, std::size_t width) {
  if (name.size() <= width) return name + std::string(width - name.size(), ' ');
  const std::size_t head = (width - 3) / 2;
  return name.substr(0, head) + "..." + name.substr(name.size() - (width - 3 - head));
}

namespace {

void print_headline_lines(std::ostream& out, const Graph& graph, const Schedule& schedule, const Refusal& refusal) {
  out << "graph       " << (graph.name.empty() ? "without a name" : printable(graph.name)) << ": " << graph.ops.size()
      << " ops, " << graph.tensors.size() << " tensors" << unknown_text(graph) << "\n";
  if (schedule.has_schedule()) {
    print_schedule(out, graph, schedule);
  } else {
    print_no_schedule(out, graph, schedule, reason_of(graph, schedule, refusal));
  }
}

}  // namespace

void print_headline(std::ostream& out, const Graph& graph, const Schedule& schedule, int width) {
  std::ostringstream lines;
  print_headline_lines(lines, graph, schedule, {});
  out << text::wrapped_lines(lines.str(), kWordColumns, width);
}

void print_summary(std::ostream& out, const Graph& graph, const Schedule& schedule, int width, const Refusal& refusal) {
  std::ostringstream lines;
  print_headline_lines(lines, graph, schedule, refusal);
  print_stop(lines, schedule.solver);
  const std::string& integer_solver = schedule.solver.integer_solver;
  if (!integer_solver.empty() && integer_solver != "none") lines << "bounds by   " << integer_solver << "\n";
  if (schedule.arena) {
    lines << "arena       " << text::exact_bytes_text(schedule.arena->size) << ", offsets in multiples of "
          << schedule.arena->alignment.count() << "\n";
  }
  if (schedule.has_schedule()) print_recomputed(lines, graph, schedule, width);
  if (schedule.has_schedule()) print_modes(lines, graph, schedule);
  print_statistics(lines, schedule.solver.statistics);
  const std::string& note = schedule.solver.note;
  if (!note.empty() && note != refusal.method_lacks) lines << "note        " << note << "\n";
  out << text::wrapped_lines(lines.str(), kWordColumns, width);
}

std::string refused_line(const Graph& graph, const Schedule& schedule, const Refusal& refusal) {
  if (schedule.has_schedule()) return "";
  return text::refusal_text(graph, schedule, reason_of(graph, schedule, refusal),
                            text::exact_bytes_text(schedule.budget), refusal_style(text::exact_bytes_text))
      .line();
}

std::string refused_line(const DeviceGraph& graph, const DeviceSchedule& schedule, const Refusal& refusal) {
  if (schedule.has_schedule()) return "";
  const std::string note = printable(schedule.solver.note);
  if (refusal.cause == Refusal::Cause::none) return "no schedule" + (note.empty() ? "" : ": " + note);
  return text::refusal_text(graph, schedule, refusal, refusal_style(text::exact_bytes_text)).line();
}

void print_summary(std::ostream& out, const DeviceGraph& graph, const DeviceSchedule& schedule, int width,
                   const Refusal& refusal) {
  if (refusal.cause != Refusal::Cause::none) {
    std::ostringstream lines;
    print_refusal(lines, refusal, text::refusal_text(graph, schedule, refusal, refusal_style(text::exact_bytes_text)),
                  "");
    out << text::wrapped_lines(lines.str(), kWordColumns, width);
    return;
  }
  out << "status      " << json::status_word(schedule.status);
  if (!schedule.solver.note.empty()) out << ": " << printable(schedule.solver.note);
  out << "\n";
  if (!schedule.has_schedule()) return;
  const auto copies = static_cast<std::size_t>(std::count_if(schedule.steps.begin(), schedule.steps.end(),
                                                             [](const DeviceStep& step) { return step.is_copy(); }));
  const std::size_t runs = schedule.steps.size() - copies;
  out << "duration    " << schedule.duration.count() << ", energy " << schedule.energy.count() << "\n";
  out << "bound       " << schedule.lower_bound << " of the objective\n";
  print_computes(out, schedule.status, schedule.solver);
  out << "steps       " << runs << " runs, " << runs - graph.graph.ops.size() << " of them again, " << copies
      << " copies\n";
  for (const DeviceId d : graph.devices.ids()) {
    out << "peak        " << printable(graph.devices[d].name) << ": " << schedule.peak_memory[d].count() << " bytes";
    if (schedule.budget[d]) out << " of " << schedule.budget[d]->count();
    out << "\n";
  }
}

namespace {

std::string overhead_text(const Curve& curve, const CurvePoint& point) {
  return point.has_schedule() ? text::percent_text(curve.overhead(point), 3) : "-";
}

/// A budget below the fixed memory has no percentage.
std::string part_text(const Curve& curve, Bytes budget) {
  const double part = curve.part_of_baseline(budget);
  return part < 0 ? "-" : text::percent_text(part, 1);
}

constexpr int kWide = 80;

/// `text` at the right of `width` columns, behind two blanks.
std::string cell(const std::string& text, std::size_t width) {
  return (text.size() < width ? std::string(width - text.size(), ' ') : "") + text + "  ";
}

/// True if a reader would take two budgets for the same: a byte apart, or a ten-thousandth.
bool is_close(Bytes less, Bytes more) {
  constexpr std::int64_t kPart = 10'000;
  return (more - less).count() <= std::max<std::int64_t>(1, more.count() / kPart);
}

void print_mark(std::ostream& out, const char* word, const Curve& curve, const CurvePoint& point) {
  out << word << text::bytes_text(point.budget) << " (" << text::percent_text(curve.part_of_baseline(point.budget), 1)
      << "): " << text::percent_text(curve.overhead(point), 3) << " overhead\n";
}

}  // namespace

SweepTable::SweepTable(Curve baseline, std::ostream& out, int width)
    : baseline_(std::move(baseline)), out_(out), is_narrow_(width < kWide) {}

void SweepTable::add(const SweepProgress& progress) {
  if (!header_printed_) {
    out_ << cell("seconds", 9) << cell("budget", 12) << (is_narrow_ ? "" : cell("part", 8)) << "status    "
         << cell("overhead", 10) << "     bound" << (is_narrow_ ? "" : "  decided") << "\n";
    header_printed_ = true;
  }
  const CurvePoint point{.budget = progress.budget,
                         .status = progress.status,
                         .duration = progress.duration,
                         .lower_bound = progress.lower_bound};
  std::string status = json::status_word(point.status);
  status.resize(10, ' ');
  out_ << cell(text::fixed(progress.seconds, 2), 9) << cell(text::bytes_text(point.budget), 12)
       << (is_narrow_ ? "" : cell(part_text(baseline_, point.budget), 8)) << status
       << cell(overhead_text(baseline_, point), 10) << cell(text::percent_text(baseline_.least_overhead(point), 3), 10);
  if (!is_narrow_) out_ << progress.settled << " of " << progress.points;
  out_ << "\n" << std::flush;
}

void print_curve(std::ostream& out, const Graph& graph, const Curve& curve, int width) {
  const bool is_narrow = width < kWide;
  const std::size_t part = is_narrow ? 7 : 8;
  const std::size_t figure = is_narrow ? 9 : 10;
  const std::string name = graph.name.empty() ? "without a name" : printable(graph.name);
  out << text::wrapped_lines("graph       " + name + ": " + std::to_string(graph.ops.size()) + " ops, peak " +
                                 text::bytes_text(curve.baseline_peak_memory) + " without recompute" +
                                 unknown_text(graph),
                             kWordColumns, width)
      << cell("budget", 12) << cell("part", part) << cell("overhead", figure) << cell("bound", figure)
      << (is_narrow ? "" : cell("peak", 12)) << "status\n";
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const CurvePoint& point = curve.points[i];
    const bool is_least = point.has_schedule() && point.budget == curve.least_budget;
    // A few bytes below a budget that holds: one row says both.
    if (!point.has_schedule() && i + 1 < curve.points.size() && is_close(point.budget, curve.points[i + 1].budget)) {
      continue;
    }
    const std::string bound =
        point.status == Status::infeasible ? "-" : text::percent_text(curve.least_overhead(point), 3);
    const std::string peak = point.has_schedule() ? text::bytes_text(point.peak_memory) : "-";
    out << cell(text::bytes_text(point.budget), 12) << cell(part_text(curve, point.budget), part)
        << cell(overhead_text(curve, point), figure) << cell(bound, figure) << (is_narrow ? "" : cell(peak, 12))
        << json::status_word(point.status)
        << (!is_least   ? ""
            : is_narrow ? ", min"
                        : ", the minimum budget")
        << (point.max_computes > 0 ? ", " + std::to_string(point.max_computes) + " runs per op" : "")
        << (point.slices > 0 ? ", in " + std::to_string(point.slices) + " slices" : "") << "\n";
  }
  print_curve_chart(out, curve, width);
  if (curve.knee) print_mark(out, "knee        ", curve, curve.points[*curve.knee]);
  if (const auto smallest = curve.smallest_feasible()) {
    print_mark(out, "lowest met  ", curve, curve.points[*smallest]);
  }
  int most = curve.max_computes;
  for (const CurvePoint& point : curve.points) most = std::max(most, point.max_computes);
  const std::string proved = "every schedule with at most " + std::to_string(most) +
                             (most == 1 ? " run per op" : " runs per op") + " needs at least " +
                             text::exact_bytes_text(curve.least_budget);
  out << text::wrapped_lines("proved      " + proved, kWordColumns, width);
}

}  // namespace remora::cli
