// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "engine/base/deadline.hpp"
#include "engine/placement/place.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/commands/rewrite_check.hpp"
#include "frontends/cli/commands/solve_run.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/cli/showing/summary.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/hlo/reader.hpp"
#include "frontends/hlo/sliceable.hpp"
#include "frontends/onnx/write/onnx_writer.hpp"
#include "frontends/text/slices.hpp"
#include "frontends/text/text.hpp"
#include "frontends/tflite/arena.hpp"
#include "frontends/tflite/writer.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace {

OptionGroup schedule_options() {
  OptionGroup group("An existing schedule");
  group.add_options()("schedule", input_file(), "follow this schedule of MODEL instead of solving");
  return group;
}

OptionGroup rewrite_output() {
  OptionGroup group("Output");
  group.add_options()("output,o", output_file("-"),
                      "where to write the model (with --training: the schedule with the model's names, as JSON), - for "
                      "standard output");
  add_display_options(group);
  return group;
}

OptionGroup check_options() {
  OptionGroup group("Running it");
  auto add = group.add_options();
  add("check",
      "run MODEL and the rewritten model in onnxruntime: compare their outputs bit for bit, and measure both peaks");
  add("python", po::value<std::string>()->value_name("PYTHON")->default_value("python3"),
      "the Python that has onnxruntime, for --check");
  group.make_expert({"python"});
  return group;
}

/// Rejects before the search what --check cannot run.
void expect_checkable(const Arguments& arguments) {
  if (!arguments.has("check")) {
    if (!arguments.values()["python"].defaulted()) throw UsageError("--python says who runs --check: give both");
    return;
  }
  if (arguments.has("training")) throw UsageError("--check runs a model, and --training gives a schedule");
  if (arguments.file("MODEL") == "-" || arguments.output("output") == "-")
    throw UsageError("--check runs files: name MODEL, and --output");
  expect_onnxruntime(arguments.get<std::string>("python"));
}

/// With a schedule there is nothing to solve, and an option that says how must not pass in silence.
void check_schedule_options(const Arguments& arguments) {
  if (!arguments.has("schedule")) {
    if (!arguments.has("budget")) throw UsageError("give --budget, or --schedule with a schedule of the model");
    return;
  }
  for (const OptionGroup& group : {problem_options(false), search_options()}) {
    for (const auto& option : group.options()) {
      const std::string& name = option->long_name();
      if (!arguments.has(name) || arguments.values()[name].defaulted()) continue;
      throw UsageError("--" + name + " says how to solve, --schedule that it is done: give one of them");
    }
  }
}

/// The schedule of the file, if it is a valid one of this very model.
Schedule load_made_schedule(const FileText& file, const LoadedGraph& graph, const std::string& model) {
  const std::string& path = file.path;
  refuse_slices(file, "--schedule, whose axes may be others than those that can be written: give --slices");
  Schedule schedule = load_schedule(file, *graph.graph);
  if (!schedule.graph_sha256.empty() && schedule.graph_sha256 != graph.sha256) {
    throw InputError(path, "$.graph_sha256: it is the schedule of another file, not of " + model);
  }
  if (!schedule.has_schedule()) throw InputError(path, "holds no schedule: the search found none");
  expect_valid(path, *graph.graph, schedule);
  return schedule;
}

std::string rewritten_text(const LoadedModel& model, const Schedule& schedule, const std::string& output) {
  if (model.options.training) return runtime_schedule(model.lowered, schedule);
  return rewritten_bytes(model, schedule, output);
}

/// Throws before the search, not after it, what would be thrown for any schedule: the model's own order is written and
/// dropped.
void check_writable_form(const LoadedModel& model, const std::string& output) {
  if (!model.options.training) return check_rewritable(model, output);
  const Instance instance(model.graph.graph, {});
  static_cast<void>(runtime_schedule(model.lowered, schedule_of(instance, input_order(instance))));
}

/// A schedule of the module in which nothing is read that is destroyed: ops that would read so do not run again.
Answer solve_module(const Arguments& arguments, const hlo::LoweredModule& module, LoadedGraph graph,
                    const Request& request, std::optional<Bytes> budget = {}) {
  while (true) {
    Answer answer = solve_as_asked(arguments, graph, request, {}, budget);
    if (!answer.schedule.has_schedule()) return answer;
    const std::vector<OpId> stale = hlo::stale_reads(module, ops_of(answer.schedule));
    if (stale.empty()) return answer;
    auto fewer = std::make_shared<Graph>(*graph.graph);
    for (const OpId op : stale) {
      if (!(*fewer)[op].recompute) throw InputError(module.source, "no recompute of this order can be written");
      (*fewer)[op].recompute = false;
    }
    graph.graph = std::move(fewer);
  }
}

