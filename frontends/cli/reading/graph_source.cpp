// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/graph_source.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/ask/ask.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/interchange.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/hlo/reader.hpp"
#include "frontends/hlo/sliceable.hpp"
#include "frontends/onnx/write/onnx_writer.hpp"
#include "frontends/text/text.hpp"
#include "frontends/tflite/lowering.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/quote.hpp"
#include "model/sequence.hpp"
#include "model/verify.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace fs = std::filesystem;
using onnx_frontend::AxesWanted;
using onnx_frontend::BackwardRule;
using onnx_frontend::CostModel;
using onnx_frontend::looks_like_onnx;
using onnx_frontend::ModelFolders;
using onnx_frontend::OnnxOptions;
using onnx_frontend::ParameterGradients;

namespace {

constexpr std::array kOnnxOnly{"dim",  "bound",  "training",       "backward",      "gradients",
                               "cost", "device", "allow-external", "allow-unknown", "axes"};
/// The one of these options that HLO modules have, too.
constexpr std::string_view kDevice = "device";

/// NAME=VALUE of --dim or --bound.
std::pair<std::string, std::int64_t> parse_extent(const char* option, const std::string& text) {
  const auto sign = text.rfind('=');
  std::int64_t value = 0;
  if (sign != std::string::npos && sign > 0) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + sign + 1, end, value);
    if (error == std::errc() && stop == end && value >= 0) return {text.substr(0, sign), value};
  }
  throw UsageError(std::string("--") + option + ": expected NAME=VALUE with a value of at least 0, got '" + text + "'");
}

/// True of NAME=LOW:HIGH.
bool is_range(const std::string& text) {
  const auto sign = text.rfind('=');
  return sign != std::string::npos && text.find(':', sign) != std::string::npos;
}

/// The folder that places of a model's data count from; of standard input that is the current one.
fs::path folder_of(const std::string& file) {
  const fs::path parent = fs::path(file).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

constexpr const char* kNoGraph = "neither a remora-graph nor an ONNX model nor a TFLite model nor an HLO module";

}  // namespace

void refuse_model_options(const Arguments& arguments, const std::string& path) {
  for (const char* option : kOnnxOnly) {
    // A schedule of the model may be shown on the graph that was made of the model.
    if (arguments.has(option) && !arguments.is_adopted(option))
      throw UsageError(std::string("--") + option + " is for ONNX models; " + path + " is not one");
  }
}

namespace {

Graph read_graph_text(const std::string& content) {
  const auto first = content.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string::npos) throw InputError("", std::string("the file is empty: ") + kNoGraph);
  if (content[first] != '{') throw InputError("", kNoGraph);
  return json::read_graph(json::Text(content));
}

/// But for the one option that it has, too.
void refuse_but(std::string_view own, const Arguments& arguments, const std::string& path, const char* kind) {
  for (const char* option : kOnnxOnly) {
    if (option != own && arguments.has(option) && !arguments.is_adopted(option)) {
      throw UsageError(std::string("--") + option + " is for ONNX models; " + path + " is " + kind);
    }
  }
}

void refuse_for_modules(const Arguments& arguments, const std::string& path) {
  refuse_but(kDevice, arguments, path, "an HLO module");
}

Graph read_tflite(const FileText& file, const Arguments& arguments, bool wants_axes) {
  refuse_but("axes", arguments, file.path, "a TFLite model");
  Graph graph = tflite::lower_model(file.content, file.path).graph;
  for (Op& op : graph.ops) {
    if (!wants_axes) op.axes.clear();
  }
  return graph;
}

/// A graph says nothing of FLOPs: backward ops are scaled by the durations that it states.
std::string put_costs(Graph& graph, const interchange::CostTable& costs) {
  const auto ratio = [&](OpId backward, OpId forward) {
    const double base = static_cast<double>(graph.ops[forward].duration.count());
    return base > 0 ? static_cast<double>(graph.ops[backward].duration.count()) / base : 1.0;
  };
  return interchange::apply_costs(graph, costs, interchange::cost_names(graph), ratio);
}

