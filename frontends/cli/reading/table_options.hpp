// SPDX-License-Identifier: Apache-2.0
//
// A solve's options (engine/base/options.def) on the command line, for commands that take all of them or some.
#pragma once

#include <vector>

#include "engine/base/options.hpp"
#include "frontends/cli/reading/arguments.hpp"

namespace remora::cli {

/// Adds --grouping.
void add_grouping(OptionGroup& group);
/// What --grouping says. Throws InputError.
Grouping grouping_of(const Arguments& arguments);

/// Adds an option for each row, with its range and default in the help.
void add_table_options(OptionGroup& group, const std::vector<OptionRow>& rows);
/// Sets those of the rows that were given. Throws InputError; ranges are check_options'.
void set_table_options(const Arguments& arguments, const std::vector<OptionRow>& rows, SolveOptions& options);

/// The rows that say, besides --grouping, how groups are found.
std::vector<OptionRow> partition_rows();
/// The rows that limit any search: time, work, threads, and the seed.
std::vector<OptionRow> limit_rows();

/// Without a time limit there is none beside a work limit: that one is there for reproducibility, which the default time
/// limit would spoil on a slow machine.
void lift_time_limit(const Arguments& arguments, SolveOptions& options);

}  // namespace remora::cli
