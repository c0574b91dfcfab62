// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/allowance.hpp"
#include "engine/pipeline/front.hpp"
#include "engine/pipeline/solve.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/cli/showing/summary.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/pipeline_json.hpp"
#include "frontends/text/text.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace {

OptionGroup pipeline_options() {
  OptionGroup group("The pipeline");
  group.add_options()("microbatches,m", po::value<int>()->value_name("M")->required(), "microbatches of a step")(
      "schedule", po::value<std::string>()->value_name("ORDER")->default_value("1f1b"),
      "gpipe, 1f1b, interleaved or zero-bubble")(
      "budget,b", po::value<std::string>()->value_name("B"),
      "memory of a device: bytes (12GiB), for all devices or one for each, separated by commas")(
      "devices", po::value<int>()->value_name("N"),
      "interleaved: stage s is on device s modulo N (default: as many as stages)")(
      "classes", po::value<int>()->value_name("K")->default_value(1),
      "microbatch m is of class m modulo K; a stage runs all of a class in one mode")(
      "send", po::value<std::int64_t>()->value_name("T")->default_value(0),
      "time from one stage to the next, and of gradients back")(
      "modes", po::value<int>()->value_name("N")->default_value(8),
      "number of amounts of saved memory to try for a stage that is a graph");
  return group;
}

OptionGroup pipeline_output() {
  OptionGroup group("Output");
  group.add_options()("output,o", output_file(), "where to write the plan (remora-pipeline); - for standard output")(
      "stages", po::value<std::string>()->value_name("FOLDER"),
      "where to write the modes of stages that are graphs, as STAGE-0.json, STAGE-1.json, ... (remora-stage)")(
      "quiet,q", "no summary");
  return group;
}

std::vector<std::optional<Bytes>> read_pipeline_budgets(const Arguments& arguments, std::size_t devices) {
  std::vector<std::optional<Bytes>> budgets(devices, std::nullopt);
  if (!arguments.has("budget")) return budgets;
  std::vector<Bytes> amounts;
  std::istringstream parts(arguments.get<std::string>("budget"));
  for (std::string part; std::getline(parts, part, ',');) {
    try {
      amounts.push_back(parse_bytes(part, Bytes::max()));
    } catch (const InputError& error) {
      throw UsageError(std::string("--budget: ") + error.what());
    }
  }
  if (amounts.size() != 1 && amounts.size() != devices) {
    throw UsageError("--budget: " + std::to_string(amounts.size()) + " budgets for " + std::to_string(devices) +
                     " devices; give one, or one for each");
  }
  for (std::size_t d = 0; d < devices; ++d) budgets[d] = amounts[amounts.size() == 1 ? 0 : d];
  return budgets;
}

/// The stages' files, each read once: the same file twice is the same stage twice.
std::vector<StageSource> read_sources(const Arguments& arguments, const std::vector<std::string>& paths) {
  std::map<std::string, StageSource> read;
  std::vector<StageSource> sources;
  for (const std::string& path : paths) {
    const auto [known, is_new] = read.try_emplace(path);
    if (is_new) {
      StageSource& source = known->second;
      source.place = path;
      const FileText file = read_once(path);
      if (json::is_stage(json::Text(file.content))) {
        try {
          source.stage = json::read_stage(json::Text(file.content));
        } catch (const InputError& error) {
          throw InputError(path, error.what());
        }
      } else {
        source.graph = load_graph(file, arguments, arguments.has("quiet")).graph;
        if (onnx_frontend::looks_like_onnx(file.content) && !arguments.has("training")) {
          throw UsageError(path + ": of an ONNX model, a stage is the training step; add --training");
        }
      }
    }
    sources.push_back(known->second);
  }
  return sources;
}

void print_pipeline(std::ostream& out, const Pipeline& pipeline, const PipelinePlan& plan) {
  out << "pipeline    " << pipeline.stages.size() << " stages on " << pipeline.devices << " devices, "
      << pipeline.microbatches << " microbatches, " << json::pipeline_order_word(pipeline.order) << "\n";
  if (plan.choice.empty()) {
    if (plan.needs.empty()) out << "search      ended without a plan\n";
    for (const DeviceNeed& need : plan.needs) {
      const bool is_proved = need.least > *pipeline.budget[need.device];
      out << (is_proved ? "impossible  " : "unknown     ") << need_text(pipeline, need) << "\n";
    }
    return;
  }
  out << "makespan    " << text::grouped(plan.makespan.count());
  if (plan.status == Status::optimal) {
    out << ", proved optimal";
  } else {
    out << ", bound " << text::grouped(plan.lower_bound.count());
  }
  out << "\n";
  if (plan.uniform) {
    out << "one mode    " << text::grouped(plan.uniform_makespan.count()) << " with mode " << *plan.uniform
        << " everywhere, the best within the budgets\n";
  }
  for (const StageId s : pipeline.stages.ids()) {
    const std::span<const int> choice(plan.choice);
    const auto classes = static_cast<std::size_t>(pipeline.classes);
    out << "stage " << s << "     " << modes_text(choice.subspan(choice_index(pipeline, s, 0), classes));
    const std::size_t device = s.index() % pipeline.devices;
    if (s.index() < pipeline.devices) out << ", device " << text::exact_bytes_text(plan.peak[device]);
    if (s.index() < pipeline.devices && pipeline.budget[device]) {
      out << " of " << text::bytes_text(*pipeline.budget[device]);
    }
    out << "\n";
  }
}

