// SPDX-License-Identifier: Apache-2.0
//
// remora_zoo's command line, and the models kept in tests/data/onnx, which its README's commands make.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "examples/zoo/command_line.hpp"
#include "tests/examples/zoo_model.hpp"

namespace remora::zoo {

namespace {

namespace fs = std::filesystem;

/// A directory that is gone when the test is over.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_(fs::temp_directory_path() / ("zoo_test_" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { fs::remove_all(path_); }

  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// What the arguments print.
std::string run_line(const std::string& line) {
  std::ostringstream out;
  std::ostringstream log;
  run(words_of(line), out, log);
  return out.str() + log.str();
}

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

/// The one line that a usage error says; empty if there is none.
std::string usage_error(const std::string& line) {
  try {
    run_line(line);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(ZooCommand, WritesWhatItSays) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("unet.onnx");
  const std::string said = run_line("unet --batch 8 --size 128 -o " + path);
  EXPECT_NE(said.find(path + ": unet, 31,030,658 parameters in "), std::string::npos) << said;
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(read_bytes(path)));
  EXPECT_EQ(stated_output_shapes(model), std::vector<std::string>{"8x2x128x128"});
  const auto& metadata = model.metadata_props();
  const auto has_size = [](const auto& entry) { return entry.key() == "zoo.size" && entry.value() == "128"; };
  EXPECT_TRUE(std::any_of(metadata.begin(), metadata.end(), has_size));
}

TEST(ZooCommand, ListsAndHelpsWithEveryParameterAndDefault) {
  const std::string list = run_line("--list");
  const std::string help = run_line("--help");
  for (const Architecture& architecture : architectures()) {
    EXPECT_NE(list.find(architecture.name + " "), std::string::npos);
    const std::string own_help = run_line(architecture.name + " --help");
    for (const Parameter& parameter : architecture.parameters) {
      const std::string row = "--" + parameter.name + " " + domain_text(parameter) + " (=" + default_text(parameter);
      EXPECT_NE(help.find(row), std::string::npos) << row;
      EXPECT_NE(own_help.find(row), std::string::npos) << row;
    }
  }
}

TEST(ZooCommand, RefusesBadUsageInOneLine) {
  for (const std::string line : {"",
                                 "--batch 3",
                                 "lenet",
                                 "unet extra",
                                 "unet --siz 64",
                                 "unet --depth 3",
                                 "unet --size",
                                 "unet --size 0",
                                 "unet --size x",
                                 "unet --size 64x",
                                 "unet --size -64",
                                 "unet --size 99999999999999999999",
                                 "unet --size 1e3",
                                 "unet --padding full",
                                 "unet --batch 0",
                                 "unet --batch 2 --symbolic-batch",
                                 "unet --size 64 --size 32",
                                 "regnet --depths 2,6,15",
                                 "regnet --depths 2,6,15,2,1",
                                 "regnet --depths 2,6,15,",
                                 "regnet --depths 2,6,,2",
                                 "regnet --depths 2,6,0,2",
                                 "regnet --widths 96,192,432,1000",
                                 "gpt2 --heads 5",
                                 "mlp-mixer --size 100",
                                 "transformer --width 24 --heads 16",
                                 "vgg16 unet"}) {
    const std::string error = usage_error(line);
    EXPECT_FALSE(error.empty()) << line;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(ZooCommand, ExitsWithTheCodesItDocuments) {
  const auto exit_code = [](const std::string& line) {
    const int status = std::system((std::string(ZOO_PROGRAM " ") + line + " >/dev/null 2>&1").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(exit_code("--help"), 0);
  EXPECT_EQ(exit_code("unet -o -"), 0);
  EXPECT_EQ(exit_code("unet --size 250 -o -"), 64);
  EXPECT_EQ(exit_code("unet -o /nowhere/unet.onnx"), 65);
}

TEST(ZooData, IsWhatTheReadmesCommandsMake) {
  const TemporaryDirectory directory;
  std::istringstream readme(read_bytes(ZOO_DATA "/README.md"));
  int models = 0;
  for (std::string line; std::getline(readme, line);) {
    std::vector<std::string> words = words_of(line);
    if (words.empty() || words.front() != "remora_zoo") continue;
    ASSERT_EQ(words[words.size() - 2], "-o") << line;
    const std::string name = words.back();
    words.back() = directory.file(name);
    std::ostringstream log;
    run(std::span(words).subspan(1), log, log);
    const std::string kept = read_bytes(std::string(ZOO_DATA "/") + name);
    EXPECT_TRUE(kept == read_bytes(words.back())) << name << " differs: make it again with\n" << line;
    EXPECT_LT(kept.size(), 60'000U);
    ++models;
  }
  EXPECT_GE(models, 3);
}

TEST(ZooBuilder, RefusesTwoTensorsOfOneName) {
  GraphBuilder graph("net");
  graph.weight("w", {2, 3});
  EXPECT_EQ(graph.parameter_count(), 6);
  EXPECT_THROW(graph.weight("w", {2, 3}), std::logic_error);
  const auto scope = graph.scope("inner");
  EXPECT_EQ(graph.weight("w", {2}).name, "inner/w");
}

}  // namespace

}  // namespace remora::zoo
