// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <iostream>
#include <limits>
#include <optional>
#include <sstream>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "engine/ask/ask.hpp"
#include "engine/ask/sliced.hpp"
#include "engine/bound/first_bound.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/cli/showing/partition_tree.hpp"
#include "frontends/cli/showing/summary.hpp"
#include "frontends/formats/document.hpp"
#include "frontends/text/slices.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/quote.hpp"

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
  std::string unknown_text{};
  std::int64_t unknown_tensors = 0;
  Bytes fixed_memory{};
  Bytes base_memory{};
  Duration duration{};
  std::string duration_unit{};
  Bytes peak{};
  std::string peak_op{};
  Bytes least_budget{};
  /// With --min-budget.
  std::optional<BudgetBracket> bracket{};
  /// With --slices: each region in words, the figures of the graph in slices, and with --min-budget its bracket.
  std::vector<std::string> regions{};
  std::optional<SlicingFigures> sliced{};
  std::optional<BudgetBracket> sliced_bracket{};
  /// With --partition.
  std::optional<PartitionTree> partition{};
};

OptionGroup info_output() {
  OptionGroup group("Output");
  group.add_options()("json", "as JSON")("quiet,q", "no warnings");
  return group;
}

OptionGroup budget_options() {
  OptionGroup group("The smallest feasible budget in input order, and slices");
  group.add_options()("min-budget", "print a proved lower bound for it, and the smallest budget that a search reaches")(
      "time-limit", po::value<double>()->default_value(kMinBudgetSeconds)->value_name("S"), "seconds to spend on it");
  add_slices_option(group);
  return group;
}

constexpr std::array kPartitionDetails{"partition-depth", "partition-units"};

OptionGroup partition_options() {
  OptionGroup group("The groups of a hierarchical solve");
  group.add_options()("partition", "print the tree of groups; siblings of the same form share a line")(
      "partition-depth", po::value<int>()->value_name("N"), "show N levels of the tree below its root")(
      "partition-units", "also show units: each forward op with its backward ops");
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
    if (arguments.has(text::dashed(row.name))) refuse(text::dashed(row.name));
  }
}