struct WrittenAnswer {
  Answer answer{};
  /// Empty without a schedule.
  std::string text{};
};

/// The op without one of its axes.
void drop_axis(LoadedModel& model, const SlicedOp& dropped) {
  auto fewer = std::make_shared<Graph>(*model.graph.graph);
  const auto drop = [&](auto& axes) { axes.erase(axes.begin() + dropped.axis); };
  drop((*fewer)[dropped.op].axes);
  drop(model.lowered.graph[dropped.op].axes);
  drop(model.lowered.writable[dropped.op.index()]);
  model.graph.graph = std::move(fewer);
}

/// A schedule whose slices can be written: where the engine chose an axis of which they cannot, it chooses without it.
WrittenAnswer solve_model(const Arguments& arguments, LoadedModel& model, const Request& request,
                          const std::string& output) {
  while (true) {
    Answer answer = solve_as_asked(arguments, model.graph, request);
    if (!answer.schedule.has_schedule()) return {.answer = std::move(answer)};
    try {
      std::string text = rewritten_text(model, answer.schedule, output);
      return {std::move(answer), std::move(text)};
    } catch (const onnx_frontend::UnevenSlices& uneven) {
      if (!request.slices.is_automatic() || answer.schedule.solver.stop == Stop::cancelled) throw;
      for (const SlicedOp& op : uneven.ops()) drop_axis(model, op);
    }
  }
}

void show(const Arguments& arguments, const Graph& graph, const Answer& answer) {
  if (is_quiet(arguments)) {
    if (!arguments.has("json-progress") && !answer.schedule.has_schedule())
      std::cerr << "remora: " << refused_line(graph, answer.schedule, answer.refusal) << "\n";
    return;
  }
  print_summary(std::cerr, graph, answer.schedule, text::terminal_width(STDERR_FILENO, kSummaryWidth), answer.refusal);
}

/// XLA places the temporaries again, without arguments and outputs, which the budget covers.
void show_temporaries(const Arguments& arguments, const hlo::LoweredModule& before, const hlo::LoweredModule& after) {
  if (is_quiet(arguments)) return;
  const Bytes was = hlo::assigned_temporaries(before.module);
  const Bytes is = hlo::assigned_temporaries(after.module);
  std::cerr << "remora: " << (is > was ? "warning: " : "")
            << "XLA's temporaries, by its rules for the CPU: " << text::bytes_text(was) << " before, "
            << text::bytes_text(is) << " in the module that was written\n";
}

/// A module, and the answer of which it is written.
struct SolvedModule {
  hlo::LoweredModule module{};
  LoadedGraph graph{};
  Answer answer{};
};

LoadedGraph loaded_graph(const hlo::LoweredModule& module, const FileText& file) {
  return {std::make_shared<const Graph>(module.graph), text::sha256_hex(file.content)};
}

void show_regions(const Arguments& arguments, const Schedule& schedule) {
  if (is_quiet(arguments)) return;
  for (const std::string& line : text::region_lines(*schedule.slices, "ns")) std::cerr << "remora: " << line << "\n";
}

