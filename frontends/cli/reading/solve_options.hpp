// SPDX-License-Identifier: Apache-2.0
//
// Arguments of all commands that solve: budgets, and the options of a solve.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/ask/ask.hpp"
#include "engine/base/options.hpp"
#include "engine/devices/ask.hpp"
#include "frontends/batch/manifest.hpp"
#include "frontends/batch/question.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "model/types.hpp"

namespace remora::cli {

// Budgets as people write them: one amount, or a list of amounts and ranges.

/// remora::parse_budget (model/budget.hpp) for the command line: throws UsageError that names `option`.
Bytes read_budget(const std::string& text, Bytes fixed, Bytes peak, const std::string& option = "--budget");

/// remora::parse_budgets for the command line: throws UsageError that names `option`.
std::vector<Bytes> read_budgets(const std::string& option, const std::string& text, Bytes fixed, Bytes peak);

/// That of --alignment, or else the usual one. Throws UsageError for one out of range.
Bytes read_alignment(const Arguments& arguments, std::int64_t usual);

// The problem, and how it is solved: the options of every command that solves.

/// The request without its graph, budget and start. Throws UsageError for what no graph could mend.
Request read_request(const Arguments& arguments);

/// The budget as --budget takes it, of the request's graph. Throws UsageError.
Bytes budget_asked(const std::string& text, const Request& request);

/// --slices, into `group`.
void add_slices_option(OptionGroup& group);
/// The request of --slices, without the cost of slices. Throws UsageError.
SliceRequest read_slices(const Arguments& arguments);
/// Throws UsageError for --slices, which `what` does not support.
void refuse_slices(const Arguments& arguments, const std::string& what);

/// Throws UsageError for --max-computes auto: `what` does not know that, and has two by default.
void refuse_more_computes(const Arguments& arguments, const std::string& what);

// A solve's options (engine/base/options.def) on the command line, for commands that take all of them or some.

/// Adds an option for each row, with its range and default in the help.
void add_table_options(OptionGroup& group, const std::vector<OptionRow>& rows);
/// Sets those of the rows that were given. Throws InputError; ranges are check_options'.
void set_table_options(const Arguments& arguments, const std::vector<OptionRow>& rows, SolveOptions& options);

/// The rows that say how groups are found.
std::vector<OptionRow> partition_rows();
/// The rows that limit any search: time, work, threads, and the seed.
std::vector<OptionRow> limit_rows();

/// Those that were given, with lift_time_limit. Throws UsageError.
SolveOptions read_limits(const Arguments& arguments);

/// Without a time limit there is none beside a work limit: that one is there for reproducibility, which the default time
/// limit would spoil on a slow machine.
void lift_time_limit(const Arguments& arguments, SolveOptions& options);

/// --budget, --max-computes, --order. Without `needs_budget` the budget may be left out.
OptionGroup problem_options(bool needs_budget);
/// --warm-start, and the table in engine/base/options.def.
OptionGroup search_options();

/// A line to standard error if this program cannot compute the bound that the options ask for.
void warn_of_weaker_bound(const SolveOptions& options);

// A batch task's options: those of `remora solve` that say what is solved and how, read by the same code.

/// The options of every task that does not say otherwise, as options of `command`; --budget among them.
void add_task_options(Arguments& arguments);

/// Those that were typed, files as absolute paths. Throws UsageError for what a solve would refuse.
batch::TaskOptions typed_options(const Arguments& arguments);

/// Adds to the task what it leaves to `defaults`, its budget too, and takes paths from `folder` on. Throws UsageError
/// for an unknown option, a value out of its range, options that exclude each other, and for a budget that is missing
/// or none.
void complete_task(batch::Task& task, const batch::TaskOptions& defaults, const std::string& folder);

/// Notes the graphs of complete tasks, and the files that their options name.
void note_task_files(const std::vector<batch::Task>& tasks, Files& files);

/// The task's options as if they had been typed.
Arguments task_arguments(const batch::Task& task);

/// Every option that changes what a complete task asks, as name and value, files by their digests; the number of
/// threads does not. Throws InputError for a file that cannot be read.
batch::Settings task_settings(const batch::Task& task);

/// The tasks of a manifest, complete; - for standard input. Of a folder: its models and graphs, each with the costs that stand
/// beside it. Throws InputError with a line for each faulty line of the file.
std::vector<batch::Task> load_manifest(const std::string& path, const batch::TaskOptions& defaults);

// Options of graphs with devices.

/// Budgets as DEVICE=BYTES, several with commas between, 12GiB as well as 12884901888; a device without one has no limit. Throws UsageError.
Table<DeviceId, std::optional<Bytes>> read_device_budgets(const std::string& text, const DeviceGraph& graph);

/// The options of `remora solve` that only graphs with devices have.
OptionGroup device_options();

/// Refuses them where the graph has no devices. Throws UsageError.
void refuse_device_options(const Arguments& arguments);

/// Reads the question about a graph with devices. Throws UsageError for an option that such a graph does not know and
/// that is not among
/// `others`. --warm-start is read.
devices::Request read_device_request(const Arguments& arguments, std::shared_ptr<const DeviceGraph> graph,
                                     const std::vector<std::string>& others = {});

/// Throws UsageError unless the text is like a budget for each device: NAME=BYTES, separated by commas. No graph is there yet.
void check_device_budgets(const std::string& text);

}  // namespace remora::cli
