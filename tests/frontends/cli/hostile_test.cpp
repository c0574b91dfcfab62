// SPDX-License-Identifier: Apache-2.0
//
// Files that are made to do harm end with one line and exit 65, in little memory (hostile.md has more).
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <sys/wait.h>

#include "frontends/cli/commands/command.hpp"
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

class HostileFiles : public remora::test::TemporaryFolder {
 protected:
  /// In a process of its own with 512 MiB.
  [[nodiscard]] Outcome run(const std::string& words) const {
    const std::string command = "'" REMORA_PROGRAM "' " + words + " --memory-limit 512MiB > '" + path("out.txt") +
                                "' 2> '" + path("err.txt") + "' < /dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("out.txt"), read("err.txt")};
  }
  void expect_refused(const std::string& words, const std::string& says) const {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, kBadInput) << words << ": " << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << words << ": " << outcome.err;
    EXPECT_LT(outcome.err.size(), 6000U) << words;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << words << ": " << outcome.err;
  }
};

TEST_F(HostileFiles, ModelsThatPromiseMoreThanTheyHold) {
  ModelBuilder huge;
  huge.input("x", {extent(INT64_MAX), extent(INT64_MAX)}).node("Relu", {"x"}, {"y"}, "A").output("y");
  write("dims.onnx", huge.bytes());
  expect_refused("info " + path("dims.onnx"), "more than 2^62 elements");
  // A constant that would take 8 TiB is never made.
  ModelBuilder fill;
  fill.integers("shape", {1 << 20, 1 << 20}).node("ConstantOfShape", {"shape"}, {"c"}, "C");
  fill.input("x", {extent(1)}).node("Add", {"x", "c"}, {"y"}, "A").output("y");
  write("fill.onnx", fill.bytes());
  EXPECT_EQ(run("info " + path("fill.onnx")).code, kSuccess) << read("err.txt");
}

TEST_F(HostileFiles, WeightsBehindALinkOutOfTheModelsFolder) {
  ModelBuilder builder;
  builder.input("x", {extent(4), extent(4)}).weight("w", {4, 4}).node("MatMul", {"x", "w"}, {"y"}, "A").output("y");
  put_outside(*builder.proto().mutable_graph()->mutable_initializer(0), "data/w.bin");
  fs::create_directories(path("models"));
  fs::create_directories(path("elsewhere"));
  write("models/m.onnx", builder.bytes());
  write("elsewhere/w.bin", std::string(64, 'w'));
  fs::create_directory_symlink(path("elsewhere"), path("models/data"));
  const std::string rewrite = path("models/m.onnx") + " -b 100% --strategy none -q -o " + path("models/r.onnx");
  for (const std::string& words :
       {"info " + path("models/m.onnx"), "rewrite " + rewrite, "convert " + path("models/m.onnx")}) {
    const Outcome outcome = run_words(words);
    EXPECT_EQ(outcome.code, kBadInput) << words;
    EXPECT_NE(outcome.err.find("outside the model's folder, in \"data/w.bin\"; --allow-external"), std::string::npos)
        << outcome.err;
  }
  EXPECT_FALSE(fs::exists(path("models/r.onnx")));
  EXPECT_EQ(run_words("rewrite --allow-external " + rewrite).code, kSuccess);
  fs::remove(path("models/data"));
  fs::create_directory_symlink("../models", path("models/data"));
  EXPECT_EQ(run_words("info " + path("models/m.onnx")).code, kSuccess) << "a link within the folder";
}

}  // namespace
}  // namespace remora::cli
