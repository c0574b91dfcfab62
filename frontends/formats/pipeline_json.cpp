// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/pipeline_json.hpp"

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>

#include "frontends/formats/document.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/formats/keys.hpp"

namespace remora::json {
namespace {

StageMode read_mode(const Node& node) {
  node.expect_object();
  const Node forward = node.at("forward");
  const Node backward = node.at("backward");
  const Node saved = node.at("saved");
  StageMode mode{.forward = Duration(forward.integer()),
                 .backward = Duration(backward.integer()),
                 .weight_gradient = amount<Duration>(node, "weight_gradient"),
                 .saved = Bytes(saved.integer()),
                 .held = amount<Bytes>(node, "held"),
                 .forward_transient = amount<Bytes>(node, "forward_transient"),
                 .backward_transient = amount<Bytes>(node, "backward_transient"),
                 .weight_transient = amount<Bytes>(node, "weight_transient")};
  if (node.has("name")) mode.name = node.at("name").string();
  return mode;
}

Document document_of(const StageMode& mode) {
  Document object;
  if (!mode.name.empty()) object["name"] = mode.name;
  object["forward"] = mode.forward.count();
  object["backward"] = mode.backward.count();
  const auto add = [&](const char* key, std::int64_t amount) {
    if (amount != 0) object[key] = amount;
  };
  add("weight_gradient", mode.weight_gradient.count());
  object["saved"] = mode.saved.count();
  add("held", mode.held.count());
  add("forward_transient", mode.forward_transient.count());
  add("backward_transient", mode.backward_transient.count());
  add("weight_transient", mode.weight_transient.count());
  return object;
}

}  // namespace

bool is_stage(Text text) {
  return calls_itself(text.view(), "remora-stage");
}

PipelineStage read_stage(Text text) {
  const Document document = parse(text.view());
  const Node root(document);
  expect_format(root, "remora-stage", 1);
  PipelineStage stage{.fixed_memory = amount<Bytes>(root, "fixed_memory")};
  if (root.has("name")) stage.name = root.at("name").string();
  const Node modes = root.at("modes");
  modes.expect_array();
  for (std::size_t i = 0; i < modes.size(); ++i) {
    const Node mode = modes.element(i);
    stage.modes.push_back(read_mode(mode));
  }
  if (stage.modes.empty()) modes.fail("must have at least one");
  return stage;
}

void write_stage(std::ostream& out, const PipelineStage& stage) {
  Document object{{"format", "remora-stage"}, {"version", 1}, {"name", stage.name}};
  object["fixed_memory"] = stage.fixed_memory.count();
  object["modes"] = Document::array();
  for (const StageMode& mode : stage.modes) object["modes"].push_back(document_of(mode));
  out << object.dump(1) << "\n";
}

const char* pipeline_order_word(PipelineOrder order) {
  return std::ranges::find(kPipelineOrders, order, &std::pair<const char*, PipelineOrder>::second)->first;
}

void write_pipeline(std::ostream& out, const Pipeline& pipeline, const PipelinePlan& plan) {
  Document object{{"format", "remora-pipeline"},           {"version", 1},
                  {"status", status_word(plan.status)},    {"order", pipeline_order_word(pipeline.order)},
                  {"microbatches", pipeline.microbatches}, {"classes", pipeline.classes},
                  {"send", pipeline.send.count()}};
  const bool has_plan = !plan.choice.empty();
  if (has_plan) object["makespan"] = plan.makespan.count();
  object["lower_bound"] = plan.lower_bound.count();
  if (plan.uniform) object["uniform"] = {{"mode", *plan.uniform}, {"makespan", plan.uniform_makespan.count()}};
  if (!plan.reason.empty()) object["reason"] = plan.reason;
  object["devices"] = Document::array();
  for (std::size_t d = 0; d < pipeline.devices; ++d) {
    Document device = Document::object();
    if (pipeline.budget[d]) device["budget"] = pipeline.budget[d]->count();
    if (has_plan) device["peak_memory"] = plan.peak[d].count();
    for (const DeviceNeed& need : plan.needs) {
      if (need.device != d) continue;
      device["needs"] = {{"least", need.least.count()}, {"enough", need.enough.count()}, {"modes", need.modes}};
    }
    object["devices"].push_back(std::move(device));
  }
  object["stages"] = Document::array();
  for (const StageId s : pipeline.stages.ids()) {
    Document stage{{"name", pipeline.stages[s].name}, {"device", s.index() % pipeline.devices}};
    if (has_plan) stage["modes"] = Document::array();
    for (int k = 0; has_plan && k < pipeline.classes; ++k) {
      stage["modes"].push_back(document_of(mode_of(pipeline, plan.choice, {.stage = s, .microbatch = k})));
    }
    object["stages"].push_back(std::move(stage));
  }
  object["work"] = plan.work;
  object["seconds"] = plan.seconds;
  out << object.dump(1) << "\n";
}

}  // namespace remora::json