std::shared_ptr<const Graph> read_graph_file(const std::string& path, const std::string& content,
                                             const Arguments& arguments, const OnnxOptions& options, bool needs_onnx,
                                             bool quiet) {
  if (looks_like_onnx(content) && !tflite::looks_like_model(content)) {
    auto result = onnx_frontend::read_onnx(content, path, options);
    note_data_files(content, path, arguments.files());
    if (!quiet) {
      if (!result.covered.empty()) std::cerr << "remora: " << result.covered << "\n";
      for (const std::string& warning : result.warnings) std::cerr << "remora: warning: " << warning << "\n";
    }
    return std::make_shared<const Graph>(std::move(result.graph));
  }
  if (needs_onnx) throw InputError("", "is not an ONNX model; only those have dimensions to set");
  std::shared_ptr<Graph> graph;
  if (tflite::looks_like_model(content)) {
    graph = std::make_shared<Graph>(read_tflite({path, content}, arguments, options.axes != AxesWanted::none));
  } else if (hlo::looks_like_module(content)) {
    const hlo::LoweredModule module = load_module({path, content}, arguments);
    const bool wants_axes = options.axes != AxesWanted::none;
    graph = std::make_shared<Graph>(wants_axes ? hlo::sliceable_graph(module).graph : module.graph);
  } else {
    graph = std::make_shared<Graph>(read_graph_text(content));
    refuse_model_options(arguments, path);
  }
  if (options.costs) {
    const std::string covered = put_costs(*graph, *options.costs);
    if (!quiet) std::cerr << "remora: " << covered << "\n";
  }
  return graph;
}

}  // namespace

void note_data_files(const std::string& content, const std::string& path, Files& files) {
  if (!files.writes()) return;
  for (const fs::path& file : onnx_frontend::data_files(content, folder_of(path))) {
    files.will_read(file.string(), "data of the model");
  }
}

OptionGroup model_options() {
  OptionGroup group("Reading ONNX models");
  group.add_options()(
      "dim", po::value<std::vector<std::string>>()->value_name("NAME=VALUE"),
      "value of a symbolic dimension, for example batch=8 (repeatable); for 'solve' also a range, such as "
      "sequence=128:8192")(
      "bound", po::value<std::vector<std::string>>()->value_name("NAME=N"),
      "upper bound for a size that depends on data, by node, value or op type, for example NonZero=1000 (repeatable)")(
      "training", "derive loss and backward ops: a training step instead of inference")(
      "backward", po::value<std::string>()->value_name("RULE"),
      "what a backward op reads: precise (default: what its gradient formula needs), or checkmate (Jain et al. 2020)")(
      "gradients", po::value<std::string>()->value_name("WHERE"),
      "parameter gradients: fixed (default: counted under fixed memory) or keep (tensors that must be resident at the "
      "end)")("allow-external", "accept a model whose weights lie outside its folder (absolute paths, .. or links)");
  group.make_expert({"bound", "backward", "gradients", "allow-external"});
  return group;
}

OptionGroup graph_options() {
  OptionGroup group = model_options();
  group.add_options()("cost", po::value<std::string>()->value_name("MODEL"),
                      "durations: roofline (default, nanoseconds), flops or unit")(
      "device", input_file(),
      "device for the roofline: a file, or a name that 'remora fit --devices' prints, such as rtx-3090 (default: an "
      "A100-like accelerator)")(
      "costs", input_file(),
      "table of measured durations by name of the op, as python -m remora.onnx profile writes it; backward ops without "
      "a row are scaled by their FLOPs")(
      "allow-unknown",
      "count tensors of unknown size (it depends on data without a --bound, or they are sequences or strings) as 0 "
      "bytes, and never recompute the ops that make or read them: peak, budget and bound exclude them");
  group.make_expert({"cost", "allow-unknown"});
  return group;
}

namespace {

/// The words that say the option's value.
std::vector<std::string> words_of(const po::option_description& described, const po::variable_value& value) {
  const std::string option = "--" + described.long_name();
  if (described.semantic()->max_tokens() == 0) return {option};
  if (const auto* file = boost::any_cast<InputFile>(&value.value())) {
    return {option + "=" +
            (fs::exists(file->path) ? fs::absolute(file->path).lexically_normal().string() : file->path)};
  }
  std::vector<std::string> words;
  if (const auto* list = boost::any_cast<std::vector<std::string>>(&value.value())) {
    for (const std::string& one : *list) words.push_back(std::string(option).append("=").append(one));
  } else {
    words.push_back(option + "=" + value.as<std::string>());
  }
  return words;
}

}  // namespace

