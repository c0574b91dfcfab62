// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "onnx/onnx_pb.h"
#include "tests/frontends/cli/run_words.hpp"
#include "tests/frontends/onnx/model_builder.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::cli {
namespace {

using Json = nlohmann::json;
using onnx_frontend::test::extent;
using onnx_frontend::test::ModelBuilder;
using onnx_frontend::test::Strings;
using test::Outcome;
using test::run_words;

/// Four branches, of which the file computes all wide tensors first.
ModelBuilder wide_first() {
  ModelBuilder builder;
  builder.input("x", {extent(4), extent(4)}).weight("w", {4, 400});
  Strings narrow;
  for (int i = 0; i < 4; ++i) builder.node("MatMul", {"x", "w"}, {"a" + std::to_string(i)}, "A" + std::to_string(i));
  for (int i = 0; i < 4; ++i) {
    narrow.push_back("b" + std::to_string(i));
    builder.node("ReduceMean", {"a" + std::to_string(i)}, {narrow.back()}, "B" + std::to_string(i));
    builder.set("axes", std::vector<std::int64_t>{1});
  }
  builder.node("Sum", narrow, {"y"}, "S").output("y");
  return builder;
}

class OrderCommand : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    model_ = path("model.onnx");
    write("model.onnx", wide_first().bytes());
    graph_ = path("graph.json");
    ASSERT_EQ(run_words("convert " + model_ + " -o " + graph_).code, 0);
  }
  [[nodiscard]] static Outcome order(const std::string& words) {
    return run_words("order --work-limit 20000 --threads 1 " + words);
  }
  [[nodiscard]] static Json figures(const std::string& words) {
    const Outcome outcome = order("--json -q " + words);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(outcome.err.empty()) << outcome.err;
    return Json::parse(outcome.out);
  }
  [[nodiscard]] static std::int64_t own_peak(const std::string& file) {
    const Outcome outcome = run_words("info --json -q " + file);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return Json::parse(outcome.out)["no_recompute_peak"].get<std::int64_t>();
  }

  std::string model_;
  std::string graph_;
};

TEST_F(OrderCommand, WritesTheModelInThatOrder) {
  const Json told = figures(model_ + " -o " + path("ordered.onnx"));
  EXPECT_LT(told["peak_memory"], told["input_peak_memory"]);
  EXPECT_EQ(told["peak_memory"], own_peak(path("ordered.onnx")));
  onnx::ModelProto before;
  onnx::ModelProto after;
  ASSERT_TRUE(before.ParseFromString(read("model.onnx")));
  ASSERT_TRUE(after.ParseFromString(read("ordered.onnx")));
  std::multiset<std::string> nodes;
  for (const auto& node : before.graph().node()) nodes.insert(node.SerializeAsString());
  for (const auto& node : after.graph().node()) {
    const auto found = nodes.find(node.SerializeAsString());
    ASSERT_NE(found, nodes.end()) << node.name();
    nodes.erase(found);
  }
  EXPECT_TRUE(nodes.empty());
}

TEST_F(OrderCommand, AModelThatNeedsShapesOfOtherBranchesIsWrittenInAnyOrder) {
  ModelBuilder builder = wide_first();
  // The last branch's shape is needed beside the branches, by what reads nothing of them.
  builder.node("Shape", {"a3"}, {"s"}, "Shape").node("Exp", {"x"}, {"e"}, "E");
  builder.node("ReduceMean", {"e"}, {"m"}, "M").node("Expand", {"m", "s"}, {"v"}, "V").output("v");
  write("shapes.onnx", builder.bytes());
  const Json told = figures(path("shapes.onnx") + " -o " + path("ordered.onnx"));
  EXPECT_EQ(told["peak_memory"], own_peak(path("ordered.onnx")));
  ASSERT_EQ(run_words("convert " + path("shapes.onnx") + " -o " + path("shapes.json")).code, 0);
  EXPECT_NE(read("shapes.json").find("\"after\""), std::string::npos);
}

TEST_F(OrderCommand, RewritesInFreeOrder) {
  const std::string fitted = path("fitted.onnx");
  const Outcome outcome =
      run_words("rewrite " + model_ + " -b 60% --order free --work-limit 20000 --threads 1 -q -o " + fitted);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_LE(own_peak(fitted), own_peak(model_));
  EXPECT_LT(own_peak(fitted), 0.7 * static_cast<double>(own_peak(model_)));
}

}  // namespace
}  // namespace remora::cli
