// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/frontends/cli/run_words.hpp"
#include "tests/frontends/onnx/model_builder.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::cli {
namespace {

using Json = nlohmann::json;
using onnx_frontend::test::extent;
using onnx_frontend::test::ModelBuilder;
using test::Outcome;
using test::run_words;

constexpr int kLayers = 8;
constexpr std::int64_t kRows = 1024;
constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kParameters = kLayers * kWidth * kWidth * 4;
constexpr std::int64_t kActivation = kRows * kWidth * 4;
constexpr std::int64_t kContext = 1000;

/// Products and what their derivatives read: training keeps two activations a layer.
ModelBuilder perceptron() {
  ModelBuilder builder;
  builder.input("x0", {extent(kRows), extent(kWidth)});
  for (int i = 0; i < kLayers; ++i) {
    const std::string at = std::to_string(i);
    builder.weight("w" + at, {kWidth, kWidth}).node("MatMul", {"x" + at, "w" + at}, {"h" + at}, "M" + at);
    builder.node("Erf", {"h" + at}, {"x" + std::to_string(i + 1)}, "E" + at);
  }
  builder.output("x" + std::to_string(kLayers));
  return builder;
}

class FitCommand : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    write("model.onnx", perceptron().bytes());
  }

  /// A device's file.
  [[nodiscard]] std::string device(const std::string& name, std::int64_t memory,
                                   const std::string& kind = "cuda") const {
    const Json text{
        {"name", name},
        {"memory", memory},
        {"bandwidth", 1e12},
        {"rates", {{"fp32", 1e13}, {"bf16", 1e14}}},
        {"multiprocessors", 1},
        {"launch", 1e-6},
        {"host", 0.0},
        {"context", kContext},
        {"workspaces", 0},
        {"efficiency",
         {{"product", 0.5}, {"product-fp32", 0.5}, {"convolution", 0.5}, {"attention", 0.5}, {"memory", 0.5}}},
        {"range", {0.5, 2.0}},
        {"fitted", ""},
        {"source", "a test"},
        {"kind", kind}};
    write(name + ".json", text.dump());
    return path(name + ".json");
  }

  [[nodiscard]] Outcome fit(const std::string& words) const {
    return run_words("fit " + path("model.onnx") + " --work-limit 20000 --threads 1 " + words);
  }

  /// What is written of the only device.
  [[nodiscard]] Json only(const std::string& words) const {
    const Outcome outcome = fit(words + " -o -");
    return Json::parse(outcome.out)["devices"].at(0);
  }
};

TEST_F(FitCommand, CountsWhatLiesOnTheDevice) {
  const Json inference = only("--device " + device("large", std::int64_t{1} << 30));
  EXPECT_TRUE(inference["fits"]);
  EXPECT_EQ(inference["parameters"], kParameters);
  EXPECT_EQ(inference["context"], kContext);
  EXPECT_EQ(inference["inputs"], kActivation);
  EXPECT_FALSE(inference.contains("update"));
  EXPECT_EQ(inference["without_recompute"], kParameters + kContext + kActivation + 2 * kActivation);

  const Json training = only("--training --optimizer adamw --device " + device("large", std::int64_t{1} << 30));
  EXPECT_EQ(training["optimizer_state"], 2 * kParameters);
  // Parameters, state, what a step of the optimizer takes, and gradients.
  EXPECT_EQ(training["update"], 5 * kParameters + kContext + kActivation);
  const Json loop = only("--training --optimizer adamw --device " + device("cpu", std::int64_t{1} << 30, "cpu"));
  EXPECT_EQ(loop["update"], 4 * kParameters + kContext + kActivation + 2 * kParameters / kLayers);
  EXPECT_EQ(loop["budget"], std::int64_t{1} << 30);
}

TEST_F(FitCommand, CountsGradientsOfEarlierMicroSteps) {
  const std::string words = "--training --optimizer sgd --device " + device("large", std::int64_t{1} << 30);
  const Json first = only(words);
  const Json later = only(words + " --accumulate 4");
  EXPECT_FALSE(first.contains("gradients"));
  EXPECT_EQ(later["gradients"], kParameters);
  // The highest moment is where the backward begins: no gradient of this micro-step is there yet.
  EXPECT_EQ(later["without_recompute"], first["without_recompute"].get<std::int64_t>() + kParameters);
  EXPECT_EQ(later["update"], first["update"]);

  // One row: gradients weigh most, and each new one lies beside the one that it is added to.
  ModelBuilder narrow;
  narrow.input("x", {extent(1), extent(kWidth)}).weight("w", {kWidth, kWidth}).node("MatMul", {"x", "w"}, {"y"}, "M");
  narrow.output("y");
  write("model.onnx", narrow.bytes());
  const std::int64_t size = kWidth * kWidth * 4;
  const Json one = only(words + " --accumulate 2");
  EXPECT_EQ(one["gradients"], size);
  const std::int64_t beside = one["without_recompute"].get<std::int64_t>() - 3 * size - kContext;
  EXPECT_GT(beside, 0);
  EXPECT_LT(beside, size / 8);
}