/// The module in the slices that the engine chooses, and a schedule of it as of any other: it says what copies and
/// joins take. Where that is above the budget, less is asked for. Without slices where those do not help.
SolvedModule solve_in_slices(const Arguments& arguments, const FileText& file, hlo::LoweredModule module,
                             const Request& request) {
  const hlo::SliceableGraph sliceable = hlo::sliceable_graph(module);
  const LoadedGraph axes{std::make_shared<const Graph>(sliceable.graph), text::sha256_hex(file.content),
                         hlo::slice_run(module.machine)};
  Request whole = request;
  whole.slices = {};
  constexpr int kTries = 4;
  Bytes withheld{};
  for (int i = 0; i < kTries; ++i) {
    const Answer chosen = solve_as_asked(arguments, axes, request, withheld);
    if (!chosen.schedule.slices || !chosen.schedule.has_schedule()) break;
    const Bytes budget = chosen.schedule.budget + withheld;
    const std::vector<Region> regions = regions_of(sliceable.graph, chosen.schedule.slices->regions);
    SolvedModule made{hlo::lower_module(hlo::slice_module(module, sliceable, regions), file.path, module.machine)};
    made.graph = loaded_graph(made.module, file);
    made.answer = solve_module(arguments, made.module, made.graph, whole, budget);
    const bool is_ended = made.answer.schedule.solver.stop == Stop::cancelled;
    if (made.answer.schedule.has_schedule() || is_ended) {
      show_regions(arguments, chosen.schedule);
      return made;
    }
    const Instance instance(made.graph.graph, {});
    const Bytes excess = schedule_of(instance, input_order(instance)).peak_memory - chosen.schedule.peak_memory;
    withheld += std::max(excess, Bytes(budget.count() / 64 + 1));
  }
  SolvedModule plain{std::move(module)};
  plain.graph = loaded_graph(plain.module, file);
  plain.answer = solve_module(arguments, plain.module, plain.graph, whole);
  return plain;
}

int rewrite_module(const Arguments& arguments, const FileText& file, const std::optional<FileText>& made,
                   const Request& request) {
  if (arguments.has("check"))
    throw UsageError("--check: runs ONNX models in onnxruntime, and " + file.path + " is none");
  refuse_model_name(arguments.output("output"), "a rewritten HLO module is no ONNX model; name another file");
  hlo::LoweredModule module = load_module(file, arguments);
  const hlo::LoweredModule before = module;
  SolvedModule solved;
  if (made || !request.slices.is_allowed) {
    solved = {std::move(module), loaded_graph(before, file)};
    solved.answer = made ? Answer{.schedule = load_made_schedule(*made, solved.graph, file.path)}
                         : solve_module(arguments, solved.module, solved.graph, request);
  } else {
    solved = solve_in_slices(arguments, file, std::move(module), request);
  }
  const Answer& answer = solved.answer;
  if (answer.schedule.has_schedule()) {
    const Sequence ops = without_useless(Instance(solved.graph.graph, {}), ops_of(answer.schedule));
    const std::string bytes = hlo::rewrite_module(solved.module, ops);
    arguments.files().write(arguments.output("output"), [&](std::ostream& out) { out << bytes; });
    show_temporaries(arguments, before, hlo::lower_module(bytes, "the module that was written", before.machine));
  }
  show(arguments, *solved.graph.graph, answer);
  return solve_exit_code(answer.schedule.status);
}

/// A TFLite model in the order of a schedule, with a plan of its arena.
struct PlannedModel {
  std::string bytes{};
  Bytes arena{};
};

/// Placing takes so long at most; most models take no time.
constexpr double kSecondsToPlace = 5;

PlannedModel planned_model(const FileText& file, const tflite::LoweredModel& lowered, const Schedule& schedule,
                           const SolveOptions& options) {
  std::vector<Region> regions;
  if (schedule.slices) regions = regions_of(lowered.graph, schedule.slices->regions);
  const auto sliced = std::make_shared<const SlicedGraph>(
      slice(lowered.graph, regions, schedule.slices ? schedule.slices->run : SliceRun{}));
  const Sequence ops = without_useless(Instance({sliced, &sliced->graph}, {}), ops_of(schedule));
  const std::string written = tflite::rewrite_model(file.content, lowered, regions, *sliced, ops);
  const tflite::ArenaTensors tensors = tflite::read_arena_tensors(written, "the model that was written");
  const double seconds = options.work_limit > 0 ? std::numeric_limits<double>::infinity() : kSecondsToPlace;
  const Deadline deadline(seconds, nullptr);
  const PlaceResult placed = place(tensors.buffers, place_settings(options), [&] { return deadline.reached(); });
  return {tflite::with_plan(written, "the model that was written", tensors, placed.offsets), placed.arena};
}

