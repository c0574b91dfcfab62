// SPDX-License-Identifier: Apache-2.0

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <vector>

#include <unistd.h>

#include "frontends/batch/manifest.hpp"
#include "frontends/batch/merge.hpp"
#include "frontends/batch/question.hpp"
#include "frontends/batch/runner.hpp"
#include "frontends/batch/store.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/commands/task_solver.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/cli/showing/summary.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::cli {
namespace po = boost::program_options;
using batch::Asking;
using batch::BlockFolder;
using batch::Merged;
using batch::RunnerOptions;
using batch::RunSummary;
using batch::Shard;
using batch::Store;
using batch::Task;

namespace {

OptionGroup batch_options() {
  OptionGroup group("The batch");
  group.add_options()(
      "out,o", po::value<std::string>()->required()->value_name("DIR"),
      "folder for results; use the same one for all shards and for later runs, which skip finished tasks")(
      "shard", po::value<std::string>()->value_name("i/n"),
      "take every n-th task from the i-th on; i is 1 to n. Default: by SLURM_ARRAY_TASK_ID or "
      "JOB_COMPLETION_INDEX if set, otherwise all tasks")(
      "shard-count", po::value<std::string>()->value_name("n"),
      "number of shards, if the environment gives the index (0 to n-1)")(
      "blocks", po::value<std::string>()->value_name("DIR"),
      "folder in which tasks, shards and runs share solved groups of ops (default: blocks under --out); "
      "off for none")("dry-run", "only list this shard's tasks: state, key, id")("quiet,q",
                                                                                 "print no line for each task");
  group.make_expert({"shard-count", "blocks"});
  return group;
}

std::optional<std::string> text_of(const Arguments& arguments, const char* option) {
  if (!arguments.has(option)) return std::nullopt;
  return arguments.get<std::string>(option);
}

Shard shard_of(const Arguments& arguments) {
  try {
    return batch::find_shard(text_of(arguments, "shard"), text_of(arguments, "shard-count"),
                             [](const char* name) { return std::getenv(name); });
  } catch (const InputError& error) {
    throw UsageError(error.what());
  }
}

/// "done", "interrupted", "error" or "new" of a task, before its key.
void list_task(const Task& task, const Store& store, Asking& asking) {
  std::string state = "new";
  std::string key(64, '-');
  try {
    if (store.error(task)) state = "error";
    key = batch::key_of(asking.question_of(task));
    if (store.partial(key)) state = batch::kInterrupted;
    if (store.has_result(key)) state = "done";
  } catch (const std::exception& error) {
    // It will be the task's error.
    state = "error";
  }
  std::cout << state << "\t" << key << "\t" << printable(task.id) << "\n";
}

int dry_run(const std::vector<Task>& tasks, const Store& store, const Shard& shard) {
  TaskSolver solver(nullptr);
  Asking asking(solver);
  for (std::size_t position = 0; position < tasks.size(); ++position) {
    if (shard.takes(position)) list_task(tasks[position], store, asking);
  }
  return kSuccess;
}

/// Null if the user wants none.
std::unique_ptr<BlockStore> blocks_of(const Arguments& arguments, const std::string& folder) {
  const std::string blocks = text_of(arguments, "blocks").value_or((std::filesystem::path(folder) / "blocks").string());
  if (blocks == "off") return nullptr;
  return std::make_unique<BlockFolder>(
      blocks, [](const std::string& what) { std::cerr << "remora: warning: --blocks: " + what + "\n"; });
}

void print_run(const RunSummary& summary) {
  std::cerr << "remora: " << summary.tasks << (summary.tasks == 1 ? " task: " : " tasks: ") << summary.skipped
            << " were done";
  for (const auto& [status, count] : summary.solved) std::cerr << ", " << count << " " << status;
  if (summary.errors > 0) std::cerr << ", " << summary.errors << " could not be solved";
  std::cerr << (summary.interrupted ? "; interrupted, run again to go on\n" : "\n");
}

}  // namespace