/// Why there is no plan, on one line.
std::string refusal_line(const Pipeline& pipeline, const PipelinePlan& plan) {
  std::string text;
  for (const DeviceNeed& need : plan.needs) text += (text.empty() ? "" : "; ") + need_text(pipeline, need);
  return "no plan stays within the budgets" + (text.empty() ? "" : ": " + text);
}

int pipeline_exit_code(const PipelinePlan& plan) {
  if (plan.status == Status::infeasible) return kInfeasible;
  return plan.choice.empty() ? kNoSchedule : kSuccess;
}

void write_stages(const Arguments& arguments, const Table<StageId, PipelineStage>& stages) {
  const auto& folder = arguments.get<std::string>("stages");
  for (const StageId s : stages.ids()) {
    arguments.files().write(folder + "/STAGE-" + std::to_string(s) + ".json",
                            [&](std::ostream& out) { json::write_stage(out, stages[s]); });
  }
}

}  // namespace

int pipeline_command(const Words& words) {
  Arguments arguments("pipeline",
                      "Chooses how each stage of a training pipeline runs its microbatches, for the shortest step "
                      "within each device's memory.",
                      {{"STAGE",
                        "the first stage: its modes (remora-stage), or the training step of one microbatch, a "
                        "graph or an ONNX model with --training"}});
  arguments.take_rest("STAGE", "the other stages, in their order; a file may occur several times");
  OptionGroup limits("The search");
  add_table_options(limits, limit_rows());
  for (const OptionGroup& group : {pipeline_options(), limits, graph_options(), pipeline_output()})
    arguments.add(group);
  arguments.set_notes("Exit: 0 a plan, 20 proved impossible, 21 none found.");
  if (!arguments.parse(words)) return kSuccess;
  const std::string output = arguments.has("output") ? arguments.output("output") : "";
  if (!output.empty()) json::check_writable(output);
  Pipeline pipeline{.microbatches = arguments.get<int>("microbatches"),
                    .order = choose("schedule", arguments.get<std::string>("schedule"), json::kPipelineOrders),
                    .send = Duration(arguments.get<std::int64_t>("send")),
                    .classes = arguments.get<int>("classes")};
  std::vector<std::string> paths{arguments.file("STAGE")};
  for (const std::string& path : arguments.rest()) {
    arguments.files().will_read(path, "a STAGE");
    paths.push_back(path);
  }
  if (arguments.has("stages")) {
    arguments.files().will_write_in(arguments.get<std::string>("stages"), "STAGE-", "--stages");
  }
  pipeline.devices =
      arguments.has("devices") ? static_cast<std::size_t>(std::max(0, arguments.get<int>("devices"))) : paths.size();
  pipeline.budget = read_pipeline_budgets(arguments, pipeline.devices);
  if (arguments.get<int>("modes") < 2) throw UsageError("--modes: must be at least 2");
  SignalGuard signals;
  signals.watch_memory();
  const SolveOptions options = read_limits(arguments);
  const Allowance allowance(limits_of(options), &signals.flag());
  pipeline.stages = stages_of(read_sources(arguments, paths), arguments.get<int>("modes"), options, allowance);
  try {
    validate(pipeline);
  } catch (const InputError& error) {
    const std::string what = error.what();
    // An error in a stage; otherwise one in an option.
    if (what.starts_with("stages")) throw;
    throw UsageError("--" + what);
  }
  if (arguments.has("stages")) write_stages(arguments, pipeline.stages);
  const PipelinePlan plan = solve(pipeline, within(options, allowance.left()), &signals.flag());
  if (!output.empty()) {
    arguments.files().write(output, [&](std::ostream& out) { json::write_pipeline(out, pipeline, plan); });
  }
  const bool is_quiet = arguments.has("quiet");
  if (is_quiet && plan.choice.empty()) {
    std::cerr << "remora: " << refusal_line(pipeline, plan) << "\n";
  } else if (!is_quiet || output.empty()) {
    // A plan that is written nowhere is printed.
    print_pipeline(output == "-" ? std::cerr : std::cout, pipeline, plan);
  }
  return pipeline_exit_code(plan);
}

}  // namespace remora::cli
