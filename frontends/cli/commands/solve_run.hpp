// SPDX-License-Identifier: Apache-2.0
//
// One solve as the command line asks for it, for every command that begins with one.
#pragma once

#include <optional>

#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "model/schedule.hpp"

namespace remora::cli {

/// --progress, --json-progress and --quiet, into `group`.
void add_display_options(OptionGroup& group);
/// Nothing but what --json-progress prints goes to standard error.
bool is_quiet(const Arguments& arguments);

/// Solves the graph under --budget, from --warm-start if there is one, and shows the progress on standard error as
/// --progress and --quiet say. SIGINT and SIGTERM end the search. The schedule is verified. Throws as the options'
/// readers do. `withheld`: bytes of the budget that something else needs. `budget`: in place of --budget.
Answer solve_as_asked(const Arguments& arguments, const LoadedGraph& loaded, Request request, Bytes withheld = {},
                      std::optional<Bytes> budget = {});

/// --plans, for a range of sizes.
OptionGroup size_options();
/// `remora solve MODEL --dim NAME=LOW:HIGH --plans N`: prints a table of ranges, and writes their schedules. The exit
/// code. Throws UsageError and InputError.
int solve_for_sizes(const Arguments& arguments, const Request& request, const DimensionRange& range);

/// Exit code of a solve with this answer.
int solve_exit_code(Status status);

}  // namespace remora::cli
