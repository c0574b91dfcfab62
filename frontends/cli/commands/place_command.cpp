// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <iostream>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "engine/ask/ask.hpp"
#include "engine/base/deadline.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/commands/solve_run.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/cli/showing/place_figures.hpp"
#include "frontends/cli/showing/summary.hpp"
#include "frontends/formats/banks_json.hpp"
#include "frontends/formats/document.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/interchange.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/hlo/module.hpp"
#include "frontends/onnx/read/onnx_reader.hpp"
#include "frontends/text/text.hpp"
#include "frontends/tflite/arena.hpp"
#include "frontends/tflite/model.hpp"
#include "model/banks.hpp"
#include "model/buffers/schedule_buffers.hpp"
#include "model/error.hpp"
#include "model/types.hpp"
#include "model/verify.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace {

OptionGroup problem_options_of_place() {
  OptionGroup group("The arena");
  group.add_options()("capacity,c", po::value<std::string>()->value_name("B"),
                      "maximum size of the arena: bytes (12GiB) or a percentage of the largest sum of sizes alive at "
                      "one time; without it, the smallest arena is sought")(
      "alignment", po::value<std::int64_t>()->value_name("N"),
      "every offset is a multiple of N (default 1; for a schedule 64, for a TFLite model 16), and of the "
      "buffer's own alignment")("graph", input_file(), "the schedule's graph, where BUFFERS is a schedule")(
      "tflite", "BUFFERS is a TFLite model; the output is the model with a plan for TFLite Micro's arena");
  return group;
}

OptionGroup search_options_of_place() {
  OptionGroup group("The search");
  add_table_options(group, limit_rows());
  group.add_options()("heuristics", "use the fast heuristics only");
  return group;
}

OptionGroup place_output() {
  OptionGroup group("Output");
  group.add_options()("output,o", output_file(),
                      "where to write the buffers with their offsets (for a schedule or a model: that with addresses, "
                      "or a table if the file is named *.csv; over devices: a remora-banks); - for standard output")(
      "json", "print the figures as JSON")("quiet,q", "no progress table");
  return group;
}

/// The buffers to place, and the schedule or the model from which they are, if any.
struct PlaceInput {
  FileText file{};
  std::vector<Buffer> buffers{};
  Bytes alignment{1};
  std::optional<tflite::ArenaTensors> tensors{};
  /// Where the file has several memories, with `buffers` aligned.
  std::optional<BankProblem> banks{};
  LoadedGraph graph{};
  Schedule schedule{};
  std::vector<Holder> holders{};

  [[nodiscard]] bool is_schedule() const { return graph.graph != nullptr; }
};

/// A file that was to be a JSON document: what is wrong with it comes before what it is not.
void expect_json(const FileText& file) {
  try {
    (void)json::parse(file.content);
  } catch (const InputError& error) {
    throw InputError(file.path, error.what());
  }
}

BankProblem load_banks(const Arguments& arguments, const FileText& file) {
  if (arguments.has("tflite"))
    throw UsageError("--tflite: a plan in a TFLite model has one arena, and " + file.path + " has several memories");
  for (const char* option : {"capacity", "graph"}) {
    if (!arguments.has(option)) continue;
    throw UsageError(std::string("--") + option + ": " + file.path + " is a remora-banks, which says so itself");
  }
  try {
    return json::read_bank_problem(json::Text(file.content));
  } catch (const InputError& error) {
    throw InputError(file.path, error.what());
  }
}

/// A valid schedule of the graph.
template <class AnyGraph>
auto load_valid(const FileText& file, const AnyGraph& graph) {
  auto schedule = load_schedule(file, graph);
  if (!schedule.has_schedule()) throw InputError(file.path, "holds no schedule: the search found none");
  expect_valid(file.path, graph, schedule);
  return schedule;
}

/// A bank for each device, with what its budget leaves above fixed memory; without one, room for all its buffers.
BankProblem banks_of(const DeviceGraph& graph, const DeviceSchedule& schedule, Bytes alignment) {
  BankProblem problem;
  std::vector<ScheduleBuffers> found = buffers_of(graph, schedule);
  for (const DeviceId d : graph.devices.ids()) {
    Bytes all;
    for (Buffer& buffer : found[d.index()].buffers) {
      all += buffer.size + alignment;
      problem.choices.push_back({{.bank = d.index()}});
      problem.buffers.push_back(std::move(buffer));
    }
    const auto& budget = schedule.budget[d];
    problem.banks.push_back({graph.devices[d].name, budget ? *budget - graph.devices[d].fixed_memory : all});
  }
  return problem;
}

