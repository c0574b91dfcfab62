// SPDX-License-Identifier: Apache-2.0
//
// Every architecture of the zoo is a valid ONNX model with the published number of parameters.
#include <ostream>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <onnx/checker.h>

#include "tests/examples/zoo_model.hpp"

namespace remora::zoo {

namespace {

struct Published {
  std::string name{};
  /// As published, or as the implementation that its authors point to has it.
  std::int64_t parameters = 0;
  std::string output{};
};

/// Else GoogleTest prints the bytes of the struct, addresses among them, into the names that CTest lists.
void PrintTo(const Published& published, std::ostream* stream) {
  *stream << published.name;
}

const Published kPublished[] = {
    {"vgg16", 138'357'544, "1x1000"},      {"resnet18", 11'689'512, "1x1000"},
    {"resnet34", 21'797'672, "1x1000"},    {"resnet50", 25'557'032, "1x1000"},
    {"resnet101", 44'549'160, "1x1000"},   {"resnet152", 60'192'808, "1x1000"},
    {"regnet", 15'296'552, "1x1000"},      {"mobilenet", 4'231'976, "1x1000"},
    {"unet", 31'030'658, "1x2x256x256"},   {"fcn8", 134'489'759, "1x21x500x500"},
    {"gpt2", 124'439'808, "1x1024x50257"}, {"transformer", 63'045'632, "1x128x37000"},
    {"mlp-mixer", 59'880'472, "1x1000"},   {"bert", 109'514'298, "1x128x30522"},
};

class Zoo : public testing::TestWithParam<Published> {};

/// Test names are letters and digits only.
std::string test_name(const testing::TestParamInfo<Published>& info) {
  std::string name;
  for (const char letter : info.param.name) {
    if (letter != '-') name.push_back(letter);
  }
  return name;
}

/// Every output of every node has a complete shape.
void expect_all_shapes_known(const onnx::ModelProto& model, const std::map<std::string, std::string>& shapes) {
  for (const onnx::NodeProto& node : model.graph().node()) {
    for (const std::string& output : node.output()) EXPECT_TRUE(shapes.contains(output)) << output;
  }
}

TEST_P(Zoo, HasThePublishedNumberOfParameters) {
  const Model model = make(GetParam().name);
  EXPECT_EQ(count_parameters(model.proto), GetParam().parameters);
  EXPECT_EQ(model.parameter_count, GetParam().parameters);
}

TEST_P(Zoo, PassesTheCheckerAndStrictInference) {
  const onnx::ModelProto model = make(GetParam().name).proto;
  EXPECT_NO_THROW(onnx::checker::check_model(model));
  const auto shapes = infer_shapes(model);
  expect_all_shapes_known(model, shapes);
  EXPECT_EQ(shapes.at(model.graph().output(0).name()), GetParam().output);
  EXPECT_EQ(stated_output_shapes(model), std::vector<std::string>{GetParam().output});
}

TEST_P(Zoo, LeavesTheBatchOpenWhenAsked) {
  const onnx::ModelProto model = make(GetParam().name, {}, kSymbolicBatch).proto;
  EXPECT_NO_THROW(onnx::checker::check_model(model));
  const auto shapes = infer_shapes(model);
  expect_all_shapes_known(model, shapes);
  const std::string expected = "batch" + GetParam().output.substr(1);
  EXPECT_EQ(shapes.at(model.graph().output(0).name()), expected);
  EXPECT_EQ(stated_output_shapes(model), std::vector<std::string>{expected});
}

TEST_P(Zoo, HasTheBatchSizeAskedFor) {
  const onnx::ModelProto model = make(GetParam().name, {}, 8).proto;
  EXPECT_EQ(infer_shapes(model).at(model.graph().output(0).name()), "8" + GetParam().output.substr(1));
}

TEST_P(Zoo, IsSmallOnDisk) {
  EXPECT_LT(make(GetParam().name).proto.ByteSizeLong(), 200'000U);
}

TEST_P(Zoo, HasUniqueNodeNamesAndSaysWhereItWasPublished) {
  const onnx::ModelProto model = make(GetParam().name).proto;
  std::set<std::string> names;
  for (const onnx::NodeProto& node : model.graph().node()) EXPECT_TRUE(names.insert(node.name()).second) << node.name();
  EXPECT_NE(model.doc_string().find("20"), std::string::npos);
  EXPECT_EQ(model.ir_version(), 8);
  EXPECT_EQ(model.opset_import(0).version(), 17);
}

INSTANTIATE_TEST_SUITE_P(Architectures, Zoo, testing::ValuesIn(kPublished), test_name);

TEST(ZooTable, IsCoveredByTheseTests) {
  std::set<std::string> tested;
  for (const Published& published : kPublished) tested.insert(published.name);
  std::set<std::string> listed;
  for (const Architecture& architecture : architectures()) listed.insert(architecture.name);
  EXPECT_EQ(listed, tested);
}

}  // namespace

}  // namespace remora::zoo