std::vector<std::string> reading_of(const Arguments& arguments) {
  std::vector<std::string> words;
  const OptionGroup group = graph_options();
  for (const auto& option : group.options()) {
    const std::string& name = option->long_name();
    if (!arguments.has(name)) continue;
    for (std::string& word : words_of(*option, arguments.values()[name])) words.push_back(std::move(word));
  }
  return words;
}

void adopt_reading(Arguments& arguments, const FileText& schedule, bool quiet) {
  std::vector<std::string> recorded;
  try {
    recorded = json::read_reading(json::Text(schedule.content));
  } catch (const InputError&) {
    // The schedule's own reader says what is wrong with it.
    return;
  }
  const std::vector<std::string> typed = reading_of(arguments);
  for (const std::string& word : typed) {
    if (quiet || recorded.empty() || std::find(recorded.begin(), recorded.end(), word) != recorded.end()) continue;
    std::cerr << "remora: " << word << " is not how the model was read for " << schedule.path << ":";
    for (const std::string& other : recorded) std::cerr << " " << other;
    std::cerr << "\n";
  }
  arguments.adopt(recorded);
}

namespace {

/// The named row of the table. Throws UsageError that lists the names.
template <class Row>
const Row& row_of(const Row* found, const std::vector<Row>& rows, const char* option, const std::string& name) {
  if (found != nullptr) return *found;
  std::vector<std::string> known;
  known.reserve(rows.size());
  for (const Row& row : rows) known.emplace_back(row.name);
  const std::string meant = text::nearest(name, known);
  throw UsageError(std::string(option) + ": '" + name + "' is neither a file nor one of " + list_text(known) +
                   (meant.empty() ? "" : "; did you mean " + meant + "?"));
}

/// True if the option's value is a path: a file that is there, or a place where none is.
bool is_path(const std::string& name) {
  std::error_code error;
  return fs::exists(name, error) || name.find('/') != std::string::npos || name.ends_with(".json");
}

}  // namespace

bool is_known_device(const std::string& name) {
  return !is_path(name) && find_machine(name) != nullptr;
}

Machine read_device(const std::string& name) {
  if (!is_path(name)) return row_of(find_machine(name), known_machines(), "--device", name);
  return read_machine(json::read_file(name), name);
}

LinkModel read_link_option(const std::string& name) {
  if (!is_path(name)) return row_of(find_link(name), known_links(), "--links", name);
  return read_link(json::read_file(name), name);
}

OnnxOptions read_model_options(const Arguments& arguments) {
  OnnxOptions options;
  const auto read_extents = [&](const char* option, std::map<std::string, std::int64_t>& extents) {
    if (!arguments.has(option)) return;
    for (const std::string& text : arguments.get<std::vector<std::string>>(option)) {
      if (option == std::string_view("dim") && is_range(text)) {
        if (!arguments.has("plans")) throw UsageError("--dim: only 'remora solve' takes a range, " + text);
        continue;  // each size is read by itself
      }
      const auto [name, extent] = parse_extent(option, text);
      extents.insert_or_assign(name, extent);
    }
  };
  read_extents("dim", options.dimensions);
  read_extents("bound", options.bounds);
  options.allow_external = arguments.has("allow-external");
  const bool training = arguments.has("training");
  if (!training && (arguments.has("backward") || arguments.has("gradients"))) {
    throw UsageError("--backward and --gradients need --training");
  }
  if (training) options.training.emplace();
  if (arguments.has("backward")) {
    constexpr std::array<std::pair<const char*, BackwardRule>, 2> kRules{
        {{"precise", BackwardRule::precise}, {"checkmate", BackwardRule::checkmate}}};
    options.training->backward = choose("backward", arguments.get<std::string>("backward"), kRules);
  }
  if (arguments.has("gradients")) {
    constexpr std::array<std::pair<const char*, ParameterGradients>, 2> kGradients{
        {{"fixed", ParameterGradients::fixed}, {"keep", ParameterGradients::keep}}};
    options.training->gradients = choose("gradients", arguments.get<std::string>("gradients"), kGradients);
  }
  return options;
}