void take_banks(PlaceInput& input) {
  align(input.banks->buffers, input.alignment);
  check_bank_problem(*input.banks);
  input.buffers = input.banks->buffers;
}

void load_schedule_input(Arguments& arguments, PlaceInput& input) {
  const FileText graph = read_once(arguments.input("graph"));
  if (const auto devices = load_device_graph(graph, arguments)) {
    if (arguments.has("capacity"))
      throw UsageError("--capacity: " + input.file.path + " has a budget for each device, which says so itself");
    const DeviceSchedule schedule = load_valid(input.file, *devices->graph);
    input.banks = banks_of(*devices->graph, schedule, input.alignment);
    return take_banks(input);
  }
  adopt_reading(arguments, input.file, arguments.has("quiet"));
  input.graph = load_graph_of(input.file, graph, arguments, arguments.has("quiet"));
  input.graph.graph = scheduled_graph(input.file, input.graph).graph;
  input.schedule = load_valid(input.file, *input.graph.graph);
  input.schedule.arena.reset();
  ScheduleBuffers found = buffers_of(*input.graph.graph, input.schedule);
  input.buffers = std::move(found.buffers);
  input.holders = std::move(found.holders);
}

PlaceInput load_input(Arguments& arguments, FileText text) {
  PlaceInput input{.file = std::move(text)};
  const FileText& file = input.file;
  const std::string& path = file.path;
  const bool is_schedule = arguments.has("graph");
  const bool is_model = arguments.has("tflite");
  if (is_schedule && is_model) throw UsageError("--graph is for a schedule, and --tflite for a model");
  constexpr std::int64_t kUsual = 64;
  input.alignment = read_alignment(arguments, is_model ? tflite::kAlignment.count() : is_schedule ? kUsual : 1);
  if (json::is_bank_problem(json::Text(file.content))) {
    input.banks = load_banks(arguments, file);
    input.alignment = read_alignment(arguments, 1);
    take_banks(input);
    return input;
  }
  if (is_model) {
    input.tensors = tflite::read_arena_tensors(file.content, path);
    input.buffers = input.tensors->buffers;
  } else if (is_schedule) {
    load_schedule_input(arguments, input);
    if (input.banks) return input;
  } else {
    const std::string no_table = path + " is not a table of buffers; a schedule needs its graph: --graph FILE";
    const auto first = file.content.find_first_not_of(" \t\r\n");
    if (first != std::string::npos && file.content[first] == '{') {
      expect_json(file);
      throw UsageError(no_table);
    }
    if (onnx_frontend::looks_like_onnx(file.content) || hlo::looks_like_module(file.content))
      throw UsageError(no_table);
    if (tflite::looks_like_model(file.content)) throw UsageError(path + " is a TFLite model; say --tflite");
    input.buffers = interchange::read_buffers(file.content, path);
  }
  align(input.buffers, input.alignment);
  try {
    check_buffers(input.buffers);
  } catch (const InputError& error) {
    throw InputError(path, error.what());
  }
  return input;
}

/// Writes the schedule or the model with its offsets, or a table. False if the arena is above the schedule's budget.
bool write_placed(const Arguments& arguments, PlaceInput& input, const PlaceResult& result, const std::string& output) {
  if (input.banks) {
    arguments.files().write(output, [&](std::ostream& out) {
      json::write_bank_placement(out, *input.banks, {result.banks, result.offsets});
    });
    return true;
  }
  if (input.tensors && !output.ends_with(".csv")) {
    const std::string planned = tflite::with_plan(input.file.content, input.file.path, *input.tensors, result.offsets);
    arguments.files().write(output, [&](std::ostream& out) { out << planned; });
    return true;
  }
  if (!input.is_schedule() || output.ends_with(".csv")) {
    arguments.files().write(output,
                            [&](std::ostream& out) { interchange::write_buffers(out, input.buffers, result.offsets); });
    return true;
  }
  const Graph& graph = *input.graph.graph;
  if (result.arena > input.schedule.budget - graph.fixed_memory) return false;
  input.schedule.arena = make_arena(input.schedule, {input.buffers, input.holders}, result.offsets, input.alignment);
  ensure(verify(graph, input.schedule).valid(), "place: the schedule with addresses does not verify");
  arguments.files().write(output, [&](std::ostream& out) { json::write_schedule(out, input.schedule, graph); });
  return true;
}

