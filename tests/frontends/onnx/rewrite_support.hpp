// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the writer share: schedules from any valid sequence, random sequences, and what a rewritten model
// must hold whatever the schedule: checked without the reader, by names and by a hash of what every value computes.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/onnx/write/onnx_writer.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"
#include "model_builder.hpp"
#include "onnx/checker.h"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend::test {

/// The schedule that this sequence is, verified.
inline Schedule schedule_of(const Graph& graph, const Sequence& sequence) {
  const Instance instance(std::make_shared<const Graph>(graph), {.max_computes = 1000, .order = OrderMode::free});
  const Evaluation evaluation = evaluate(instance, sequence);
  Schedule schedule{.graph = graph.name, .status = Status::feasible, .order = OrderMode::free};
  schedule.budget = schedule.peak_memory = evaluation.peak;
  schedule.duration = evaluation.duration;
  schedule.steps = steps_of(instance, sequence);
  schedule.solver.max_computes = 1000;
  for (const Op& op : graph.ops) schedule.baseline_duration += op.duration;
  schedule.baseline_peak_memory = baseline_peak(instance);
  const Verdict verdict = verify(graph, schedule);
  EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
  return schedule;
}

/// The ops of these names.
inline Sequence sequence_of(const Graph& graph, const Strings& names) {
  Sequence sequence;
  for (const std::string& name : names) {
    const auto op = std::find_if(graph.ops.begin(), graph.ops.end(), [&](const Op& one) { return one.name == name; });
    if (op == graph.ops.end()) throw std::runtime_error("no op " + name);
    sequence.push_back(OpId(static_cast<std::size_t>(op - graph.ops.begin())));
  }
  return sequence;
}

/// Reads, rewrites by the sequence, and checks with the reader; folder: where both models are.
inline onnx::ModelProto rewritten(const onnx::ModelProto& model, const Sequence& sequence,
                                  const OnnxOptions& options = {}) {
  const std::string content = model.SerializeAsString();
  const LoweredModel lowered = lower_onnx(content, "test.onnx", options);
  const Schedule schedule = schedule_of(lowered.graph, sequence);
  const std::string bytes = rewrite_model(content, lowered, sequence, {.from = ".", .to = "."});
  check_rewritten(bytes, "rewritten.onnx", options, schedule);
  onnx::ModelProto result;
  EXPECT_TRUE(result.ParseFromString(bytes));
  return result;
}

inline onnx::ModelProto rewritten(const onnx::ModelProto& model, const Strings& ops) {
  const Graph graph = read_onnx(model.SerializeAsString(), "test.onnx", {}).graph;
  return rewritten(model, sequence_of(graph, ops));
}

/// "A: x -> a", a line a node.
inline Strings lines_of(const onnx::ModelProto& model) {
  Strings lines;
  for (const auto& node : model.graph().node()) {
    std::string line = node.name() + ":";
    for (const auto& input : node.input()) line += " " + input;
    line += " ->";
    for (const auto& output : node.output()) line += " " + output;
    lines.push_back(line);
  }
  return lines;
}

/// A text of what the node computes from what; a random node draws anew wherever it stands.
inline std::map<std::string, std::string> meanings(const onnx::ModelProto& model) {
  std::map<std::string, std::string> meaning;
  for (const auto& input : model.graph().input()) meaning[input.name()] = input.name();
  for (const auto& weight : model.graph().initializer()) meaning[weight.name()] = weight.name();
  for (const auto& node : model.graph().node()) {
    std::string text = node.op_type();
    if (text.starts_with("Random")) text += node.name();
    for (const auto& attribute : node.attribute()) text += " " + attribute.SerializeAsString();
    for (const auto& input : node.input()) {
      EXPECT_TRUE(input.empty() || meaning.count(input) == 1) << node.name() << " reads " << input << " too early";
      text += " (" + meaning[input] + ")";
    }
    for (int k = 0; k < node.output_size(); ++k) {
      if (node.output(k).empty()) continue;
      std::string hashed = std::to_string(std::hash<std::string>()(text + "/" + std::to_string(k)));
      EXPECT_TRUE(meaning.emplace(node.output(k), std::move(hashed)).second) << node.output(k) << " is made twice";
    }
  }
  return meaning;
}

/// The parts of a model beside its nodes and what is said of single values.
inline onnx::ModelProto surroundings(onnx::ModelProto model) {
  model.mutable_graph()->clear_node();
  model.mutable_graph()->clear_value_info();
  model.mutable_graph()->clear_quantization_annotation();
  return model;
}

/// The model with what the models of these tests leave out and onnx.checker asks for: types of outputs, data of
/// weights.
inline onnx::ModelProto completed(onnx::ModelProto model) {
  for (auto& output : *model.mutable_graph()->mutable_output()) {
    if (output.has_type()) continue;
    output.mutable_type()->mutable_tensor_type()->set_elem_type(kFloat);
    output.mutable_type()->mutable_tensor_type()->mutable_shape();
  }
  for (auto& weight : *model.mutable_graph()->mutable_initializer()) {
    if (weight.data_type() != kFloat || weight.float_data_size() > 0 || weight.has_raw_data()) continue;
    std::size_t count = 4;
    for (const std::int64_t one : weight.dims()) count *= static_cast<std::size_t>(one);
    weight.set_raw_data(std::string(count, '\0'));
  }
  return model;
}

inline void expect_same_outputs(const onnx::ModelProto& model, const onnx::ModelProto& result) {
  EXPECT_NO_THROW(onnx::checker::check_model(completed(result)));
  EXPECT_EQ(surroundings(model).SerializeAsString(), surroundings(result).SerializeAsString());
  auto before = meanings(model);
  auto after = meanings(result);
  for (const auto& output : model.graph().output()) {
    EXPECT_EQ(before.at(output.name()), after.at(output.name())) << output.name();
  }
  // Every name that was there still stands for what it stood for.
  for (const auto& [name, meaning] : before) EXPECT_EQ(after[name], meaning) << name;
  std::set<std::string> names;
  for (const auto& node : result.graph().node()) {
    if (!node.name().empty()) {
      EXPECT_TRUE(names.insert(node.name()).second) << node.name() << " is there twice";
    }
  }
}

}  // namespace remora::onnx_frontend::test
