// SPDX-License-Identifier: Apache-2.0
//
// What `remora rewrite` refuses before it solves. The budgets here hold nothing (exit 20), so a refusal that comes
// after the search would not be seen.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "onnx/onnx_pb.h"
#include "tests/frontends/cli/run_words.hpp"
#include "tests/frontends/onnx/model_builder.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::cli {
namespace {

namespace fs = std::filesystem;
using onnx_frontend::test::extent;
using onnx_frontend::test::ModelBuilder;
using onnx_frontend::test::put_outside;
using test::Outcome;
using test::run_words;

class RewriteRefusals : public remora::test::TemporaryFolder {
 protected:
  static ModelBuilder three_nodes() {
    return ModelBuilder()
        .input("x", {extent(4), extent(4)})
        .weight("w", {4, 4})
        .node("MatMul", {"x", "w"}, {"hidden"}, "A")
        .node("Relu", {"hidden"}, {"b"}, "B")
        .node("MatMul", {"b", "w"}, {"y"}, "C")
        .output("y");
  }
  /// models/m.onnx with its weights in models/w.bin.
  void write_external() const {
    ModelBuilder builder = three_nodes();
    put_outside(*builder.proto().mutable_graph()->mutable_initializer(0), "w.bin");
    fs::create_directories(path("models"));
    write("models/m.onnx", builder.bytes());
    write("models/w.bin", std::string(64, 'w'));
  }
  [[nodiscard]] Outcome rewrite(const std::string& model, const std::string& output, const std::string& words) const {
    return run_words("rewrite " + path(model) + " -o " + path(output) + " -q " + words);
  }
  static void expect_refused(const Outcome& outcome, int code, const std::string& says) {
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  }
};

TEST_F(RewriteRefusals, QuietKeepsTheReasonOnOneLine) {
  write("m.onnx", three_nodes().bytes());
  for (const std::string& words : std::vector<std::string>{
           "rewrite " + path("m.onnx") + " -b 1B", "solve " + path("m.onnx") + " -b 1B",
           "rewrite " + path("m.onnx") + " -b 1B --training", "solve " + path("m.onnx") + " -b 1B --training",
           "sweep " + path("m.onnx") + " --budgets 1B"}) {
    const Outcome outcome = run_words(words + " -q -o " + path("out"));
    EXPECT_EQ(outcome.code, 20) << words << outcome.err;
    EXPECT_EQ(outcome.err.substr(0, 11), "remora: no ") << words << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << words << outcome.err;
    EXPECT_EQ(outcome.out, "") << words;
  }
}

/// A prime number of columns, which no number of slices divides.
std::string many_columns(std::int64_t rows) {
  constexpr std::int64_t kColumns = 50021;
  return ModelBuilder()
      .input("x", {extent(rows), extent(8)})
      .weight("w", {8, kColumns})
      .node("MatMul", {"x", "w"}, {"l"}, "logits")
      .node("Relu", {"l"}, {"r"}, "relu")
      .node("Exp", {"r"}, {"e"}, "exp")
      .node("Add", {"e", "r"}, {"y"}, "add")
      .output("y")
      .bytes();
}

TEST_F(RewriteRefusals, AnAxisOfWhichSlicesCannotBeWrittenIsNotChosen) {
  const std::string automatic = "-b 80% --slices auto --work-limit 2000 --threads 1";
  write("one.onnx", many_columns(1));
  EXPECT_EQ(rewrite("one.onnx", "out.onnx", automatic).code, 20);
  EXPECT_FALSE(fs::exists(path("out.onnx")));
  expect_refused(rewrite("one.onnx", "out.onnx", "-b 200% --slices logits,relu,exp,add=3 --work-limit 2000"), 65,
                 "in these uneven slices");
  // Along the rows it can be cut.
  write("more.onnx", many_columns(8));
  EXPECT_EQ(rewrite("more.onnx", "out.onnx", automatic).code, 0);
  EXPECT_TRUE(fs::exists(path("out.onnx")));
}

TEST_F(RewriteRefusals, ExternalDataThatWouldBeLostIsToldBeforeSolving) {
  write_external();
  fs::create_directories(path("elsewhere"));
  expect_refused(rewrite("models/m.onnx", "elsewhere/out.onnx", "-b 1B"), 65, "not below the folder of the output");
  EXPECT_FALSE(fs::exists(path("elsewhere/out.onnx")));
  EXPECT_EQ(rewrite("models/m.onnx", "models/out.onnx", "-b 1B").code, 20);
}

TEST_F(RewriteRefusals, AnOutputThatIsALinkIsWrittenForTheFolderThatItPointsTo) {
  write_external();
  fs::create_symlink("models/linked.onnx", path("link.onnx"));
  ASSERT_EQ(rewrite("models/m.onnx", "link.onnx", "-b 100% --strategy none").code, 0);
  onnx::ModelProto result;
  ASSERT_TRUE(result.ParseFromString(read("models/linked.onnx")));
  EXPECT_EQ(result.graph().initializer(0).external_data(0).value(), "w.bin");
  fs::create_directories(path("elsewhere"));
  fs::create_symlink("../elsewhere/out.onnx", path("models/away.onnx"));
  expect_refused(rewrite("models/m.onnx", "models/away.onnx", "-b 1B"), 65, "not below the folder of the output");
}

TEST_F(RewriteRefusals, FunctionsThatCannotBeInlineAreToldBeforeSolving) {
  ModelBuilder builder = three_nodes();
  builder.proto().mutable_graph()->mutable_node(1)->set_op_type("Own");
  auto& function = *builder.proto().add_functions();
  function.set_name("Own");
  function.add_input("p");
  function.add_output("r");
  function.add_opset_import()->set_version(13);
  auto& node = *function.add_node();
  node.set_op_type("Relu");
  node.add_input("p");
  node.add_output("r");
  write("m.onnx", builder.bytes());
  expect_refused(rewrite("m.onnx", "out.onnx", "-b 1B"), 65, "function Own: is of version 13");
}

TEST_F(RewriteRefusals, NamesThatJsonCannotHoldAreToldBeforeSolving) {
  std::string bytes = three_nodes().bytes();
  for (auto found = bytes.find("hidden"); found != std::string::npos; found = bytes.find("hidden")) {
    bytes.replace(found, 2, "\xff\xfe");
  }
  write("m.onnx", bytes);
  expect_refused(rewrite("m.onnx", "out.json", "--training -b 1"), 65, "UTF-8");
  EXPECT_EQ(rewrite("m.onnx", "out.onnx", "-b 1B").code, 20);
}

}  // namespace
}  // namespace remora::cli
