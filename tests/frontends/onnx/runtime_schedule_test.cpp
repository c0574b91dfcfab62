// SPDX-License-Identifier: Apache-2.0
//
// The runtime schedule of a training step, executed by its text alone.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "frontends/onnx/write/onnx_writer.hpp"
#include "rewrite_support.hpp"

namespace remora::onnx_frontend::test {
namespace {

using Json = nlohmann::json;

ModelBuilder network() {
  return ModelBuilder()
      .input("x", {extent(8), extent(4)})
      .weight("w", {4, 4})
      .weight("w2", {4, 4})
      .integers("flat", {32})
      .node("MatMul", {"x", "w"}, {"a"}, "A")
      .node("Relu", {"a"}, {"b"}, "")
      .node("MatMul", {"b", "w2"}, {"c"}, "C")
      .node("Tanh", {"c"}, {"d"}, "D")
      .node("Add", {"d", "b"}, {"e"}, "E")
      .node("Reshape", {"e", "flat"}, {"v"}, "V")
      .node("Exp", {"v"}, {"f"}, "F")
      .output("f");
}

/// A runtime that knows nothing but the text: which values are there, and in how much memory.
class Runtime {
 public:
  explicit Runtime(const Json& plan) : plan_(plan), memory_(plan["fixed_memory"].get<std::int64_t>()) {
    for (const Json& value : plan["values"]) {
      EXPECT_TRUE(values_.emplace(value["name"], value).second) << value["name"];
      if (value["kind"] == "input") allocate(value["name"]);
    }
    for (const Json& node : plan["nodes"]) {
      EXPECT_TRUE(nodes_.emplace(node["name"], node).second) << node["name"];
    }
  }

  void run() {
    std::set<std::string> ran;
    for (const Json& step : plan_["steps"]) {
      const Json& node = nodes_.at(step["node"]);
      EXPECT_EQ(node["runs"], "in steps");
      EXPECT_EQ(step["kind"] == "recompute", !ran.insert(step["node"]).second);
      EXPECT_EQ(step["compute"].get<int>(), ++computes_[step["node"]]);
      if (step["compute"] == 1) {
        EXPECT_EQ(step["kind"], node["phase"]);
      }
      for (const Json& name : node["inputs"]) expect_readable(name, step);
      for (const Json& name : step["allocate"]) allocate(name);
      for (const Json& name : node["outputs"]) {
        EXPECT_TRUE(name == "" || resident_.count(name) == 1) << name << " in " << step;
      }
      EXPECT_EQ(memory_, step["memory"].get<std::int64_t>()) << step;
      peak_ = std::max(peak_, memory_);
      duration_ += step["duration"].get<std::int64_t>();
      for (const Json& name : step["free"]) release(name);
    }
    EXPECT_EQ(peak_, plan_["peak_memory"].get<std::int64_t>());
    EXPECT_EQ(duration_, plan_["duration"].get<std::int64_t>());
    EXPECT_LE(peak_, plan_["budget"].get<std::int64_t>());
    for (const auto& [name, node] : nodes_) EXPECT_EQ(ran.count(name), node["runs"] == "in steps" ? 1U : 0U) << name;
    for (const auto& [name, value] : values_) {
      EXPECT_TRUE(!value.value("keep", false) || resident_.count(memory_of(name)) == 1) << name;
    }
  }

  /// Every trainable parameter that some loss depends on: where its gradient goes.
  [[nodiscard]] std::set<std::string> parameters_with_gradient() const {
    std::set<std::string> names;
    for (const auto& [name, value] : values_) {
      if (value.contains("gradient_of")) names.insert(value["gradient_of"]);
    }
    for (const auto& [name, node] : nodes_) {
      if (node.contains("adds_gradients_of"))
        names.insert(node["adds_gradients_of"].begin(), node["adds_gradients_of"].end());
    }
    return names;
  }

