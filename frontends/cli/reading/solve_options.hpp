// SPDX-License-Identifier: Apache-2.0
//
// What is to be solved, and how: the options of every command that solves.
#pragma once

#include "engine/base/options.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/stated_problem.hpp"

namespace remora::cli {

/// --budget, --max-computes, --order. Without `needs_budget` the budget may be left out.
OptionGroup problem_options(bool needs_budget);
/// --strategy, --warm-start, --grouping and the table of engine/base/options.def.
OptionGroup search_options();

/// Throws UsageError for a value out of its range, and for what the strategy would take no notice of.
SolveOptions read_solve_options(const Arguments& arguments);
/// The strategy's usual problem, or what the user says. Throws UsageError.
ProblemRequest read_problem(const Arguments& arguments, Strategy strategy);

/// A line to standard error if this program cannot compute the bound that the options ask for.
void warn_of_weaker_bound(const SolveOptions& options);

}  // namespace remora::cli
