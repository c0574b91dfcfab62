// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <sstream>
#include <string>
#include <utility>

#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/formats/buffers.hpp"
#include "frontends/formats/stage_matrices.hpp"
#include "model/error.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace {

/// Writes a schedule of a graph in some form.
using ScheduleWriter = void (*)(std::ostream&, const Graph&, const Schedule&);

/// The forms to convert to: without a writer, the graph itself.
constexpr std::array<std::pair<const char*, ScheduleWriter>, 3> kForms{
    {{"graph", nullptr}, {"rs", interchange::write_stage_matrices}, {"minimalloc", interchange::write_minimalloc}}};

OptionGroup form_options() {
  OptionGroup group("The form");
  group.add_options()("to", po::value<std::string>()->default_value("graph")->value_name("FORM"),
                      "graph: GRAPH as remora-graph JSON; of a schedule, as CSV: rs, Checkmate's matrices R and S; "
                      "minimalloc, its buffers with their lifespans")("schedule", input_file(),
                                                                      "the schedule of GRAPH (JSON) that is converted");
  return group;
}

ScheduleWriter read_form(const Arguments& arguments) {
  const std::string& form = arguments.get<std::string>("to");
  const ScheduleWriter writer = choose("to", form, kForms);
  if (writer != nullptr && !arguments.has("schedule")) throw UsageError("--to " + form + " needs --schedule");
  if (writer == nullptr && arguments.has("schedule")) throw UsageError("--schedule needs --to rs or --to minimalloc");
  return writer;
}

/// Throws InputError, placed at the schedule's file, unless the schedule is a valid one.
Schedule load_valid_schedule(const FileText& file, const Graph& graph) {
  const std::string& path = file.path;
  Schedule schedule = load_schedule(file, graph);
  if (!schedule.has_schedule()) throw InputError(path, "there is no schedule in it, only that none was found");
  expect_valid(path, graph, schedule);
  return schedule;
}

void write_schedule_form(const Arguments& arguments, const FileText& file, const Graph& graph, ScheduleWriter writer) {
  const Schedule schedule = load_valid_schedule(file, graph);
  std::ostringstream text;
  try {
    writer(text, graph, schedule);
  } catch (const InputError& error) {
    throw InputError(file.path, error.what());
  }
  arguments.files().write(arguments.output("output"), [&](std::ostream& out) { out << std::move(text).str(); });
}

}  // namespace

int convert_command(const Words& words) {
  Arguments arguments("convert", "Writes GRAPH as remora-graph JSON, or a schedule of it in a form that others read.",
                      {{"GRAPH", kGraphHelp}});
  OptionGroup group = graph_output_options();
  group.add_options()("quiet,q", "no warnings");
  arguments.add(form_options());
  arguments.add(group);
  arguments.add(graph_options());
  if (!arguments.parse(words)) return kSuccess;
  const ScheduleWriter writer = read_form(arguments);
  FileText file;
  if (writer != nullptr) {
    file = read_once(arguments.input("schedule"));
    adopt_reading(arguments, file, arguments.has("quiet"));
  }
  const LoadedGraph loaded = load_graph(arguments.file("GRAPH"), arguments, arguments.has("quiet"));
  if (writer == nullptr) {
    write_graph_output(arguments, *loaded.graph);
  } else {
    write_schedule_form(arguments, file, *loaded.graph, writer);
  }
  return kSuccess;
}

}  // namespace remora::cli