 private:
  [[nodiscard]] std::string memory_of(const std::string& name) const {
    return values_.at(name).value("memory_of", name);
  }
  void expect_readable(const std::string& name, const Json& step) const {
    if (name.empty()) return;
    const std::string memory = memory_of(name);
    if (values_.at(memory)["kind"] == "parameter") return;
    EXPECT_EQ(resident_.count(memory), 1U) << name << " in " << step;
  }
  void allocate(const std::string& name) {
    EXPECT_EQ(memory_of(name), name);
    EXPECT_TRUE(resident_.insert(name).second) << name;
    memory_ += values_.at(name)["bytes"].get<std::int64_t>();
  }
  void release(const std::string& name) {
    EXPECT_EQ(resident_.erase(name), 1U) << name;
    memory_ -= values_.at(name)["bytes"].get<std::int64_t>();
  }

  const Json& plan_;
  std::map<std::string, Json> values_;
  std::map<std::string, Json> nodes_;
  std::map<std::string, int> computes_;
  std::set<std::string> resident_;
  std::int64_t memory_;
  std::int64_t peak_ = 0;
  std::int64_t duration_ = 0;
};

/// Runs every forward op that may run again once more before the backward pass.
Json plan_of(const LoweredModel& lowered) {
  Sequence sequence;
  std::vector<OpId> again;
  for (std::size_t k = 0; k < lowered.graph.ops.size(); ++k) {
    const Op& op = lowered.graph.ops[k];
    if (op.phase == Phase::loss) {
      sequence.push_back(OpId(k));
      sequence.insert(sequence.end(), again.begin(), again.end());
      continue;
    }
    sequence.push_back(OpId(k));
    if (op.phase == Phase::forward && op.recompute) again.push_back(OpId(k));
  }
  return Json::parse(runtime_schedule(lowered, schedule_of(lowered.graph, sequence)));
}

class RuntimeSchedule : public testing::TestWithParam<TrainingOptions> {};

TEST_P(RuntimeSchedule, CanBeRunByItsTextAlone) {
  OnnxOptions options;
  options.training = GetParam();
  const LoweredModel lowered = lower_onnx(network().bytes(), "test.onnx", options);
  const Json plan = plan_of(lowered);
  EXPECT_EQ(plan["format"], "remora-runtime-schedule");
  EXPECT_EQ(plan["version"], 1);
  Runtime runtime(plan);
  runtime.run();
  const auto parameters = runtime.parameters_with_gradient();
  for (const char* const name : {"w", "w2"}) EXPECT_EQ(parameters.count(name), 1U) << name;
}

INSTANTIATE_TEST_SUITE_P(Rules, RuntimeSchedule,
                         testing::Values(TrainingOptions{BackwardRule::precise, ParameterGradients::fixed},
                                         TrainingOptions{BackwardRule::precise, ParameterGradients::keep},
                                         TrainingOptions{BackwardRule::checkmate, ParameterGradients::fixed},
                                         TrainingOptions{BackwardRule::checkmate, ParameterGradients::keep}));

TEST(RuntimeScheduleNames, AreTheModels) {
  OnnxOptions options;
  options.training.emplace();
  const Json plan = plan_of(lower_onnx(network().bytes(), "test.onnx", options));
  std::map<std::string, Json> values;
  for (const Json& value : plan["values"]) values[value["name"]] = value;
  EXPECT_EQ(values.at("x")["kind"], "input");
  EXPECT_EQ(values.at("w")["trainable"], true);
  EXPECT_EQ(values.at("v")["memory_of"], "e");
  EXPECT_EQ(values.at("grad(b)")["gradient_of"], "b");
  EXPECT_EQ(values.at("grad(b)")["kind"], "gradient");
  EXPECT_EQ(values.at("loss")["keep"], true);
  const Json& first = plan["nodes"][0];
  EXPECT_EQ(first["name"], "A");
  EXPECT_EQ(first["inputs"], (Json{"x", "w"}));
  EXPECT_EQ(first["outputs"], Json::array({"a"}));
}

}  // namespace
}  // namespace remora::onnx_frontend::test
