// SPDX-License-Identifier: Apache-2.0
//
// The GRAPH argument: a remora-graph, an ONNX model or an HLO module, detected from its content, with the options that
// say how to read it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/cli/reading/arguments.hpp"
#include "frontends/hlo/reader.hpp"
#include "frontends/machine/machine.hpp"
#include "frontends/onnx/read/onnx_reader.hpp"
#include "model/devices/schedule.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"
#include "model/slices.hpp"

namespace remora::cli {

/// Description of GRAPH for the help.
inline constexpr const char* kGraphHelp =
    "a remora-graph, an ONNX model, a TFLite model, or an HLO module of XLA, detected from its content; - for standard "
    "input";

/// The options that belong to every command that reads a graph.
OptionGroup graph_options();
/// Those that were given, files by absolute paths: Schedule::reading.
std::vector<std::string> reading_of(const Arguments& arguments);
/// Reads the graph as this schedule or curve had it read, but for what the user says otherwise, of which a line to
/// standard error tells unless `quiet`.
void adopt_reading(Arguments& arguments, const FileText& schedule, bool quiet);
/// True if --device names a machine of the table (`remora fit --devices`), not a file.
bool is_known_device(const std::string& name);
/// The machine or link that an option names: of the table, or of a file. Throws UsageError that lists the names.
Machine read_device(const std::string& name);
LinkModel read_link_option(const std::string& name);

/// Throws what load_graph would throw for these options whatever the graph: UsageError where they contradict each
/// other, InputError for a device that cannot be read.
void check_graph_options(const Arguments& arguments);

/// Throws UsageError for those that only ONNX models have; `path` is of none.
void refuse_model_options(const Arguments& arguments, const std::string& path);

/// Their values. Throws as check_graph_options does.
onnx_frontend::OnnxOptions read_onnx_options(const Arguments& arguments);
/// Those of them that say nothing of durations, and what they say.
OptionGroup model_options();
onnx_frontend::OnnxOptions read_model_options(const Arguments& arguments);

/// --dim NAME=LOW:HIGH.
struct DimensionRange {
  std::string name{};
  std::int64_t low = 0;
  std::int64_t high = 0;
};
/// The range among the values of --dim, which only a command with --plans takes. Throws UsageError for a second one,
/// or for one that is none.
std::optional<DimensionRange> dimension_range(const Arguments& arguments);

struct LoadedGraph {
  std::shared_ptr<const Graph> graph{};
  /// Hash of the file's bytes, in lower-case hexadecimal.
  std::string sha256{};
  /// The cost of slices on the machine that the durations are for; nothing where a graph states its durations itself.
  SliceRun slice_run{};
};

/// Notes the files that the weights of the ONNX model `content`, read from `path`, are in.
void note_data_files(const std::string& content, const std::string& path, Files& files);

/// Reads the file; prints warnings, a line each, to standard error unless `quiet`. Throws InputError with the file's
/// name, and UsageError for options that contradict each other or don't apply. `dimensions`: values for an ONNX model's
/// symbolic dimensions, before those of --dim; with any, other graphs are an error.
LoadedGraph load_graph(const FileText& file, const Arguments& arguments, bool quiet,
                       const std::map<std::string, std::int64_t>& dimensions = {});
LoadedGraph load_graph(const std::string& path, const Arguments& arguments, bool quiet,
                       const std::map<std::string, std::int64_t>& dimensions = {});
/// The graph of this schedule: a model with axes if the schedule states slices.
LoadedGraph load_graph_of(const FileText& schedule, const FileText& file, const Arguments& arguments, bool quiet);

/// Reads a remora-schedule of `graph`. Throws InputError with the file's name.
Schedule load_schedule(const FileText& file, const Graph& graph);
Schedule load_schedule(const std::string& path, const Graph& graph);
DeviceSchedule load_schedule(const FileText& file, const DeviceGraph& graph);

/// The graph that the steps of a schedule are of.
struct ScheduledGraph {
  std::shared_ptr<const Graph> graph{};
  /// Where the schedule states slices: the graph in them.
  std::shared_ptr<const SlicedGraph> sliced{};
};

/// The loaded graph, in the slices that the schedule in the file states. Throws InputError with the file's name.
ScheduledGraph scheduled_graph(const FileText& schedule, const LoadedGraph& loaded);
/// Throws InputError with the file's name for a schedule with slices, which `what` does not support.
void refuse_slices(const FileText& schedule, const std::string& what);

/// Throws InputError, placed at the schedule's file, unless the schedule is a valid one.
void expect_valid(const std::string& path, const Graph& graph, const Schedule& schedule);
void expect_valid(const std::string& path, const DeviceGraph& graph, const DeviceSchedule& schedule);

/// The ops of the schedule that --warm-start names; empty without the option. Throws InputError with the file's name.
std::vector<Compute> read_warm_start(const Arguments& arguments, const Graph& graph);

/// The options that belong to every command that writes a graph.
OptionGroup graph_output_options();

/// Writes `graph` as remora-graph JSON where `arguments` say. Throws InputError if it cannot be written.
void write_graph_output(const Arguments& arguments, const Graph& graph);

// An ONNX model that is read to be written again in another order of its nodes: what every command that does so checks
// and calls.

/// The model as it was read.
struct LoadedModel {
  std::string path{};
  std::string content{};
  onnx_frontend::OnnxOptions options{};
  onnx_frontend::LoweredModel lowered{};
  LoadedGraph graph{};
};

/// Reads the model; prints warnings as load_graph does. Throws InputError with the file's name, also for a graph that is
/// no ONNX model.
LoadedModel load_model(const FileText& file, const Arguments& arguments, bool quiet);

/// Reads an HLO module. Throws InputError with the file's name, and UsageError for options that only ONNX models have.
hlo::LoweredModule load_module(const FileText& file, const Arguments& arguments);

/// Why a training step is not written as an ONNX model.
inline constexpr std::string_view kNoTrainingNodes =
    "ONNX has no nodes for the training step of --training; name a .json file";

/// For an output that is no ONNX model: throws UsageError with `why` if it is named as one.
void refuse_model_name(const std::string& output, std::string_view why);

/// Throws before the search, not after it, what would be thrown for any order: the model's own is written and dropped.
void check_rewritable(const LoadedModel& model, const std::string& output);

/// The bytes of the model in the order of the schedule, of which is checked that it needs no more than the schedule
/// says. Not for a training step. Throws InputError as rewrite_model does.
std::string rewritten_bytes(const LoadedModel& model, const Schedule& schedule, const std::string& output);

struct LoadedDeviceGraph {
  std::shared_ptr<const DeviceGraph> graph{};
  /// Hash of the file's bytes, in lower-case hexadecimal.
  std::string sha256{};
};

/// The graph of the file if it names devices. Throws InputError with the file's name, and UsageError for options that only
/// ONNX models have.
std::optional<LoadedDeviceGraph> load_device_graph(const FileText& file, const Arguments& arguments);

}  // namespace remora::cli
