// SPDX-License-Identifier: Apache-2.0
//
// FLOPs, bytes moved, durations and device files.
#include "frontends/onnx/read/cost.hpp"

#include <gtest/gtest.h>

#include "model_builder.hpp"
#include "tests/support/refusal.hpp"

namespace remora::onnx_frontend::test {
namespace {

const Machine kSlow{.name = "slow", .bandwidth = 1e12, .launch_overhead = 1e-6, .rates = {{"fp32", 1e9}}};

std::int64_t flops_of(const Network& network, std::string_view node) {
  return flops(network, id_of(network, node));
}

/// Each fits, what an op reads and writes does not.
TEST(BytesMoved, SizesThatAddUpTo2To63BytesAreRefused) {
  ModelBuilder model;
  model.input("x", {1 << 30, 1 << 27, 5}, onnx::TensorProto::DOUBLE).node("Relu", {"x"}, {"z"}, "B").output("z");
  const std::string complaint = model.complaint();
  EXPECT_TRUE(contains(complaint, "node B: sizes add up to more than 2^63 bytes")) << complaint;
  ModelBuilder weights;
  weights.input("x", {1}).weight("v", {1 << 30, 1 << 30}).weight("w", {1 << 30, 1 << 30});
  weights.node("Mul", {"x", "v"}, {"a"}, "A").node("ReduceSum", {"a"}, {"b"}, "B").set("keepdims", 0);
  weights.node("Mul", {"b", "w"}, {"y"}, "C").output("y");
  OnnxOptions training;
  training.training.emplace();
  EXPECT_TRUE(contains(weights.complaint(training), "more than 2^63 bytes")) << weights.complaint(training);
}

TEST(Flops, ConvolutionsByHand) {
  ModelBuilder model;
  model.input("x", {2, 4, 8, 8}).weight("w", {6, 2, 3, 3}).weight("t", {6, 5, 2, 2});
  model.node("Conv", {"x", "w"}, {"c"}, "conv").set("group", 2);
  model.node("ConvTranspose", {"c", "t"}, {"y"}, "up").set("strides", std::vector<std::int64_t>{2, 2});
  const Network network = model.output("y").network();
  EXPECT_EQ(flops_of(network, "conv"), 2 * (2 * 6 * 6 * 6) * 9 * (4 / 2));
  EXPECT_EQ(flops_of(network, "up"), 2 * (2 * 6 * 6 * 6) * 5 * 4);
}

TEST(Flops, MatrixProductsByHand) {
  ModelBuilder model;
  model.input("x", {3, 7}).weight("w", {3, 5}).input("b", {4, 2, 3, 7}).weight("v", {7, 11});
  model.node("Gemm", {"x", "w"}, {"g"}, "gemm").set("transA", 1);
  model.node("MatMul", {"b", "v"}, {"m"}, "batched");
  model.node("Einsum", {"b", "v"}, {"e"}, "einsum").set("equation", std::string("...ij,jk->...ik"));
  const Network network = model.output("g").output("m").output("e").network();
  EXPECT_EQ(flops_of(network, "gemm"), 2 * 7 * 5 * 3);
  EXPECT_EQ(flops_of(network, "batched"), 2 * (4 * 2 * 3 * 11) * 7);
  EXPECT_EQ(flops_of(network, "einsum"), 2 * (4 * 2 * 3 * 11) * 7);
}

TEST(Flops, AttentionAndRecurrence) {
  ModelBuilder model(23);
  model.input("q", {2, 8, 10, 16}).input("k", {2, 8, 20, 16}).node("Attention", {"q", "k", "k"}, {"y"}, "attention");
  const Network network = model.output("y").network();
  const std::int64_t scores = 2 * 8 * 10 * 20;
  EXPECT_EQ(flops_of(network, "attention"), 2 * scores * 16 * 2);

  ModelBuilder recurrent;
  recurrent.input("x", {5, 2, 6}).weight("w", {1, 12, 6}).weight("r", {1, 12, 3});
  recurrent.node("LSTM", {"x", "w", "r"}, {"y"}, "lstm").set("hidden_size", 3).output("y");
  EXPECT_EQ(flops_of(recurrent.network(), "lstm"), 2 * 5 * 2 * (12 * 6 + 12 * 3));
}

TEST(Flops, BackwardOfAProductCostsOneProductForEachGradient) {
  ModelBuilder model;
  model.input("x", {2, 6}).weight("w1", {6, 8}).weight("w2", {8, 4}).weight("b", {4});
  model.node("MatMul", {"x", "w1"}, {"h"}, "first").node("Gemm", {"h", "w2", "b"}, {"y"}, "second").output("y");
  for (const ParameterGradients gradients : {ParameterGradients::fixed, ParameterGradients::keep}) {
    const Network network = differentiate(model.network(), {.gradients = gradients});
    // The first layer needs no gradient of the data.
    EXPECT_EQ(flops_of(network, "first/grad"), 2 * 2 * 6 * 8);
    EXPECT_EQ(flops_of(network, "second/grad"), 2 * (2 * 2 * 8 * 4));
  }
}

TEST(Flops, CheckmateRuleTakesTwiceTheForwardDuration) {
  ModelBuilder model;
  model.input("x", {2, 6}).weight("w", {6, 8}).node("MatMul", {"x", "w"}, {"h"}, "first");
  model.node("Relu", {"h"}, {"y"}, "relu").output("y");
  const Network network = differentiate(model.network(), {.backward = BackwardRule::checkmate});
  for (const CostModel cost : {CostModel::roofline, CostModel::flops, CostModel::unit}) {
    for (std::size_t k = 0; k < network.nodes.size(); ++k) {
      if (!network.nodes[k].attributes.has("duration_factor")) continue;
      EXPECT_EQ(duration(network, NodeId(k), cost, {}).count(),
                2 * duration(network, network.nodes[k].backward_of, cost, {}).count());
    }
  }
}

TEST(Flops, HugeShapesSaturateInsteadOfOverflowing) {
  ModelBuilder model;
  const std::int64_t side = std::int64_t{1} << 29;
  model.input("x", {side, side}).node("MatMul", {"x", "x"}, {"y"}, "product").output("y");
  EXPECT_EQ(flops_of(model.network(), "product"), std::int64_t{1} << 62);
}

TEST(Roofline, TakesTheSlowerOfComputingAndMovingPlusOverhead) {
  ModelBuilder model;
  model.input("x", {100, 200}).weight("w", {200, 50}).node("MatMul", {"x", "w"}, {"y"}, "product").output("y");
  const Network network = model.network();
  const NodeId product = id_of(network, "product");
  EXPECT_EQ(flops(network, product), 2'000'000);
  EXPECT_EQ(bytes_moved(network, product), Bytes(4 * (20000 + 10000 + 5000)));
  EXPECT_EQ(duration(network, product, CostModel::roofline, kSlow), Duration(2'001'000));
  EXPECT_EQ(duration(network, product, CostModel::roofline, {"narrow", 1e9, 1e-6, 0, {{"fp32", 1e15}}}),
            Duration(141'000));
  EXPECT_EQ(duration(network, product, CostModel::flops, {}), Duration(2'000'000));
  EXPECT_EQ(duration(network, product, CostModel::unit, {}), Duration(1));
}

TEST(Roofline, LookingUpAnEmbeddingDoesNotReadTheWholeTable) {
  ModelBuilder model;
  model.input("ids", {10}, kInt64)
      .weight("table", {50000, 8})
      .node("Gather", {"table", "ids"}, {"y"}, "embed")
      .output("y");
  const Network network = model.network();
  EXPECT_EQ(bytes_moved(network, id_of(network, "embed")), Bytes(10 * 8 + 2 * 10 * 8 * 4));
}

/// What reading a device file of this text complains of; empty if it does not.
std::string complaint(const std::string& text) {
  return remora::test::refusal_of([&] { read_machine(text, "device.json"); });
}

TEST(DeviceFile, ErrorsNameTheKey) {
  EXPECT_EQ(complaint(R"({"rates": {"fp32": 1e12}, "bandwidth": 1e11})"), "");
  EXPECT_TRUE(contains(complaint(R"({"rates": {"fp32": 1e12}, "launch": 0})"), "$.bandwidth: missing"));
  EXPECT_TRUE(contains(complaint(R"({"bandwidth": 1})"), "$.rates: missing"));
  EXPECT_TRUE(contains(complaint(R"({"rates": {"bf16": 1}, "bandwidth": 1})"), "$.rates.fp32: missing"));
  EXPECT_TRUE(contains(complaint(R"({"rates": {"fp32": "fast"}, "bandwidth": 1})"), "$.rates.fp32"));
  EXPECT_TRUE(contains(complaint(R"({"rates": {"fp32": 0}, "bandwidth": 1})"), "must be positive"));
  EXPECT_TRUE(contains(complaint(R"({"rates": {"fp32": 1}, "bandwidth": 1, "launch": -1})"), "$.launch"));
  EXPECT_TRUE(contains(complaint(R"({"name": 3, "rates": {"fp32": 1}, "bandwidth": 1})"), "$.name"));
  EXPECT_TRUE(contains(complaint("[1, 2]"), "object"));
  EXPECT_TRUE(
      contains(complaint(R"({"rates": {"fp32": 1}, "bandwidth": 1, "bandwidth": 2})"), "\"bandwidth\" stands twice"));
  EXPECT_TRUE(contains(complaint(R"({"rates": {"fp32": 1e999}, "bandwidth": 1})"), "too large"));
  EXPECT_TRUE(contains(complaint("{"), "not JSON"));
  EXPECT_TRUE(contains(complaint(""), "not JSON"));
}

/// An object of the table of devices.
constexpr const char* kTableDevice =
    R"({"name": "d", "memory": 8, "bandwidth": 10, "rates": {"fp32": 100, "tf32": 400}, "multiprocessors": 4, "launch": 1,
        "host": 0, "context": 0, "workspaces": 0, "range": [0.5, 2], "fitted": "", "efficiency":
        {"product": 0.5, "product-fp32": 0.25, "convolution": 0.5, "attention": 1, "memory": 0.5}})";

TEST(DeviceFile, ClassesOfOpsReachSharesOfTheRates) {
  const Machine machine = read_machine(kTableDevice, "d.json");
  const auto seconds = [&](OpClass of, std::string_view numbers) {
    return machine.seconds({.of = of, .numbers = numbers, .operations = 1000, .moved = 5});
  };
  // Arithmetic at the class's share of the rate; another type has that of fp32; one second of launch.
  EXPECT_DOUBLE_EQ(seconds(OpClass::product, "fp32"), 1 + 1000.0 / 25);
  EXPECT_DOUBLE_EQ(seconds(OpClass::product, "bf16"), 1 + 1000.0 / 50);
  EXPECT_DOUBLE_EQ(seconds(OpClass::convolution, "fp32"), 1 + 1000.0 / 200);
  EXPECT_DOUBLE_EQ(seconds(OpClass::attention, "half"), 1 + 1000.0 / 100);
  EXPECT_DOUBLE_EQ(machine.seconds({.moved = 50}), 1 + 10.0);
}

/// As PyTorch runs it: a product for each operand and a sum for the bias; a sum passes its gradient on.
TEST(DeviceFile, AGradientOfAProductIsAKernel) {
  const Machine machine = read_machine(kTableDevice, "d.json");
  ModelBuilder model;
  model.input("x", {2, 6}).weight("w1", {6, 8}).weight("w2", {8, 4}).weight("b", {4}).weight("c", {4});
  model.node("MatMul", {"x", "w1"}, {"h"}, "first").node("Gemm", {"h", "w2", "b"}, {"g"}, "second");
  model.node("Add", {"g", "g"}, {"a"}, "twice").node("Add", {"a", "c"}, {"y"}, "biased").output("y");
  const Network network = differentiate(model.network(), {.gradients = ParameterGradients::keep});
  const auto product = [&](const Shape& made) {
    return machine.seconds(
        {.of = OpClass::product, .operations = 128, .moved = 4 * (2 * 4 + 2 * 8 + 8 * 4), .made = made});
  };
  const auto taken = [&](const char* name) {
    return duration(network, id_of(network, name), CostModel::roofline, machine);
  };
  const double bias = machine.seconds({.moved = 4 * (2 * 4 + 4)});
  EXPECT_EQ(taken("second/grad"), nanoseconds(product({2, 8}) + product({8, 4}) + bias));
  EXPECT_EQ(taken("twice/grad"), Duration(0));
  EXPECT_EQ(taken("biased/grad"), nanoseconds(bias));
  // Without efficiencies a gradient is one kernel.
  EXPECT_EQ(duration(network, id_of(network, "second/grad"), CostModel::roofline, kSlow), Duration(1256));
}

TEST(DeviceFile, TilesOfAProductFillTheMultiprocessors) {
  const Machine machine = read_machine(kTableDevice, "d.json");
  const auto seconds = [&](const std::vector<std::int64_t>& made) {
    return machine.seconds({.of = OpClass::product, .numbers = "bf16", .operations = 1 << 20, .made = made}) - 1;
  };
  const double whole = (1 << 20) / 50.0;
  EXPECT_DOUBLE_EQ(seconds({256, 256}), whole);               // four tiles, one on each
  EXPECT_DOUBLE_EQ(seconds({128, 128}), 4 * whole);           // one tile
  EXPECT_DOUBLE_EQ(seconds({5, 128, 128}), 8 / 5.0 * whole);  // a second round for the fifth
  EXPECT_DOUBLE_EQ(seconds({64, 512}), whole);                // narrower tiles
  EXPECT_DOUBLE_EQ(seconds({100, 512}), 1.28 * whole);        // tiles that are not full
}

TEST(DeviceFile, TheTableIsFoundByNamesAndAliases) {
  ASSERT_GT(known_machines().size(), 10U);
  for (const Machine& machine : known_machines()) {
    EXPECT_EQ(find_machine(machine.name), &machine);
    for (const std::string& alias : machine.aliases) EXPECT_EQ(find_machine(alias), &machine) << alias;
    EXPECT_TRUE(machine.memory == Bytes(0) || machine.memory > Bytes(std::int64_t{1} << 30)) << machine.name;
    EXPECT_GT(machine.rates.at("fp32"), 1e11) << machine.name;
    EXPECT_GT(machine.bandwidth, 1e10) << machine.name;
  }
  for (const LinkModel& link : known_links()) EXPECT_EQ(find_link(link.name), &link);
  EXPECT_EQ(find_link("PCIe 4"), find_link("pcie-4-x16"));
  EXPECT_EQ(find_machine("RTX 4090"), find_machine("4090"));
  EXPECT_EQ(find_machine("none"), nullptr);
}

}  // namespace
}  // namespace remora::onnx_frontend::test