/// Slices copy, pad and join in tensors of their own: where the arena is above the budget, less is asked for.
int rewrite_tflite(const Arguments& arguments, const FileText& file, const std::optional<FileText>& made,
                   const Request& request) {
  if (arguments.has("check")) {
    throw UsageError("--check: runs ONNX models in onnxruntime, and " + file.path + " is none");
  }
  refuse_model_name(arguments.output("output"), "a rewritten TFLite model is no ONNX model; name another file");
  // What cannot be written is rejected before the search.
  static_cast<void>(tflite::read_arena_tensors(file.content, file.path));
  const LoadedGraph loaded = load_graph(file, arguments, is_quiet(arguments));
  tflite::LoweredModel lowered = tflite::lower_model(file.content, file.path);
  constexpr int kTries = 4;
  Answer answer;
  std::optional<PlannedModel> planned;
  Bytes withheld{};
  for (int i = 0; i < kTries; ++i) {
    answer = made ? Answer{.schedule = load_made_schedule(*made, loaded, file.path)}
                  : solve_as_asked(arguments, loaded, request, withheld);
    if (!answer.schedule.has_schedule()) break;
    const Bytes budget = answer.schedule.budget + (made ? Bytes() : withheld);
    planned = planned_model(file, lowered, answer.schedule, request.options);
    if (made || planned->arena <= budget) break;
    withheld = std::max(withheld + planned->arena - budget, planned->arena - answer.schedule.peak_memory);
    planned.reset();
    if (answer.schedule.solver.stop == Stop::cancelled) break;
  }
  show(arguments, answer.sliced ? *answer.sliced : *loaded.graph, answer);
  if (!planned) {
    if (withheld > Bytes()) {
      std::cerr << "remora: the arena of every schedule that was found is above the budget; nothing is written\n";
    }
    return answer.schedule.has_schedule() ? kNoSchedule : solve_exit_code(answer.schedule.status);
  }
  arguments.files().write(arguments.output("output"), [&](std::ostream& out) { out << planned->bytes; });
  if (!is_quiet(arguments)) std::cerr << "arena       " << text::exact_bytes_text(planned->arena) << "\n";
  return solve_exit_code(answer.schedule.status);
}

}  // namespace

int rewrite_command(const Words& words) {
  Arguments arguments(
      "rewrite",
      "Writes MODEL as a model that runs in the order of a schedule, recomputed nodes again under fresh "
      "names; of a training step, the schedule with the model's names.",
      {{"MODEL", "an ONNX model, a TFLite model or a scheduled HLO module; - for standard input"}});
  for (const OptionGroup& group : {problem_options(false), schedule_options(), search_options(), graph_options(),
                                   rewrite_output(), check_options()}) {
    arguments.add(group);
  }
  arguments.may_write_model("output");
  arguments.set_notes(
      "Runtimes may undo the recomputes: see docs/guide/rewrite.md for the settings that keep it.\n"
      "Exit: 0 written, 20 proved infeasible, 21 no schedule found within the limits; then nothing is written. 65 also "
      "if --check finds outputs that differ.");
  if (!arguments.parse(words)) return kSuccess;
  check_schedule_options(arguments);
  const Request request = read_request(arguments);
  const std::string& output = arguments.output("output");
  json::check_writable(output);
  expect_checkable(arguments);
  std::optional<FileText> made;
  if (arguments.has("schedule")) {
    made = read_once(arguments.input("schedule"));
    adopt_reading(arguments, *made, is_quiet(arguments));
  }
  const FileText file = read_once(arguments.file("MODEL"));
  if (tflite::looks_like_model(file.content)) return rewrite_tflite(arguments, file, made, request);
  if (hlo::looks_like_module(file.content)) return rewrite_module(arguments, file, made, request);
  LoadedModel model = load_model(file, arguments, is_quiet(arguments));
  if (model.options.training) refuse_model_name(output, kNoTrainingNodes);
  if (!made) check_writable_form(model, output);
  WrittenAnswer written;
  if (made) {
    written.answer.schedule = load_made_schedule(*made, model.graph, model.path);
    written.text = rewritten_text(model, written.answer.schedule, output);
  } else {
    written = solve_model(arguments, model, request, output);
  }
  const Answer& answer = written.answer;
  const Schedule& schedule = answer.schedule;
  if (schedule.has_schedule()) arguments.files().write(output, [&](std::ostream& out) { out << written.text; });
  show(arguments, answer.sliced ? *answer.sliced : *model.graph.graph, answer);
  if (arguments.has("check") && schedule.has_schedule()) {
    check_rewritten(arguments.has("json-progress") ? std::cout : std::cerr, arguments.get<std::string>("python"), model,
                    output, schedule.slices.has_value());
  }
  return solve_exit_code(schedule.status);
}

}  // namespace remora::cli