TEST_F(FitCommand, CountsWhatIsReserved) {
  const std::string words = "--training --optimizer adamw --device " + device("large", std::int64_t{1} << 30);
  const Json without = only(words);
  const Json with = only(words + " --reserve 1MiB");
  EXPECT_EQ(with["reserved"], 1 << 20);
  for (const char* figure : {"without_recompute", "planned", "update"}) {
    EXPECT_EQ(with[figure], without[figure].get<std::int64_t>() + (1 << 20)) << figure;
  }
  const std::string budget = " --budget " + std::to_string(without["planned"].get<std::int64_t>() + (1 << 20));
  EXPECT_TRUE(only(words + " --reserve 1MiB" + budget)["fits"]);
  EXPECT_NE(only(words + " --reserve 1048577" + budget)["recomputes"], 0);
}

TEST_F(FitCommand, OptimizersDiffer) {
  const std::string words = "--training --device " + device("large", std::int64_t{1} << 30) + " --optimizer ";
  const std::int64_t rest = 2 * kParameters + kContext + kActivation;
  EXPECT_EQ(only(words + "sgd")["update"], rest);
  EXPECT_EQ(only(words + "sgd-momentum")["update"], rest + kParameters);
  EXPECT_EQ(only(words + "rmsprop")["update"], rest + 2 * kParameters);
  EXPECT_EQ(only(words + "adagrad")["update"], rest + 3 * kParameters);
  EXPECT_EQ(only(words + "adafactor")["optimizer_state"], kLayers * 2 * kWidth * 4);
  EXPECT_FALSE(only(words + "none").contains("update"));
}

TEST_F(FitCommand, RecomputesWhereThatIsNeeded) {
  const std::string words = "--training --optimizer sgd --device " + device("small", std::int64_t{1} << 30);
  const Json whole = only(words);
  EXPECT_EQ(whole["recomputes"], 0);
  EXPECT_EQ(whole["planned"], whole["without_recompute"]);
  const std::int64_t budget = whole["planned"].get<std::int64_t>() * 3 / 4;
  const Json part = only(words + " --budget " + std::to_string(budget));
  EXPECT_TRUE(part["fits"]);
  EXPECT_GT(part["recomputes"], 0);
  EXPECT_LE(part["planned"], budget);
  EXPECT_GT(part["overhead"], 0);
  EXPECT_LE(part["least_overhead"], part["overhead"]);
  EXPECT_GT(part["seconds"], whole["seconds"]);
}

TEST_F(FitCommand, SaysWhatDoesNotFit) {
  const Outcome none = fit("--training --device " + device("tiny", 200000));
  EXPECT_EQ(none.code, kInfeasible) << none.err;
  EXPECT_NE(none.out.find("does not fit"), std::string::npos) << none.out;
  const Outcome one =
      fit("--training --device " + device("tiny", 200000) + "," + device("large", std::int64_t{1} << 30));
  EXPECT_EQ(one.code, kSuccess);
  EXPECT_NE(one.out.find("fits without recompute"), std::string::npos) << one.out;
  // What is named as enough is enough, and the op that is too large by itself is named.
  const std::string words = "--training --device " + device("large", std::int64_t{1} << 30) + " --budget ";
  const Json refused = only(words + "200000");
  EXPECT_TRUE(refused["proved"]);
  EXPECT_GT(refused["op_needs"], 200000);
  EXPECT_NE(none.out.find("while " + refused["op"].get<std::string>() + " runs, "), std::string::npos) << none.out;
  EXPECT_TRUE(only(words + std::to_string(refused["least_known_budget"].get<std::int64_t>()))["fits"]);
  // The update alone: no schedule is asked for.
  const Json update = only("--training --optimizer adamw --budget " + std::to_string(4 * kParameters) + " --device " +
                           device("large", std::int64_t{1} << 30));
  EXPECT_FALSE(update["fits"]);
  EXPECT_TRUE(update["proved"]);
}

TEST_F(FitCommand, ADevicesTimesAreOfItsRates) {
  // Each product of 1024 x 64 x 64 takes 8.4 MFLOP: 1.7 us at half of 1e13 FLOP/s, and the launch; each Erf moves 512 KiB.
  const Json row = only("--device " + device("large", std::int64_t{1} << 30));
  const double product = 2.0 * kRows * kWidth * kWidth / 5e12;
  const double moved = (2.0 * kActivation + kWidth * kWidth * 4) / 5e11;
  const double elementwise = 2.0 * kActivation / 5e11;
  EXPECT_NEAR(row["seconds"].get<double>(), kLayers * (std::max(product, moved) + elementwise + 2e-6), 1e-7);
}

}  // namespace
}  // namespace remora::cli