/// A line for every smaller arena and every better bound:
///
///      seconds         arena         bound
///         0.02      3.21 GiB      3.20 GiB
class PlaceTable {
 public:
  explicit PlaceTable(std::ostream& out) : out_(out) {}

  void add(double seconds, Bytes arena, Bytes bound);

 private:
  std::ostream& out_;
  bool header_printed_ = false;
};

void PlaceTable::add(double seconds, Bytes arena, Bytes bound) {
  if (!header_printed_) out_ << "  seconds         arena         bound\n";
  header_printed_ = true;
  std::array<char, 120> line{};
  std::snprintf(line.data(), line.size(), "%9.2f  %12s  %12s\n", seconds, text::bytes_text(arena).c_str(),
                text::bytes_text(bound).c_str());
  out_ << line.data() << std::flush;
}

}  // namespace

int place_command(const Words& words) {
  Arguments arguments("place", "Gives buffers offsets in one arena: the smallest, or one within a capacity.",
                      {{"BUFFERS",
                        "buffers with their lifespans (CSV as google/minimalloc reads it, docs/guide/place.md), a "
                        "remora-banks (several memories), with --graph a remora-schedule, or with --tflite a TFLite "
                        "model; - for standard input"}});
  for (const OptionGroup& group :
       {problem_options_of_place(), search_options_of_place(), graph_options(), place_output()}) {
    arguments.add(group);
  }
  arguments.set_notes(
      "SIGINT and SIGTERM end the search with the best placement so far; a second signal ends the program at once.\n"
      "Exit: 0 placed, 20 proved impossible, 21 no placement within the capacity found.");
  if (!arguments.parse(words)) return kSuccess;
  const SolveOptions options = read_limits(arguments);
  const std::string output = arguments.has("output") ? arguments.output("output") : "";
  if (output == "-" && arguments.has("json")) {
    throw UsageError("--json: the buffers go to standard output; name a file with -o");
  }
  if (!output.empty()) json::check_writable(output);
  PlaceInput input = load_input(arguments, read_once(arguments.file("BUFFERS")));
  const std::vector<Buffer>& buffers = input.buffers;

  PlaceSettings settings = place_settings(options);
  settings.exact = !arguments.has("heuristics");
  const Bytes load = largest_load(buffers);
  if (arguments.has("capacity")) {
    settings.capacity = read_budget(arguments.get<std::string>("capacity"), Bytes(), load, "--capacity");
  }
  SignalGuard signals;
  signals.watch_memory();
  const Deadline deadline(options.time_limit, &signals.flag());
  PlaceTable table(std::cerr);
  if (!arguments.has("quiet")) {
    settings.progress = [&](Bytes arena, Bytes bound) { table.add(deadline.elapsed(), arena, bound); };
  }
  const auto is_over = [&] { return deadline.reached(); };
  const PlaceResult result = input.banks ? place(*input.banks, settings, is_over) : place(buffers, settings, is_over);
  int code = solve_exit_code(result.status);
  if (!output.empty() && code == kSuccess && !write_placed(arguments, input, result, output)) {
    std::cerr << "remora: the arena and the fixed memory are above the schedule's budget; nothing is written\n";
    code = kNoSchedule;
  }
  const PlaceFigures figures{.buffers = buffers,
                             .banks = input.banks ? &*input.banks : nullptr,
                             .capacity = settings.capacity,
                             .result = result,
                             .seconds = deadline.elapsed(),
                             .seed = options.seed,
                             .threads = settings.threads};
  if (arguments.has("json")) {
    print_place_json(std::cout, figures);
  } else if (output == "-" && arguments.has("quiet")) {
    if (solve_exit_code(result.status) != kSuccess) std::cerr << "remora: " << refused_placement(figures) << "\n";
  } else {
    const bool to_error = output == "-";
    print_place_text(to_error ? std::cerr : std::cout, figures,
                     text::terminal_width(to_error ? STDERR_FILENO : STDOUT_FILENO, kNoWidth));
  }
  return code;
}

}  // namespace remora::cli
