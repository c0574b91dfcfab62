// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/generate/layered.hpp"
#include "tests/frontends/cli/run_words.hpp"

namespace remora::cli {
namespace {

using test::Outcome;

/// Runs `remora generate` with these words.
Outcome generate(const std::string& words) {
  return test::run_words("generate " + words);
}

TEST(GenerateCommand, WritesTheGraphOfItsFamily) {
  const auto graph = [](const std::string& words) { return json::read_graph(json::Text(generate(words).out)); };
  EXPECT_EQ(graph("layered --ops 1000 --edges 5875 --seed 3"),
            generate::generate_layered({.ops = 1000, .edges = 5875, .seed = 3}));
  EXPECT_EQ(graph("layered --width 0.4"), generate::generate_layered({.width = 0.4}));
}

TEST(GenerateCommand, WritesAFile) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("remora-generate-" + std::to_string(getpid()) + ".json")).string();
  const Outcome outcome = generate("layered -o " + path);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.out.empty());
  EXPECT_TRUE(outcome.err.empty());
  EXPECT_EQ(json::read_graph(json::Text(json::read_file(path))), generate::generate_layered({}));
  std::filesystem::remove(path);
}

TEST(GenerateCommand, HelpListsOptions) {
  for (const std::string words : {"--help", "layered --help"}) {
    const Outcome help = generate(words);
    EXPECT_EQ(help.code, 0);
    for (const char* text : {"usage: remora generate layered", "--output", "--ops", "--edges", "--width", "--seed",
                             "default 100", "2 to 200000"}) {
      EXPECT_NE(help.out.find(text), std::string::npos) << text;
    }
  }
}

TEST(GenerateCommand, BadUsageIsSixtyFourAndOneLine) {
  for (const char* words : {"", "dance", "--ops 5", "layered 5", "layered --ops", "layered --ops 1", "layered --ops x",
                            "layered --ops 1e3", "layered --ops 99999999999999999999", "layered --edges 90",
                            "layered --edges 5000", "layered --edges -1", "layered --width nan", "layered --width -1",
                            "layered --seed -1", "layered --layers 3", "chain", "checkmate --network unet"}) {
    const Outcome outcome = generate(words);
    EXPECT_EQ(outcome.code, 64) << words;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_TRUE(outcome.out.empty());
  }
}

TEST(GenerateCommand, AnUnwritableOutputIsSixtyFive) {
  const Outcome outcome = generate("layered -o /nowhere/layered.json");
  EXPECT_EQ(outcome.code, 65);
  EXPECT_NE(outcome.err.find("/nowhere/layered.json"), std::string::npos);
}

}  // namespace
}  // namespace remora::cli
