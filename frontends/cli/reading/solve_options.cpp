// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/solve_options.hpp"

#include <iostream>
#include <string>

#include "engine/baselines/method.hpp"
#include "engine/bound/cover_mip.hpp"
#include "frontends/cli/reading/table_options.hpp"
#include "model/error.hpp"

namespace remora::cli {
namespace po = boost::program_options;

OptionGroup problem_options(bool needs_budget) {
  OptionGroup group("The problem");
  auto* budget = po::value<std::string>()->value_name("B");
  if (needs_budget) budget->required();
  group.add_options()(
      "budget,b", budget,
      "memory budget: bytes (12GiB, 1500MB, 123456; fixed memory included) or a percentage of the input "
      "order's no-recompute peak above fixed memory (80%)")(
      "max-computes", po::value<int>()->value_name("C"),
      "how often an op may run, the first time included (default 2; 64 for rotor and twremat)")(
      "order", po::value<std::string>()->value_name("MODE"),
      "input: first computes follow the file's order (default); free: any order (default for twremat); auto: free if a "
      "short look finds another order that holds the budget or needs clearly less memory");
  return group;
}

OptionGroup search_options() {
  OptionGroup group("The search");
  group.add_options()(
      "strategy", po::value<std::string>()->default_value("auto")->value_name("NAME"),
      "auto: all workers, each as it pays; cp: the constraint program's, complete search and neighbourhoods; "
      "local: ruin and annealing; or one kind alone: complete, lns, ruin, anneal; hierarchical: groups of the graph "
      "solved for several budgets and composed, then as auto, which does so itself where it pays. The literature's "
      "methods: "
      "none, the order as it is; greedy, XLA's heuristic; sqrt, checkpoints at segments' ends, and rotor, the dynamic "
      "program for chains, both for training graphs; twremat, tree decomposition; checkmate, the mixed integer program "
      "by CBC; checkmate-lp, its relaxation, rounded")("warm-start", input_file(),
                                                       "start from this schedule of the graph, of any budget");
  add_grouping(group);
  add_table_options(group, option_rows());
  return group;
}

SolveOptions read_solve_options(const Arguments& arguments) {
  SolveOptions options;
  try {
    options.strategy = strategy_from_name(arguments.get<std::string>("strategy"));
    options.grouping = grouping_of(arguments);
    set_table_options(arguments, option_rows(), options);
    lift_time_limit(arguments, options);
    check_options(options);
    // What a user asks for in vain must not pass in silence.
    const bool counts_work = is_search(options.strategy) || options.strategy == Strategy::checkmate;
    const std::string name = strategy_name(options.strategy);
    if (!counts_work && arguments.has("work-limit")) throw UsageError("--work-limit: " + name + " has none");
    if (!is_search(options.strategy) && arguments.has("warm-start")) {
      throw UsageError("--warm-start: " + name + " does not start from a schedule");
    }
  } catch (const InputError& error) {
    throw UsageError(error.what());
  }
  return options;
}

ProblemRequest read_problem(const Arguments& arguments, Strategy strategy) {
  const Problem usual = default_problem(strategy);
  ProblemRequest problem{.max_computes = usual.max_computes,
                         .order = usual.order == OrderMode::free ? OrderRequest::free : OrderRequest::input};
  if (arguments.has("max-computes")) problem.max_computes = arguments.get<int>("max-computes");
  if (problem.max_computes < 1) throw UsageError("--max-computes: must be at least 1");
  if (!arguments.has("order")) return problem;
  try {
    problem.order = order_request_from_name(arguments.get<std::string>("order"), "--order");
  } catch (const InputError& error) {
    throw UsageError(error.what());
  }
  return problem;
}

void warn_of_weaker_bound(const SolveOptions& options) {
  if (!options.covering_bound || !options.covering_mip || cover_mip_available()) return;
  std::cerr << "remora: built without COIN-OR CBC: the lower bound is weaker\n";
}

}  // namespace remora::cli