/// How groups are to be found.
SolveOptions read_partition_options(const Arguments& arguments) {
  SolveOptions options;
  if (!arguments.has("partition")) {
    refuse_partition_options(arguments);
    return options;
  }
  try {
    set_table_options(arguments, partition_rows(), options);
    check_options(options);
  } catch (const InputError& error) {
    throw UsageError(spelled(error));
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
  facts.unknown_text = unknown_text(graph);
  facts.unknown_tensors = text::unknown_tensors_of(graph);
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

void add_slices(Request request, bool with_bracket, Facts& facts) {
  std::optional<SlicedReach> reach;
  if (with_bracket && request.slices.is_automatic()) reach = reach_with_slices(request, nullptr);
  // Slices that need no less than the graph as it is are none.
  if (reach && facts.bracket && reach->bracket.reached >= facts.bracket->reached) {
    facts.sliced = SlicingFigures{facts.least_budget, facts.peak, facts.duration};
    return;
  }
  const Slicing found = reach ? reach->slicing : find_slices(request, nullptr);
  facts.sliced = found.figures;
  facts.regions = text::region_lines(
      {.regions = with_effects(*request.graph, found.regions, request.slices.run).regions}, facts.duration_unit);
  if (reach) {
    facts.sliced_bracket = reach->bracket;
  } else if (with_bracket && !found.regions.empty()) {
    request.graph = found.graph();
    facts.sliced_bracket = least_budget(request);
  }
}

void print_json(const Facts& facts, const SolveOptions& options) {
  nlohmann::ordered_json text{{"name", facts.name},
                              {"ops", facts.ops},
                              {"edges", facts.edges},
                              {"tensors", facts.tensors},
                              {"tensor_bytes", facts.tensor_bytes.count()},
                              {"largest_tensor_bytes", facts.largest_tensor.count()},
                              {"unknown_tensors", facts.unknown_tensors},
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
    text["min_budget_max_computes"] = facts.bracket->max_computes;
  }
  if (facts.sliced) {
    nlohmann::ordered_json& sliced = text["in_slices"];
    sliced = {{"regions", facts.regions},
              {"no_recompute_peak", facts.sliced->peak.count()},
              {"least_conceivable_budget", facts.sliced->lower_bound.count()},
              {"duration", facts.sliced->duration.count()}};
    if (facts.sliced_bracket) {
      sliced["min_budget_proved"] = facts.sliced_bracket->proved.count();
      sliced["min_budget_reached"] = facts.sliced_bracket->reached.count();
      sliced["min_budget_max_computes"] = facts.sliced_bracket->max_computes;
    }
  }
  if (facts.partition) text["partition"] = partition_json(*facts.partition, options);
  std::cout << json::dump(text, 1) << "\n";
}

void print_text(const Facts& facts) {
  constexpr std::size_t kColumns = 26;
  const int width = text::terminal_width(STDOUT_FILENO, kNoWidth);
  std::ostringstream out;
  const double part = part_of_peak(facts.least_budget, facts.fixed_memory, facts.peak);
  out << "graph                     " << (facts.name.empty() ? "without a name" : printable(facts.name)) << "\n"
      << "ops                       " << facts.ops << ", " << facts.edges << " edges\n"
      << "tensors                   " << facts.tensors << ", " << text::bytes_text(facts.tensor_bytes)
      << " in all, the largest " << text::bytes_text(facts.largest_tensor) << facts.unknown_text << "\n"
      << "fixed memory              " << text::exact_bytes_text(facts.fixed_memory) << "\n"
      << "with the graph's inputs   " << text::exact_bytes_text(facts.base_memory) << "\n"
      << "duration                  " << text::duration_text(facts.duration, facts.duration_unit) << "\n"
      << "no-recompute peak         " << text::exact_bytes_text(facts.peak)
      << (facts.peak_op.empty() ? "" : " at " + printable(facts.peak_op)) << "\n"
      << "lower bound on budgets    " << text::exact_bytes_text(facts.least_budget) << ", "
      << text::percent_text(part, 1) << ": some op alone needs as much\n";
  const auto print_bracket = [&](const char* words, const BudgetBracket& bracket) {
    out << words << "at least " << text::exact_bytes_text(bracket.proved) << ", proved; "
        << text::exact_bytes_text(bracket.reached) << " was reached (input order, up to " << bracket.max_computes
        << " runs per op)\n";
  };
  if (facts.bracket) print_bracket("minimum budget            ", *facts.bracket);
  if (facts.sliced) {
    if (facts.regions.empty()) out << "in slices                 none needs less memory\n";
    for (std::size_t i = 0; i < facts.regions.size(); ++i) {
      out << (i == 0 ? "in slices                 " : "                          ") << facts.regions[i] << "\n";
    }
    if (!facts.regions.empty()) {
      out << "  duration                " << text::duration_text(facts.sliced->duration, facts.duration_unit) << "\n"
          << "  no-recompute peak       " << text::exact_bytes_text(facts.sliced->peak) << "\n"
          << "  lower bound on budgets  " << text::exact_bytes_text(facts.sliced->lower_bound) << "\n";
    }
    if (facts.sliced_bracket) print_bracket("  minimum budget          ", *facts.sliced_bracket);
  }
  std::cout << text::wrapped_lines(out.str(), kColumns, width);
  if (facts.partition) print_partition(std::cout, *facts.partition, width);
}

/// Facts about a graph over several devices.
struct DeviceFacts {
  std::string name{};
  Bytes fixed_memory{};
  /// With the inputs of the graph that are at home there.
  Bytes base_memory{};
  int ops = 0;
  /// Duration of all ops that can run there, once each.
  Duration duration{};
  Energy energy{};
};

Table<DeviceId, DeviceFacts> facts_of(const DeviceGraph& graph) {
  const Table<TensorId, bool> produced = produced_tensors(graph.graph);
  Table<DeviceId, DeviceFacts> facts;
  for (const Device& device : graph.devices) facts.push_back({device.name, device.fixed_memory, device.fixed_memory});
  for (const TensorId t : graph.places.ids()) {
    if (produced[t]) continue;
    for (const DeviceId d : graph.places[t].home) facts[d].base_memory += graph.graph[t].size;
  }
  for (const auto& runs : graph.runs) {
    for (const RunCost& cost : runs) {
      ++facts[cost.device].ops;
      facts[cost.device].duration += cost.duration;
      facts[cost.device].energy += cost.energy;
    }
  }
  return facts;
}

void print_json(const DeviceGraph& graph, std::size_t edges, Bytes tensor_bytes) {
  nlohmann::ordered_json text{{"name", graph.graph.name},
                              {"ops", graph.graph.ops.size()},
                              {"edges", edges},
                              {"tensors", graph.graph.tensors.size()},
                              {"tensor_bytes", tensor_bytes.count()},
                              {"duration_unit", text::duration_unit_of(graph.graph)},
                              {"devices", nlohmann::ordered_json::array()},
                              {"links", nlohmann::ordered_json::array()}};
  for (const DeviceFacts& facts : facts_of(graph)) {
    text["devices"].push_back({{"name", facts.name},
                               {"fixed_memory", facts.fixed_memory.count()},
                               {"always_resident", facts.base_memory.count()},
                               {"ops", facts.ops},
                               {"duration", facts.duration.count()},
                               {"energy", facts.energy.count()}});
  }
  for (const Link& link : graph.links) {
    text["links"].push_back({{"from", graph.devices[link.from].name},
                             {"to", graph.devices[link.to].name},
                             {"latency", link.latency.count()},
                             {"bytes", link.bytes.count()},
                             {"per", link.per.count()},
                             {"energy", link.energy.count()}});
  }
  std::cout << json::dump(text, 1) << "\n";
}

void print_text(const DeviceGraph& graph, std::size_t edges, Bytes tensor_bytes) {
  const std::string unit = text::duration_unit_of(graph.graph);
  std::cout << "graph                     " << printable(graph.graph.name) << "\n"
            << "ops                       " << graph.graph.ops.size() << ", " << edges << " edges\n"
            << "tensors                   " << graph.graph.tensors.size() << ", " << text::bytes_text(tensor_bytes)
            << " in all\n";
  for (const DeviceFacts& facts : facts_of(graph)) {
    std::cout << "device " << fitted(printable(facts.name), 18) << " ";
    if (facts.ops == 0) {
      std::cout << "runs nothing, a store";
    } else {
      std::cout << facts.ops << " ops, " << text::duration_text(facts.duration, unit) << " in all";
      if (facts.energy > Energy(0)) std::cout << ", energy " << text::grouped(facts.energy.count());
    }
    std::cout << "; fixed " << text::bytes_text(facts.fixed_memory) << ", with inputs at home "
              << text::exact_bytes_text(facts.base_memory) << "\n";
  }
  for (const Link& link : graph.links) {
    const std::string name = graph.devices[link.from].name + " -> " + graph.devices[link.to].name;
    std::cout << "link " << fitted(printable(name), 20) << " " << text::duration_text(link.latency, unit) << " and "
              << text::grouped(link.per.count()) << " for each " << text::grouped(link.bytes.count()) << " bytes\n";
  }
}

int info_of_devices(const Arguments& arguments, const DeviceGraph& graph) {
  for (const char* option : {"min-budget", "partition", "slices"}) {
    if (arguments.has(option)) throw UsageError(std::string("--") + option + ": not for graphs with devices");
  }
  std::size_t edges = 0;
  for (const Op& op : graph.graph.ops) edges += op.inputs.size();
  Bytes bytes;
  for (const Tensor& tensor : graph.graph.tensors) bytes += tensor.size;
  if (arguments.has("json")) {
    print_json(graph, edges, bytes);
  } else {
    print_text(graph, edges, bytes);
  }
  return kSuccess;
}

}  // namespace

int info_command(const Words& words) {
  Arguments arguments("info", "Shows the size of GRAPH: ops, bytes, peak, and a lower bound on feasible budgets.",
                      {{"GRAPH", kGraphHelp}});
  for (const OptionGroup& group : {info_output(), budget_options(), partition_options(), graph_options()}) {
    arguments.add(group);
  }
  if (!arguments.parse(words)) return kSuccess;
  const SliceRequest slices = read_slices(arguments);
  const SolveOptions groups = read_partition_options(arguments);
  const TreeDetail detail = read_detail(arguments);
  const FileText file = read_once(arguments.file("GRAPH"));
  if (const auto devices = load_device_graph(file, arguments)) return info_of_devices(arguments, *devices->graph);
  const LoadedGraph loaded = load_graph(file, arguments, arguments.has("quiet"));
  const Instance instance(loaded.graph, {});
  Facts facts = facts_of(instance);
  Request request{.graph = loaded.graph, .slices = slices};
  request.slices.run = loaded.slice_run;
  request.options.time_limit = arguments.get<double>("time-limit");
  if (!(request.options.time_limit >= 0)) throw UsageError("--time-limit: must be at least 0");
  if (arguments.has("min-budget")) facts.bracket = least_budget(request);
  if (slices.is_allowed) add_slices(request, arguments.has("min-budget"), facts);
  if (arguments.has("partition")) facts.partition = partition_tree(instance, groups, detail);
  if (arguments.has("json")) {
    print_json(facts, groups);
  } else {
    print_text(facts);
  }
  return kSuccess;
}

}  // namespace remora::cli