OnnxOptions read_onnx_options(const Arguments& arguments) {
  OnnxOptions options = read_model_options(arguments);
  options.allow_unknown = arguments.has("allow-unknown");
  const bool has_axes = arguments.has("axes") || read_slices(arguments).is_allowed;
  options.axes = has_axes ? AxesWanted::all : AxesWanted::none;
  if (options.allow_unknown && options.training) {
    throw UsageError("--allow-unknown: not with --training, which needs every size");
  }
  if (arguments.has("cost")) {
    constexpr std::array<std::pair<const char*, CostModel>, 3> kModels{
        {{"roofline", CostModel::roofline}, {"flops", CostModel::flops}, {"unit", CostModel::unit}}};
    options.cost = choose("cost", arguments.get<std::string>("cost"), kModels);
  }
  if (arguments.has("device")) {
    if (options.cost != CostModel::roofline) throw UsageError("--device needs --cost roofline");
    options.machine = read_device(arguments.input("device"));
  }
  if (arguments.has("costs")) {
    if (options.cost != CostModel::roofline) throw UsageError("--costs are in nanoseconds: they need --cost roofline");
    const std::string& path = arguments.input("costs");
    options.costs = interchange::read_costs(json::read_file(path), path);
  }
  return options;
}

namespace {

DimensionRange parse_range(const std::string& text) {
  const auto colon = text.rfind(':');
  const auto sign = text.rfind('=');
  const auto [name, low] = parse_extent("dim", text.substr(0, colon));
  const auto high = parse_extent("dim", name + "=" + text.substr(colon + 1)).second;
  if (colon < sign || low < 1 || low >= high)
    throw UsageError("--dim: " + text + " is no range of sizes, such as " + name + "=128:8192");
  return {name, low, high};
}

}  // namespace

std::optional<DimensionRange> dimension_range(const Arguments& arguments) {
  std::optional<DimensionRange> found;
  if (!arguments.has("dim")) return found;
  for (const std::string& text : arguments.get<std::vector<std::string>>("dim")) {
    if (!is_range(text)) continue;
    if (found) throw UsageError("--dim: one range at a time, not also " + text);
    found = parse_range(text);
  }
  return found;
}

void check_graph_options(const Arguments& arguments) {
  static_cast<void>(read_onnx_options(arguments));
}

namespace {

/// A slice launches its kernels anew.
SliceRun slice_run_of(const std::string& content, const OnnxOptions& options) {
  if (tflite::looks_like_model(content)) return tflite::slice_run();
  if (!looks_like_onnx(content) && hlo::looks_like_module(content)) return hlo::slice_run(options.machine);
  if (!looks_like_onnx(content) || options.cost != CostModel::roofline) return {};
  constexpr double kNanosecondsOfSecond = 1e9;
  return {
      .overhead = nanoseconds(options.machine.launch_overhead),
      .bandwidth = Bytes(std::max<std::int64_t>(1, std::llround(options.machine.bandwidth / kNanosecondsOfSecond)))};
}

}  // namespace

namespace {

LoadedGraph load_graph_by(const FileText& file, const Arguments& arguments, OnnxOptions options, bool quiet,
                          const std::map<std::string, std::int64_t>& dimensions) {
  options.folder = folder_of(file.path);
  for (const auto& [name, value] : dimensions) options.dimensions.insert_or_assign(name, value);
  try {
    return {read_graph_file(file.path, file.content, arguments, options, !dimensions.empty(), quiet),
            text::sha256_hex(file.content), slice_run_of(file.content, options)};
  } catch (const InputError& error) {
    const std::string_view text = error.what();
    // Some readers name the file themselves.
    if (text.starts_with(file.path)) throw;
    throw InputError(file.path, error.what());
  }
}

}  // namespace

