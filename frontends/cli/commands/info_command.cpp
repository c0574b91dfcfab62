// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <iostream>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "engine/bound/first_bound.hpp"
#include "engine/solve.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/cli/showing/partition_tree.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace {

constexpr double kMinBudgetSeconds = 10;

struct Facts {
  std::string name{};
  int ops = 0;
  std::size_t edges = 0;
  int tensors = 0;
  Bytes tensor_bytes{};
  Bytes largest_tensor{};
  Bytes fixed_memory{};
  Bytes base_memory{};
  Duration duration{};
  std::string duration_unit{};
  Bytes peak{};
  std::string peak_op{};
  Bytes least_budget{};
  /// With --min-budget.
  std::optional<BudgetBracket> bracket{};
  /// With --partition.
  std::optional<PartitionTree> partition{};
};

OptionGroup info_output() {
  OptionGroup group("Output");
  group.add_options()("json", "as JSON")("quiet,q", "no warnings");
  return group;
}

OptionGroup budget_options() {
  OptionGroup group("The smallest budget that a schedule in input order can hold");
  group.add_options()("min-budget", "print a proved lower bound for it, and the smallest budget that a search reaches")(
      "time-limit", po::value<double>()->default_value(kMinBudgetSeconds)->value_name("S"), "seconds to spend on it");
  return group;
}

constexpr std::array kPartitionDetails{"partition-depth", "partition-units"};

OptionGroup partition_options() {
  OptionGroup group("The groups of a hierarchical solve");
  group.add_options()("partition", "print the tree of groups; equal siblings (of one form) share a line")(
      "partition-depth", po::value<int>()->value_name("N"), "show N levels of the tree below its root")(
      "partition-units", "also show units: each forward op with its backward ops");
  add_grouping(group);
  add_table_options(group, partition_rows());
  return group;
}

/// Nothing that asks for groups without asking for the partition must pass in silence.
void refuse_partition_options(const Arguments& arguments) {
  const auto refuse = [](const std::string& name) { throw UsageError("--" + name + ": only with --partition"); };
  for (const char* name : kPartitionDetails) {
    if (arguments.has(name)) refuse(name);
  }
  for (const OptionRow& row : partition_rows()) {
    if (arguments.has(dashed(row.name))) refuse(dashed(row.name));
  }
  if (!arguments.values()["grouping"].defaulted()) refuse("grouping");
}

/// How groups are to be found.
SolveOptions read_partition_options(const Arguments& arguments) {
  SolveOptions options;
  if (!arguments.has("partition")) {
    refuse_partition_options(arguments);
    return options;
  }
  try {
    options.grouping = grouping_of(arguments);
    set_table_options(arguments, partition_rows(), options);
    check_options(options);
  } catch (const InputError& error) {
    throw UsageError(error.what());
  }
  return options;
}

TreeDetail read_detail(const Arguments& arguments) {
  TreeDetail detail{.depth = std::numeric_limits<int>::max(), .units = arguments.has("partition-units")};
  if (arguments.has("partition-depth")) detail.depth = arguments.get<int>("partition-depth");
  if (detail.depth < 0) throw UsageError("--partition-depth: must be at least 0");
  return detail;
}

Facts facts_of(const Instance& instance) {
  const Graph& graph = instance.graph();
  Facts facts;
  facts.name = graph.name;
  facts.ops = instance.op_count();
  facts.tensors = instance.tensor_count();
  for (int v = 0; v < instance.op_count(); ++v) facts.edges += instance.inputs(OpId(v)).size();
  for (const Tensor& tensor : graph.tensors) {
    facts.tensor_bytes += tensor.size;
    facts.largest_tensor = std::max(facts.largest_tensor, tensor.size);
  }
  facts.fixed_memory = graph.fixed_memory;
  facts.base_memory = instance.base_memory();
  facts.duration = instance.baseline_duration();
  facts.duration_unit = text::duration_unit_of(graph);
  const Evaluation evaluation = evaluate(instance, input_order(instance));
  facts.peak = evaluation.peak;
  if (evaluation.peak_step >= 0) facts.peak_op = graph.ops[static_cast<std::size_t>(evaluation.peak_step)].name;
  facts.least_budget = least_budget(instance);
  return facts;
}

