// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <optional>

#include <nlohmann/json.hpp>

#include "engine/bound/footprint.hpp"
#include "engine/bound/min_budget.hpp"
#include "frontends/cli/amounts.hpp"
#include "frontends/cli/arguments.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/exit_code.hpp"
#include "frontends/cli/graph_source.hpp"
#include "model/evaluate.hpp"

namespace remora::cli {
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
};

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
  facts.duration_unit = duration_unit_of(graph);
  const Evaluation evaluation = evaluate(instance, input_order(instance));
  facts.peak = evaluation.peak;
  if (evaluation.peak_step >= 0) facts.peak_op = graph.ops[static_cast<std::size_t>(evaluation.peak_step)].name;
  facts.least_budget = least_budget(instance);
  return facts;
}

void print_json(const Facts& facts) {
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
  std::cout << text.dump(1) << "\n";
}

void print_text(const Facts& facts) {
  const auto exact = [](Bytes bytes) { return bytes_text(bytes) + " (" + std::to_string(bytes.count()) + " bytes)"; };
  const Bytes span = facts.peak - facts.fixed_memory;
  const double part = span > Bytes(0) ? static_cast<double>((facts.least_budget - facts.fixed_memory).count()) /
                                            static_cast<double>(span.count())
                                      : 1.0;
  std::cout << "graph                     " << facts.name << "\n"
            << "ops                       " << facts.ops << ", " << facts.edges << " edges\n"
            << "tensors                   " << facts.tensors << ", " << bytes_text(facts.tensor_bytes)
            << " in all, the largest " << bytes_text(facts.largest_tensor) << "\n"
            << "fixed memory              " << exact(facts.fixed_memory) << "\n"
            << "with the graph's inputs   " << exact(facts.base_memory) << "\n"
            << "duration                  " << duration_text(facts.duration, facts.duration_unit) << "\n"
            << "no-recompute peak         " << exact(facts.peak) << " at " << facts.peak_op << "\n"
            << "least conceivable budget  " << exact(facts.least_budget) << ", " << percent_text(part, 1)
            << ": below it some op alone does not fit\n";
  if (facts.bracket) {
    std::cout << "smallest budget           at least " << exact(facts.bracket->proved) << ", proved; "
              << exact(facts.bracket->reached) << " was reached (input order)\n";
  }
}

}  // namespace

int info_command(const Words& words) {
  Arguments arguments("info", "Prints what GRAPH holds and what memory it needs at most and at least.",
                      {{"GRAPH", kGraphHelp}});
  OptionGroup group("Output");
  group.add_options()("json", "as JSON")("quiet,q", "no warnings");
  arguments.add(group);
  OptionGroup budget("The smallest budget that a schedule in input order can hold");
  budget.add_options()("min-budget", "bracket it: a bound that is proved, and what a search reaches")(
      "time-limit", boost::program_options::value<double>()->default_value(kMinBudgetSeconds)->value_name("S"),
      "seconds for that");
  arguments.add(budget);
  arguments.add(graph_options());
  if (!arguments.parse(words)) return kSuccess;
  const LoadedGraph loaded = load_graph(arguments.file("GRAPH"), arguments, arguments.has("quiet"));
  const Instance instance(loaded.graph, {});
  Facts facts = facts_of(instance);
  if (arguments.has("min-budget")) {
    SolveOptions options;
    options.time_limit = arguments.get<double>("time-limit");
    if (!(options.time_limit >= 0)) throw UsageError("--time-limit: must be at least 0");
    facts.bracket = bracket_min_budget(instance, options);
  }
  if (arguments.has("json")) {
    print_json(facts);
  } else {
    print_text(facts);
  }
  return kSuccess;
}

}  // namespace remora::cli