LoadedGraph load_graph(const FileText& file, const Arguments& arguments, bool quiet,
                       const std::map<std::string, std::int64_t>& dimensions) {
  return load_graph_by(file, arguments, read_onnx_options(arguments), quiet, dimensions);
}

LoadedGraph load_graph(const std::string& path, const Arguments& arguments, bool quiet,
                       const std::map<std::string, std::int64_t>& dimensions) {
  return load_graph(read_once(path), arguments, quiet, dimensions);
}

namespace {

/// Runs `read`; an InputError comes out as one of the file, followed by `hint` if the file names what is not there.
template <class Read>
auto of_file(const FileText& file, const char* hint, const Read& read) {
  try {
    return read(json::Text(file.content));
  } catch (const InputError& error) {
    throw InputError(file.path, error.what() + std::string(error.kind() == InputError::Place::name ? hint : ""));
  }
}

template <class AnyVerdict>
void expect_valid(const std::string& path, const AnyVerdict& verdict) {
  if (verdict.valid()) return;
  throw InputError(path, "not a valid schedule of this graph: " + printable(verdict.errors.front()));
}

}  // namespace

std::optional<LoadedDeviceGraph> load_device_graph(const FileText& file, const Arguments& arguments) {
  if (!json::names_devices(json::Text(file.content))) return std::nullopt;
  refuse_model_options(arguments, file.path);
  if (arguments.has("costs")) throw UsageError("--costs: not for graphs with devices, whose ops state their costs");
  return of_file(file, "", [&](json::Text text) {
    return LoadedDeviceGraph{std::make_shared<const DeviceGraph>(json::read_device_graph(text)),
                             text::sha256_hex(file.content)};
  });
}

Schedule load_schedule(const std::string& path, const Graph& graph) {
  return load_schedule(read_once(path), graph);
}

Schedule load_schedule(const FileText& file, const Graph& graph) {
  return of_file(file, " (another graph, or read with other options: --training, --dim?)",
                 [&](json::Text text) { return json::read_schedule(text, graph); });
}

ScheduledGraph scheduled_graph(const FileText& schedule, const LoadedGraph& loaded) {
  return of_file(schedule, " (another graph, or read with other options: --training, --dim?)", [&](json::Text text) {
    const std::optional<ScheduleSlices> slices = json::read_slices(text);
    if (!slices) return ScheduledGraph{loaded.graph};
    auto sliced = std::make_shared<const SlicedGraph>(graph_in_slices(*loaded.graph, *slices));
    return ScheduledGraph{{sliced, &sliced->graph}, sliced};
  });
}

namespace {

bool states_slices(const FileText& schedule) {
  return of_file(schedule, "", [](json::Text text) { return json::read_slices(text).has_value(); });
}

}  // namespace

LoadedGraph load_graph_of(const FileText& schedule, const FileText& file, const Arguments& arguments, bool quiet) {
  OnnxOptions options = read_onnx_options(arguments);
  const bool has_axes =
      looks_like_onnx(file.content) || tflite::looks_like_model(file.content) || hlo::looks_like_module(file.content);
  if (has_axes && states_slices(schedule)) options.axes = AxesWanted::all;
  return load_graph_by(file, arguments, std::move(options), quiet, {});
}

void refuse_slices(const FileText& schedule, const std::string& what) {
  if (states_slices(schedule)) throw InputError(schedule.path, "$.slices: not for " + what);
}

DeviceSchedule load_schedule(const FileText& file, const DeviceGraph& graph) {
  return of_file(file, " (another graph?)", [&](json::Text text) { return json::read_schedule(text, graph); });
}

void expect_valid(const std::string& path, const Graph& graph, const Schedule& schedule) {
  expect_valid(path, verify(graph, schedule));
}

void expect_valid(const std::string& path, const DeviceGraph& graph, const DeviceSchedule& schedule) {
  expect_valid(path, verify(graph, schedule));
}

std::vector<Compute> read_warm_start(const Arguments& arguments, const Graph& graph) {
  if (!arguments.has("warm-start")) return {};
  const std::string& path = arguments.input("warm-start");
  const FileText file = read_once(path);
  refuse_slices(file, "a start");
  std::vector<Compute> runs = computes_of(load_schedule(file, graph));
  if (runs.empty()) throw InputError(path, "holds no schedule to start from");
  return runs;
}