void print_json(const Facts& facts, const SolveOptions& options) {
  nlohmann::ordered_json text{{"name", facts.name},
                              {"ops", facts.ops},
                              {"edges", facts.edges},
                              {"tensors", facts.tensors},
                              {"tensor_bytes", facts.tensor_bytes.count()},
                              {"largest_tensor_bytes", facts.largest_tensor.count()},
                              {"fixed_memory", facts.fixed_memory.count()},
                              {"always_resident", facts.base_memory.count()},
                              {"duration", facts.duration.count()},
                              {"duration_unit", facts.duration_unit},
                              {"no_recompute_peak", facts.peak.count()},
                              {"no_recompute_peak_op", facts.peak_op},
                              {"least_conceivable_budget", facts.least_budget.count()}};
  if (facts.bracket) {
    text["min_budget_proved"] = facts.bracket->proved.count();
    text["min_budget_reached"] = facts.bracket->reached.count();
  }
  if (facts.partition) text["partition"] = partition_json(*facts.partition, options);
  std::cout << text.dump(1) << "\n";
}

void print_text(const Facts& facts, const SolveOptions& options) {
  const double part = part_of_peak(facts.least_budget, facts.fixed_memory, facts.peak);
  std::cout << "graph                     " << facts.name << "\n"
            << "ops                       " << facts.ops << ", " << facts.edges << " edges\n"
            << "tensors                   " << facts.tensors << ", " << text::bytes_text(facts.tensor_bytes)
            << " in all, the largest " << text::bytes_text(facts.largest_tensor) << "\n"
            << "fixed memory              " << text::exact_bytes_text(facts.fixed_memory) << "\n"
            << "with the graph's inputs   " << text::exact_bytes_text(facts.base_memory) << "\n"
            << "duration                  " << text::duration_text(facts.duration, facts.duration_unit) << "\n"
            << "no-recompute peak         " << text::exact_bytes_text(facts.peak) << " at " << facts.peak_op << "\n"
            << "least conceivable budget  " << text::exact_bytes_text(facts.least_budget) << ", "
            << text::percent_text(part, 1) << ": below it some op alone does not fit\n";
  if (facts.bracket) {
    std::cout << "smallest budget           at least " << text::exact_bytes_text(facts.bracket->proved) << ", proved; "
              << text::exact_bytes_text(facts.bracket->reached) << " was reached (input order)\n";
  }
  if (facts.partition) print_partition(std::cout, *facts.partition, options);
}

}  // namespace

int info_command(const Words& words) {
  Arguments arguments("info", "Prints what GRAPH holds, and the most and the least memory it needs.",
                      {{"GRAPH", kGraphHelp}});
  for (const OptionGroup& group : {info_output(), budget_options(), partition_options(), graph_options()}) {
    arguments.add(group);
  }
  if (!arguments.parse(words)) return kSuccess;
  const SolveOptions grouping = read_partition_options(arguments);
  const TreeDetail detail = read_detail(arguments);
  const LoadedGraph loaded = load_graph(arguments.file("GRAPH"), arguments, arguments.has("quiet"));
  const Instance instance(loaded.graph, {});
  Facts facts = facts_of(instance);
  if (arguments.has("min-budget")) {
    SolveOptions options;
    options.time_limit = arguments.get<double>("time-limit");
    if (!(options.time_limit >= 0)) throw UsageError("--time-limit: must be at least 0");
    facts.bracket = bracket_min_budget(instance, options);
  }
  if (arguments.has("partition")) facts.partition = partition_tree(instance, grouping, detail);
  if (arguments.has("json")) {
    print_json(facts, grouping);
  } else {
    print_text(facts, grouping);
  }
  return kSuccess;
}

}  // namespace remora::cli
