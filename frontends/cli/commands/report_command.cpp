// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <ostream>
#include <string>

#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/report_source.hpp"
#include "frontends/cli/showing/report_text.hpp"
#include "frontends/cli/showing/sweep_table.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/report/chrome_trace.hpp"
#include "frontends/report/figures.hpp"
#include "frontends/report/page.hpp"
#include "model/error.hpp"

namespace remora::cli {
namespace {

constexpr std::array kFiles{"output", "svg", "table", "trace"};

OptionGroup report_output() {
  OptionGroup group("What is written (without any of these, the page to standard output)");
  group.add_options()("output,o", output_file(), "the report as one HTML page that needs no network")(
      "svg", output_file(), "a figure: memory over steps, or overhead against budget")(
      "table", output_file(), "CSV: the recomputed ops and why, or the points of a sweep")(
      "text", "a summary for terminals, to standard output")(
      "trace", output_file(), "Chrome trace JSON (about:tracing, Perfetto)")("quiet,q", "no warnings");
  return group;
}

/// Checks the options that write something before anything is read.
void check_outputs(const Arguments& arguments) {
  int to_standard_output = arguments.has("text") ? 1 : 0;
  for (const char* option : kFiles) {
    if (!arguments.has(option)) continue;
    const std::string& path = arguments.output(option);
    if (path == "-") ++to_standard_output;
    if (path != "-") json::check_writable(path);
  }
  if (to_standard_output > 1) throw UsageError("only one result can go to standard output (--text, or - for a FILE)");
}

class Report {
 public:
  Report(const Arguments& arguments, const report::Page& page) : arguments_(arguments), page_(page) {
    if (!page.curve) profile_ = report::profile_of(page.graph, page.schedules.front());
  }

  void write() const {
    bool any = arguments_.has("text");
    for (const char* option : kFiles) any = any || arguments_.has(option);
    if (!any) arguments_.files().write("-", [&](std::ostream& out) { report::write_page(out, page_); });
    write_as("output", [&](std::ostream& out) { report::write_page(out, page_); });
    write_as("svg", [&](std::ostream& out) { out << report::svg(figure()); });
    write_as("table", [&](std::ostream& out) { write_table(out); });
    if (arguments_.has("text")) arguments_.files().write("-", [&](std::ostream& out) { write_text(out); });
    write_as("trace", [&](std::ostream& out) {
      report::write_trace(out, *page_.graph, profile_.after, schedule().budget, page_.duration_unit);
    });
  }

 private:
  template <class Write>
  void write_as(const char* option, const Write& write) const {
    if (arguments_.has(option)) arguments_.files().write(arguments_.output(option), write);
  }

  [[nodiscard]] const Schedule& schedule() const { return page_.schedules.front(); }

  [[nodiscard]] report::Figure figure() const {
    return page_.curve ? report::curve_figure(*page_.curve) : report::memory_figure(*page_.graph, schedule(), profile_);
  }

  void write_table(std::ostream& out) const {
    if (page_.curve) {
      report::write_curve_csv(out, *page_.curve);
    } else {
      report::write_recompute_table(out, *page_.graph, profile_);
    }
  }

  void write_text(std::ostream& out) const {
    if (page_.curve) {
      print_curve(out, *page_.graph, *page_.curve);
    } else {
      print_report(out, *page_.graph, schedule(), profile_);
    }
  }

  const Arguments& arguments_;
  const report::Page& page_;
  /// Of the schedule; a sweep has several, and its page makes them itself.
  report::ScheduleProfile profile_{};
};

}  // namespace

int report_command(const Words& words) {
  Arguments arguments(
      "report", "Shows what a schedule does and why, or what a sweep found.",
      {{"GRAPH", "the graph that was solved, read with the same options"},
       {"SCHEDULE", "a remora-schedule, or the remora-curve of a sweep (JSON), detected from its content"}});
  arguments.add(report_output());
  arguments.add(graph_options());
  arguments.set_notes("Exit: 0 written, 65 the schedule is not a valid one of the graph.");
  if (!arguments.parse(words)) return kSuccess;
  check_outputs(arguments);
  const LoadedGraph loaded = load_graph(arguments.file("GRAPH"), arguments, arguments.has("quiet"));
  const std::string& path = arguments.file("SCHEDULE");
  const report::Page page = load_page(path, loaded, arguments.files());
  if (arguments.has("trace") && (page.curve || !page.schedules.front().has_schedule())) {
    throw InputError(
        path, "--trace needs a schedule; this is " +
                  std::string(page.curve ? "a sweep: name one of its schedules" : "the answer that there is none"));
  }
  Report(arguments, page).write();
  return kSuccess;
}

}  // namespace remora::cli
