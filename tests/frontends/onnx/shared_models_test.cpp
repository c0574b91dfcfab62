// SPDX-License-Identifier: Apache-2.0
//
// Real models (../shared/onnx): known parameter counts and FLOPs, inference and training.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "model_builder.hpp"

namespace remora::onnx_frontend::test {
namespace {

struct SharedModel {
  std::string file;
  /// Parameters that inference reads, as published; 0 if not compared.
  std::int64_t parameters;
  /// Multiply-adds of one image, in millions, as published, within 5 %; 0 if not compared.
  double mega_multiplications;
};

/// Test names show the file.
void PrintTo(const SharedModel& model, std::ostream* stream) {
  *stream << model.file;
}

class SharedModels : public testing::TestWithParam<SharedModel> {
 protected:
  void SetUp() override {
    path_ = std::string(REMORA_SHARED_DIR) + "/onnx/" + GetParam().file;
    if (!std::filesystem::exists(path_)) GTEST_SKIP() << path_ << " is not there";
    std::ostringstream text;
    text << std::ifstream(path_, std::ios::binary).rdbuf();
    content_ = text.str();
  }

  std::string path_;
  std::string content_;
};

TEST_P(SharedModels, InferenceHasThePublishedParametersAndFlops) {
  EXPECT_TRUE(looks_like_onnx(content_));
  const Network network = build_network(content_, path_, {});
  EXPECT_TRUE(network.warnings.empty());
  const Graph graph = lower(network, CostModel::flops, {});
  if (GetParam().parameters > 0) {
    EXPECT_EQ(graph.fixed_memory, Bytes(GetParam().parameters * 4));
  }
  double total = 0;
  for (const Op& op : graph.ops) total += static_cast<double>(op.duration.count());
  if (GetParam().mega_multiplications > 0) {
    EXPECT_NEAR(total / 2e6 / GetParam().mega_multiplications, 1.0, 0.05);
  }
}

TEST_P(SharedModels, TrainingStepIsAboutThreeTimesTheForwardPass) {
  const auto total = [](const Graph& graph) {
    double sum = 0;
    for (const Op& op : graph.ops) sum += static_cast<double>(op.duration.count());
    return sum;
  };
  OnnxOptions options{.cost = CostModel::flops};
  const double forward = total(read_onnx(content_, path_, options).graph);
  for (const BackwardRule backward : {BackwardRule::precise, BackwardRule::checkmate}) {
    options.training = TrainingOptions{.backward = backward};
    const Graph graph = read_onnx(content_, path_, options).graph;
    const double ratio = total(graph) / forward;
    EXPECT_GT(ratio, 2.5);
    EXPECT_LT(ratio, 3.2);
  }
}

TEST_P(SharedModels, CutFilesAreErrors) {
  for (std::size_t part = 0; part < 40; ++part) {
    const std::string cut = content_.substr(0, content_.size() * part / 40);
    EXPECT_THROW(read_onnx(cut, path_, {}), InputError) << cut.size();
  }
}

INSTANTIATE_TEST_SUITE_P(Files, SharedModels,
                         testing::Values(SharedModel{"light_vgg19.onnx", 143'667'240, 19'632},
                                         SharedModel{"light_bvlc_alexnet.onnx", 60'965'224, 0},
                                         SharedModel{"light_resnet50.onnx", 25'610'152, 4'089},
                                         SharedModel{"light_inception_v1.onnx", 0, 0},
                                         SharedModel{"light_squeezenet.onnx", 1'235'496, 0},
                                         SharedModel{"light_densenet121.onnx", 0, 2'834}),
                         [](const auto& tested) {
                           const std::string file = tested.param.file;
                           return file.substr(0, file.find('.'));
                         });

}  // namespace
}  // namespace remora::onnx_frontend::test
