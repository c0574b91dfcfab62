// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <ostream>
#include <vector>

#include "frontends/batch/merge.hpp"
#include "frontends/batch/merge_output.hpp"
#include "frontends/batch/store.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/commands/exit_code.hpp"
#include "frontends/cli/commands/task_solver.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/manifest_source.hpp"
#include "frontends/cli/reading/task_options.hpp"
#include "frontends/formats/file.hpp"

namespace remora::cli {
namespace po = boost::program_options;
using namespace batch;
namespace {

OptionGroup merge_options() {
  OptionGroup group("What is merged, and how");
  group.add_options()("manifest", input_file(),
                      "the tasks that there should be, with all their options (default: those of the latest batch, "
                      "DIR/manifest.jsonl)")("verify", "replay every schedule on its graph")(
      "csv", output_file(), "also a table, a line a task")("output,o", output_file(), "also everything as JSON")(
      "quiet,q", "no table on standard output");
  return group;
}

using Writer = void (*)(std::ostream&, const Merged&);

void write_where_asked(const Arguments& arguments, const char* option, const Merged& merged, Writer write) {
  if (!arguments.has(option)) return;
  arguments.files().write(arguments.output(option), [&](std::ostream& out) { write(out, merged); });
}

/// What is read but not named on the command line.
void note_files(const Arguments& arguments, const Store& store, const std::vector<Task>& tasks) {
  Files& files = arguments.files();
  if (!files.writes()) return;
  files.will_read(store.manifest_path(), "the manifest of DIR");
  for (const std::string& folder : store.record_folders()) files.will_read_in(folder, "a file of the batch");
  note_task_files(tasks, files);
}

}  // namespace

int merge_command(const Words& words) {
  Arguments arguments("merge", "Shows what a batch has come to.",
                      {{"DIR", "the folder that 'remora batch' wrote into"}});
  arguments.add(merge_options());
  arguments.set_notes(
      "Exit: 0 every task has a result, 75 some have none yet, 65 some could not be solved or have a damaged result.");
  if (!arguments.parse(words)) return kSuccess;
  for (const char* option : {"csv", "output"}) {
    if (arguments.has(option)) json::check_writable(arguments.output(option));
  }
  const Store store = Store::open(arguments.file("DIR"));
  const bool other = arguments.has("manifest");
  const auto tasks = load_manifest(other ? arguments.input("manifest") : store.manifest_path(), {});
  note_files(arguments, store, tasks);
  TaskSolver solver(nullptr);
  const Merged merged = merge(tasks, store, solver, arguments.has("verify") ? verify_record : RecordCheck{});
  if (!arguments.has("quiet")) print_merged(std::cout, merged);
  write_where_asked(arguments, "csv", merged, write_csv);
  write_where_asked(arguments, "output", merged, write_summary);
  if (merged.missing() > 0) return kIncomplete;
  return merged.failed() > 0 ? kBadInput : kSuccess;
}

}  // namespace remora::cli