OptionGroup graph_output_options() {
  OptionGroup group("Output");
  group.add_options()("output,o", output_file("-"), "where the result goes, - for standard output");
  return group;
}

void write_graph_output(const Arguments& arguments, const Graph& graph) {
  arguments.files().write(arguments.output("output"), [&](std::ostream& out) { json::write_graph(out, graph); });
}

namespace {

/// The folders that places of external data count from.
ModelFolders folders_of(const std::string& input, const std::string& output) {
  ModelFolders folders{.from = folder_of(input)};
  if (output == "-") return folders;
  const std::optional<std::string> file = json::resolve_links(output);
  if (file) folders.to = folder_of(*file);
  return folders;
}

}  // namespace

LoadedModel load_model(const FileText& file, const Arguments& arguments, bool quiet) {
  LoadedModel model{.path = file.path, .content = file.content, .options = read_onnx_options(arguments)};
  model.options.folder = folder_of(file.path);
  if (read_slices(arguments).is_allowed) {
    if (model.options.training) throw UsageError("--slices: not with --training, which gives no model");
    if (!model.options.bounds.empty()) throw UsageError("--slices: not with --bound, as slices have fixed extents");
    model.options.axes = AxesWanted::writable;
  }
  if (!looks_like_onnx(model.content)) {
    throw InputError(file.path,
                     "is neither an ONNX model nor a TFLite model nor an HLO module; only those can be rewritten");
  }
  model.lowered = onnx_frontend::lower_onnx(model.content, file.path, model.options);
  note_data_files(model.content, file.path, arguments.files());
  SliceRun run = slice_run_of(model.content, model.options);
  run.temporaries = true;
  run.copies = true;
  model.graph = {std::make_shared<const Graph>(model.lowered.graph), text::sha256_hex(model.content), run};
  if (quiet) return model;
  for (const std::string& warning : model.lowered.network.warnings) std::cerr << "remora: warning: " << warning << "\n";
  return model;
}

hlo::LoweredModule load_module(const FileText& file, const Arguments& arguments) {
  refuse_for_modules(arguments, file.path);
  return hlo::lower_module(file.content, file.path, read_onnx_options(arguments).machine);
}

void refuse_model_name(const std::string& output, std::string_view why) {
  if (json::is_model_name(output)) throw UsageError("--output: " + std::string(why));
}

void check_rewritable(const LoadedModel& model, const std::string& output) {
  const Order order = input_order(Instance(model.graph.graph, {}));
  static_cast<void>(rewrite_model(model.content, model.lowered, order, folders_of(model.path, output)));
}

namespace {

std::string bytes_in_slices(const LoadedModel& model, const Schedule& schedule, const std::string& output) {
  const auto sliced = std::make_shared<const SlicedGraph>(graph_in_slices(*model.graph.graph, *schedule.slices));
  const Sequence ops = without_useless(Instance({sliced, &sliced->graph}, {}), ops_of(schedule));
  const onnx_frontend::ModelSlices slices{.regions = regions_of(*model.graph.graph, schedule.slices->regions),
                                          .sliced = *sliced,
                                          .dimensions = model.options.dimensions};
  const onnx_frontend::SlicedModel written =
      rewrite_in_slices(model.content, model.lowered, slices, ops, folders_of(model.path, output));
  check_rewritten(written, "the rewritten model", model.options, schedule);
  return written.bytes;
}

}  // namespace

std::string rewritten_bytes(const LoadedModel& model, const Schedule& schedule, const std::string& output) {
  if (schedule.slices) return bytes_in_slices(model, schedule, output);
  // A first compute that nobody reads before the next one would be a node whose result a runtime keeps to the end.
  const Sequence ops = without_useless(Instance(model.graph.graph, {}), ops_of(schedule));
  std::string bytes = rewrite_model(model.content, model.lowered, ops, folders_of(model.path, output));
  check_rewritten(bytes, "the rewritten model", model.options, schedule);
  return bytes;
}

}  // namespace remora::cli