int batch_command(const Words& words) {
  Arguments arguments("batch", "Solves the tasks of a manifest; run again, it continues where it stopped.",
                      {{"MANIFEST",
                        "one task per line: id, graph, sha256, budget, options (docs/guide/batch.md); or a folder: "
                        "every .onnx and .json in it, with the costs in NAME.costs.csv"}});
  arguments.add(batch_options());
  add_task_options(arguments);
  arguments.set_notes(
      "Options of the problem, the search and the graph are defaults, which a task may override.\n"
      "SIGINT and SIGTERM save the current task, which the next run continues; a second signal ends the program at "
      "once.\n"
      "Exit: 0 every task has a result (infeasible and unknown are results), 65 a bad manifest, or some tasks could "
      "not\n"
      "be solved, 75 interrupted, or the folder cannot be written: run again.");
  if (!arguments.parse(words)) return kSuccess;
  const Shard shard = shard_of(arguments);
  const bool quiet = arguments.has("quiet");
  const std::vector<Task> tasks = load_manifest(arguments.file("MANIFEST"), typed_options(arguments));
  const std::string& folder = arguments.get<std::string>("out");
  if (!shard.source.empty()) std::cerr << "remora: shard " << shard.text() << " (" << shard.source << ")\n";
  if (arguments.has("dry-run")) return dry_run(tasks, Store(folder), shard);
  const Store store = Store::create(folder);
  note_task_files(tasks, arguments.files());
  if (!store.has_manifest(tasks)) arguments.files().will_write(store.manifest_path(), "--out");
  store.put_manifest(tasks);

  if (!quiet) warn_of_weaker_bound(SolveOptions{});
  const SignalGuard signals;
  const std::unique_ptr<BlockStore> blocks = blocks_of(arguments, folder);
  TaskSolver solver(&signals.flag(), quiet, {}, blocks.get());
  const RunnerOptions options{.shard = shard, .cancel = &signals.flag(), .log = quiet ? nullptr : &std::cerr};
  RunSummary summary;
  try {
    summary = batch::run_batch(tasks, store, solver, options);
  } catch (const InputError& error) {
    // Tasks' own faults don't come here: the folder cannot be read or written.
    std::cerr << "remora: " << error.what() << "; run again to go on\n";
    return kIncomplete;
  }
  if (!quiet || summary.errors > 0) print_run(summary);
  if (summary.interrupted) return kIncomplete;
  return summary.errors > 0 ? kBadInput : kSuccess;
}

namespace {

OptionGroup merge_options() {
  OptionGroup group("What is merged");
  group.add_options()("manifest", input_file(),
                      "the tasks to expect, with all their options (default: those of the latest batch, "
                      "DIR/manifest.jsonl)")("verify", "replay every schedule on its graph")(
      "csv", output_file(), "also write a table, one line per task")("html", output_file(),
                                                                     "also write a page, graphs against budgets")(
      "output,o", output_file(), "also write everything as JSON")("quiet,q", "no table on standard output");
  return group;
}

using Writer = void (*)(std::ostream&, const Merged&);

void write_where_asked(const Arguments& arguments, const char* option, const Merged& merged, Writer write) {
  if (!arguments.has(option)) return;
  arguments.files().write(arguments.output(option), [&](std::ostream& out) { write(out, merged); });
}

/// Notes files that are read but not named on the command line.
void note_files(const Arguments& arguments, const Store& store, const std::vector<Task>& tasks) {
  Files& files = arguments.files();
  if (!files.writes()) return;
  files.will_read(store.manifest_path(), "the manifest of DIR");
  for (const std::string& folder : store.record_folders()) files.will_read_in(folder, "a file of the batch");
  note_task_files(tasks, files);
}

}  // namespace

int merge_command(const Words& words) {
  Arguments arguments("merge", "Shows the results of a batch.", {{"DIR", "the folder that 'remora batch' wrote into"}});
  arguments.add(merge_options());
  arguments.set_notes(
      "Exit: 0 every task has a result, 75 some have none yet, 65 some could not be solved or have a damaged result.");
  if (!arguments.parse(words)) return kSuccess;
  for (const char* option : {"csv", "html", "output"}) {
    if (arguments.has(option)) json::check_writable(arguments.output(option));
  }
  const Store store = Store::open(arguments.file("DIR"));
  const bool other = arguments.has("manifest");
  const auto tasks = load_manifest(other ? arguments.input("manifest") : store.manifest_path(), {});
  note_files(arguments, store, tasks);
  TaskSolver solver(nullptr);
  const Merged merged =
      batch::merge(tasks, store, solver, arguments.has("verify") ? verify_record : batch::RecordCheck{});
  if (!arguments.has("quiet")) batch::print_merged(std::cout, merged, text::terminal_width(STDOUT_FILENO, kNoWidth));
  write_where_asked(arguments, "csv", merged, batch::write_csv);
  write_where_asked(arguments, "html", merged, batch::write_page);
  write_where_asked(arguments, "output", merged, batch::write_summary);
  if (merged.missing() > 0) return kIncomplete;
  return merged.failed() > 0 ? kBadInput : kSuccess;
}

}  // namespace remora::cli
