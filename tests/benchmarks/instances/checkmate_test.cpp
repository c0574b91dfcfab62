// SPDX-License-Identifier: Apache-2.0
//
// The training graphs of Jain et al. 2020: as large as published, and where the published graphs are at hand, the same.
#include "benchmarks/instances/checkmate.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"
#include "model/verify.hpp"
#include "tests/support/refusal.hpp"

namespace remora::instances {
namespace {

/// For each op those that it reads from, in ascending order, by position in the input order.
std::vector<std::vector<int>> predecessors(const Graph& graph) {
  std::vector<int> producers(graph.tensors.size(), -1);
  std::vector<std::vector<int>> lists(graph.ops.size());
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    for (const TensorId input : graph.ops[op].inputs) lists[op].push_back(producers[static_cast<std::size_t>(input)]);
    std::sort(lists[op].begin(), lists[op].end());
    for (const TensorId output : graph.ops[op].outputs)
      producers[static_cast<std::size_t>(output)] = static_cast<int>(op);
  }
  return lists;
}

std::size_t edge_count(const Graph& graph) {
  std::size_t edges = 0;
  for (const std::vector<int>& list : predecessors(graph)) edges += list.size();
  return edges;
}

/// Of each op's only output.
std::vector<Bytes> output_sizes(const Graph& graph) {
  std::vector<Bytes> sizes;
  for (const Op& op : graph.ops) {
    EXPECT_EQ(op.outputs.size(), 1U) << op.name;
    sizes.push_back(graph.tensors[static_cast<std::size_t>(op.outputs.front())].size);
  }
  return sizes;
}

std::vector<Duration> durations(const Graph& graph) {
  std::vector<Duration> list;
  for (const Op& op : graph.ops) list.push_back(op.duration);
  return list;
}

std::optional<Graph> published(const std::string& name) {
  const std::string path = std::string(REMORA_SHARED_DIR) + "/instances/" + name + ".json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  return json::read_graph(json::Text(json::read_file(path)));
}

std::vector<Graph> all_networks() {
  std::vector<Graph> graphs;
  for (const keras::Architecture& architecture : keras::kArchitectures) {
    graphs.push_back(checkmate({.network = std::string(architecture.name)}));
  }
  return graphs;
}

std::string message(const CheckmateOptions& options) {
  return remora::test::refusal_of([&] { checkmate(options); }, "accepted");
}

/// A network's counts and the peak of its input order, in bytes: those of the published graph, or 0.
struct Known {
  const char* network;
  std::size_t ops;
  std::size_t edges;
  std::int64_t peak;
};

constexpr Known kKnown[] = {{"vgg16", 45, 87, 15'825'108'992},
                            {"vgg19", 51, 99, 0},
                            {"mobilenet", 185, 367, 34'701'056'000},
                            {"resnet50", 353, 751, 0},
                            {"fcn8", 73, 149, 13'484'795'520},
                            {"segnet", 77, 151, 19'943'884'288},
                            {"unet", 71, 148, 0}};

TEST(Checkmate, GraphsAreAsLargeAsPublished) {
  for (const Known& known : kKnown) {
    const auto graph = std::make_shared<const Graph>(checkmate({.network = known.network}));
    EXPECT_EQ(graph->ops.size(), known.ops) << known.network;
    EXPECT_EQ(edge_count(*graph), known.edges) << known.network;
    if (known.peak > 0) {
      EXPECT_EQ(baseline_peak(Instance(graph, {})), Bytes(known.peak)) << known.network;
    }
  }
}

void expect_published(const std::string& network, const std::string& file, bool counted_durations) {
  const std::optional<Graph> there = published(file);
  ASSERT_TRUE(there) << file;
  const Graph here = checkmate({.network = network});
  EXPECT_EQ(predecessors(here), predecessors(*there)) << network;
  EXPECT_EQ(output_sizes(here), output_sizes(*there)) << network;
  EXPECT_EQ(here.fixed_memory, there->fixed_memory) << network;
  EXPECT_EQ(durations(here) == durations(*there), counted_durations) << network;
}

TEST(Checkmate, GraphsAreThePublishedOnesOpForOp) {
  if (!published("fcn_8_vgg-train")) GTEST_SKIP() << "no published graphs in " REMORA_SHARED_DIR "/instances";
  expect_published("fcn8", "fcn_8_vgg-train", true);
  // Those have measured times.
  expect_published("vgg16", "vgg16-train", false);
  expect_published("mobilenet", "mobilenet-train", false);
  expect_published("segnet", "segnet-train", false);
}

TEST(Checkmate, EveryLayerHasABackwardOpOfTwiceItsOperations) {
  for (const Graph& graph : all_networks()) {
    const std::size_t layers = graph.ops.size() / 2;
    ASSERT_EQ(graph.ops.size(), 2 * layers + 1);
    EXPECT_EQ(graph.ops[layers].phase, Phase::loss);
    EXPECT_EQ(graph.ops[layers].type, "Loss");
    for (std::size_t i = 0; i < layers; ++i) {
      const Op& forward = graph.ops[i];
      const Op& backward = graph.ops[2 * layers - i];
      EXPECT_EQ(forward.phase, Phase::forward);
      EXPECT_FALSE(forward.backward_of.valid());
      EXPECT_EQ(backward.phase, Phase::backward);
      EXPECT_EQ(backward.backward_of, OpId(i));
      EXPECT_EQ(backward.type, forward.type + "Backward");
      EXPECT_EQ(backward.duration, forward.duration + forward.duration);
    }
  }
}

TEST(Checkmate, TheShortcutOfAResnetBlockReadsTheSumsGradient) {
  const Graph graph = checkmate({.network = "resnet50", .batch = 1, .size = 32});
  const auto reads = [&](const std::string& name) {
    std::vector<std::string> names;
    for (const Op& op : graph.ops) {
      if (op.name != name) continue;
      for (const TensorId input : op.inputs) names.push_back(graph.tensors[static_cast<std::size_t>(input)].name);
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  EXPECT_EQ(reads("conv2_block1_0_bn/backward"),
            (std::vector<std::string>{"conv2_block1_0_bn", "conv2_block1_add", "conv2_block1_add/gradient"}));
  // A block's output is read by two: the next block's first convolution, and its sum.
  EXPECT_EQ(reads("conv2_block1_out/backward"),
            (std::vector<std::string>{"conv2_block1_out", "conv2_block2_1_conv", "conv2_block2_1_conv/gradient",
                                      "conv2_block2_add", "conv2_block2_add/gradient"}));
}

TEST(Checkmate, BatchAndSizeScaleTheAmounts) {
  for (const keras::Architecture& architecture : keras::kArchitectures) {
    const std::string_view name = architecture.name;
    const std::string network(name);
    const Graph one = checkmate({.network = network, .batch = 1, .size = 64});
    const Graph three = checkmate({.network = network, .batch = 3, .size = 64});
    EXPECT_EQ(predecessors(one), predecessors(three)) << network;
    for (std::size_t op = 0; op < one.ops.size(); ++op) {
      EXPECT_EQ(three.ops[op].duration.count(), 3 * one.ops[op].duration.count()) << one.ops[op].name;
      EXPECT_EQ(three.tensors[op].size.count(), 3 * one.tensors[op].size.count()) << one.tensors[op].name;
    }
  }
  // The first convolution of VGG: a value for each pixel and filter, 4 bytes each.
  EXPECT_EQ(checkmate({.batch = 2, .size = 96}).tensors.front().size, Bytes(4 * 2 * 96 * 96 * 64));
}

TEST(Checkmate, ParametersAreFixedMemoryWhereWanted) {
  EXPECT_EQ(checkmate({}).fixed_memory, Bytes(0));
  EXPECT_EQ(checkmate({.parameters = true}).fixed_memory, Bytes(8 * 138'357'544LL));
  EXPECT_EQ(checkmate({.network = "resnet50", .parameters = true}).fixed_memory,
            Bytes(4 * (25'636'712LL + 25'583'592LL)));
}

/// The schedule of the input order without recompute.
Schedule plain_schedule(const Instance& instance) {
  const Sequence sequence = input_order(instance);
  const Evaluation evaluation = evaluate(instance, sequence);
  return {.graph = instance.graph().name,
          .status = Status::feasible,
          .budget = instance.budget(),
          .duration = evaluation.duration,
          .baseline_duration = instance.baseline_duration(),
          .peak_memory = evaluation.peak,
          .baseline_peak_memory = evaluation.peak,
          .lower_bound = instance.baseline_duration(),
          .steps = steps_of(instance, sequence)};
}

TEST(Checkmate, NoRecomputeVerifiesWithinItsPeakAndNotBelow) {
  for (const Graph& made : all_networks()) {
    const auto graph = std::make_shared<const Graph>(made);
    const Instance instance(graph, {.budget = baseline_peak(Instance(graph, {}))});
    EXPECT_TRUE(verify(*graph, plain_schedule(instance)).valid()) << graph->name;
    const Instance tight = instance.with_budget(instance.budget() - Bytes(1));
    EXPECT_FALSE(verify(*graph, plain_schedule(tight)).valid()) << graph->name;
  }
}

TEST(Checkmate, RefusesWhatItCannotMake) {
  EXPECT_EQ(message({.network = "alexnet"}),
            "--network: \"alexnet\" is not one of vgg16, vgg19, mobilenet, resnet50, fcn8, segnet, unet");
  EXPECT_EQ(message({.batch = 0}), "--batch: 0 is outside 1 to 65536");
  EXPECT_EQ(message({.size = 31}), "--size: 31 is outside 32 to 4096");
  EXPECT_EQ(message({.network = "fcn8", .size = 80}), "--size: 80 is not a multiple of 32, as fcn8 needs");
  EXPECT_NE(message({.network = "vgg19", .batch = 65'536, .size = 4096}).find("64 bits"), std::string::npos);
}

TEST(Checkmate, EverySizeThatIsAcceptedMakesAValidGraph) {
  for (const keras::Architecture& architecture : keras::kArchitectures) {
    for (std::int64_t size = 32; size <= 260; ++size) {
      if (size % architecture.multiple != 0) continue;
      const Graph graph = checkmate({.network = std::string(architecture.name), .batch = 1, .size = size});
      for (const Tensor& tensor : graph.tensors) EXPECT_GT(tensor.size, Bytes(0)) << tensor.name << " at " << size;
    }
  }
}

}  // namespace
}  // namespace remora::instances
