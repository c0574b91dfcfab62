// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <ostream>

#include "frontends/batch/merge.hpp"
#include "frontends/batch/merge_output.hpp"
#include "frontends/batch/store.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/commands/exit_code.hpp"
#include "frontends/cli/commands/task_solver.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/manifest_source.hpp"
#include "frontends/formats/file.hpp"

namespace remora::cli {
namespace po = boost::program_options;
using namespace batch;
namespace {

OptionGroup merge_options() {
  OptionGroup group("What is merged, and how");
  group.add_options()("manifest", po::value<std::string>()->value_name("FILE"),
                      "the tasks that there should be, with all their options (default: those of the latest batch, "
                      "DIR/manifest.jsonl)")("verify", "replay every schedule on its graph")(
      "csv", po::value<std::string>()->value_name("FILE"), "also a table, a line a task")(
      "output,o", po::value<std::string>()->value_name("FILE"), "also everything as JSON")(
      "quiet,q", "no table on standard output");
  return group;
}

using Writer = void (*)(std::ostream&, const Merged&);

void write_where_asked(const Arguments& arguments, const char* option, const Merged& merged, Writer write) {
  if (!arguments.has(option)) return;
  json::write_file(arguments.get<std::string>(option), [&](std::ostream& out) { write(out, merged); });
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
    if (arguments.has(option)) json::check_writable(arguments.get<std::string>(option));
  }
  const Store store = Store::open(arguments.file("DIR"));
  const bool other = arguments.has("manifest");
  const auto tasks = load_manifest(other ? arguments.get<std::string>("manifest") : store.manifest_path(), {});
  TaskSolver solver(nullptr);
  const Merged merged = merge(tasks, store, solver, arguments.has("verify") ? verify_record : RecordCheck{});
  if (!arguments.has("quiet")) print_merged(std::cout, merged);
  write_where_asked(arguments, "csv", merged, write_csv);
  write_where_asked(arguments, "output", merged, write_summary);
  if (merged.missing() > 0) return kIncomplete;
  return merged.failed() > 0 ? kBadInput : kSuccess;
}

}  // namespace remora::cli
