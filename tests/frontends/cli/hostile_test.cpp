// SPDX-License-Identifier: Apache-2.0
//
// Files that are made to do harm end with one line and exit 65, in little memory: the program runs under a limit here.
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
using onnx_frontend::test::ModelBuilder;
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

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  all.reserve(text.size() * times);
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7U) bytes += static_cast<char>(number | 0x80U);
  return bytes + static_cast<char>(number);
}

/// A field of bytes.
std::string field(int number, const std::string& payload) {
  return varint(static_cast<std::uint64_t>(number) << 3U | 2U) + varint(payload.size()) + payload;
}

TEST_F(HostileFiles, JsonThatIsDeepOrPromisesMuch) {
  constexpr std::size_t kMany = 3'000'000;
  write("deep.json", R"({"format": "remora-graph", "meta": )" + repeated("[", kMany));
  expect_refused("info " + path("deep.json"), "nested deeper than");
  write("objects.json", repeated(R"({"a":)", kMany));
  expect_refused("info " + path("objects.json"), "nested deeper than");
  write("name.json", R"({"format": "remora-graph", "version": 1, "name": ")" + std::string(kMany, 'x'));
  expect_refused("info " + path("name.json"), "the text ends too early");
  const std::string begin =
      R"({"format": "remora-graph", "version": 1, "name": "n", "tensors": [{"name": "a", "size": )";
  const std::string end =
      R"(}], "ops": [{"name": "A", "duration": 1, "inputs": [], "outputs": ["a"], "max_computes": 4000000000}]})";
  write("computes.json", begin + "1" + end);
  expect_refused("info " + path("computes.json"), "$.ops[0].max_computes");
  write("size.json", begin + "9223372036854775808" + end);
  expect_refused("info " + path("size.json"), "$.tensors[0].size");
  write("header.txt", "p remat2\nnode 2000000000 deps 1999999999\n");
  expect_refused("info " + path("header.txt"), "header.txt");
}

TEST_F(HostileFiles, ModelsThatPromiseMoreThanTheyHold) {
  ModelBuilder huge;
  huge.input("x", {extent(INT64_MAX), extent(INT64_MAX)}).node("Relu", {"x"}, {"y"}, "A").output("y");
  write("dims.onnx", huge.bytes());
  expect_refused("info " + path("dims.onnx"), "more than 2^62 elements");
  // A constant that would take 8 TiB is never made; nor is one of which only the length is written.
  ModelBuilder fill;
  fill.integers("shape", {1 << 20, 1 << 20}).node("ConstantOfShape", {"shape"}, {"c"}, "C");
  fill.input("x", {extent(1)}).node("Add", {"x", "c"}, {"y"}, "A").output("y");
  write("fill.onnx", fill.bytes());
  EXPECT_EQ(run("info " + path("fill.onnx")).code, kSuccess) << read("err.txt");
  const std::string begun = ModelBuilder().bytes();
  write("promise.onnx", begun + varint(7U << 3U | 2U) + varint(2'000'000'000) + "x");
  expect_refused("info " + path("promise.onnx"), "truncated or damaged");
}

/// Recurrent ops of old opsets, of vectors and scalars (schema_guards_test.cpp has more).
TEST_F(HostileFiles, NodesThatTheOnnxLibraryCrashesOf) {
  for (const auto& entry : fs::directory_iterator(REMORA_SOURCE_DIR "/tests/data/onnx/recurrent")) {
    for (const std::string command : {"info ", "solve --budget 50% ", "convert --training "}) {
      expect_refused(command + entry.path().string(), "must have 3 axes");
    }
  }
}

TEST_F(HostileFiles, ModelsOfMillionsOfEmptyParts) {
  const std::string version = std::string("\x08\x08", 2);
  write("nodes.onnx", version + field(7, repeated(field(1, ""), 8'000'000)));
  expect_refused("info " + path("nodes.onnx"), "more parts than a model");
  write("names.onnx", version + field(7, field(1, repeated(field(1, ""), 8'000'000))));
  expect_refused("info " + path("names.onnx"), "more parts than a model");
  // A graph in an attribute of a node of a graph in ...
  std::string deep;
  for (int i = 0; i < 5'000; ++i) deep = field(1, field(5, field(6, deep)));
  write("deep.onnx", version + field(7, deep));
  expect_refused("info " + path("deep.onnx"), "deep.onnx");
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

TEST_F(HostileFiles, NamesThatAreNotUtf8AreTakenAsTheyAre) {
  const std::string name = path("caf\xe9 \xff.json");
  ASSERT_EQ(run("generate layered --ops 5 --seed 1 -o '" + name + "'").code, kSuccess) << read("err.txt");
  EXPECT_EQ(run("solve '" + name + "' -b 100% -q -o '" + name + ".s'").code, kSuccess) << read("err.txt");
  EXPECT_EQ(run("verify '" + name + "' '" + name + ".s'").code, kSuccess) << read("err.txt");
  EXPECT_EQ(run("report '" + name + "' '" + name + ".s' -o '" + name + ".html'").code, kSuccess) << read("err.txt");
  fs::permissions(name, fs::perms::none);
  fs::remove(name);
  const Outcome gone = run("info '" + name + "'");
  EXPECT_EQ(gone.code, kBadInput);
  EXPECT_NE(gone.err.find("No such file"), std::string::npos) << gone.err;
}

TEST_F(HostileFiles, NamesWithControlCharactersChangeNoTerminal) {
  const Outcome gone = run("info '" + path("two\nlines\x1b[31m.json") + "'");
  EXPECT_EQ(gone.code, kBadInput);
  EXPECT_EQ(std::count(gone.err.begin(), gone.err.end(), '\n'), 1) << gone.err;
  EXPECT_NE(gone.err.find("two\\x0alines\\x1b[31m.json"), std::string::npos) << gone.err;
  const std::string name = R"(\u001b[31m\u0000\n)";
  write("g.json", R"({"format": "remora-graph", "version": 1, "name": ")" + name + R"(", "tensors": [{"name": ")" +
                      name + R"(", "size": 1}], "ops": [{"name": ")" + name +
                      R"(", "duration": 1, "inputs": [], "outputs": [")" + name + R"("]}]})");
  for (const char* const command : {"info", "info --partition", "solve -b 1B --time-limit 9 -o /dev/null", "order",
                                    "sweep --work-limit 9 -o /dev/null"}) {
    const std::string words = std::string(command) + " " + path("g.json");
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, kSuccess) << words << ": " << outcome.err;
    for (const std::string& text : {outcome.out, outcome.err}) {
      EXPECT_EQ(text.find('\x1b'), std::string::npos) << words << ": " << text;
      EXPECT_EQ(text.find('\0'), std::string::npos) << words << ": " << text;
    }
  }
}

TEST_F(HostileFiles, EmptyWordsAreNoValues) {
  write("g.json", "{}");
  write("tasks.jsonl", "");
  for (const std::string& words :
       {std::string("info ''"), "solve " + path("g.json") + " ''", "solve " + path("g.json") + " -b ''",
        "solve " + path("g.json") + " --output ''", "batch " + path("tasks.jsonl") + " -o ''",
        "batch " + path("tasks.jsonl") + " --warm-start '' -o " + path("out"), std::string("merge ''")}) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, kUsage) << words << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(": is empty\n"), std::string::npos) << words << ": " << outcome.err;
  }
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(HostileFiles, FilesThatNeverEndAreNotReadForEver) {
  // 512 MiB are less than the quarter of a machine's memory that is read at most.
  for (const std::string& words :
       {std::string("info /dev/zero"), std::string("solve /dev/zero -b 1B"), "batch /dev/zero -o " + path("out")}) {
    const Outcome outcome = run(words);
    EXPECT_TRUE(outcome.code == kInternalError || outcome.code == kBadInput) << words << ": " << outcome.code;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST_F(HostileFiles, AClosedStreamsNumberIsNoFiles) {
  ASSERT_EQ(run("generate layered --ops 5 --seed 1 -o " + path("g.json")).code, kSuccess);
  const auto code_of = [&](const std::string& words, const std::string& closed) {
    const int status = std::system(("'" REMORA_PROGRAM "' " + words + " " + closed).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(code_of("info " + path("g.json"), ">&- 2>&-"), kBadInput) << "nowhere to write to";
  EXPECT_EQ(code_of("info -", "<&- 2>&-"), kBadInput) << "nowhere to read from";
  EXPECT_EQ(code_of("solve " + path("g.json") + " -b 100% -o " + path("s.json"), "<&- >&- 2>&-"), kSuccess);
  EXPECT_EQ(run("verify " + path("g.json") + " " + path("s.json")).code, kSuccess) << read("s.json");
  // That the numbers are taken shows where they are named.
  EXPECT_EQ(code_of("convert " + path("g.json") + " -o /proc/self/fd/2", "2>&-"), kSuccess);
}

TEST_F(HostileFiles, LeftoversOfAKilledRunGoWithTheNext) {
  write(".remora-123-0", "half a schedule");
  ASSERT_EQ(run("generate layered --ops 5 --seed 1 -o " + path("g.json")).code, kSuccess);
  EXPECT_FALSE(fs::exists(path(".remora-123-0")));
}

TEST_F(HostileFiles, MemoryThatRunsOutIsToldInALine) {
  write("g.json", std::string(20'000'000, ' ') + "{}");
  for (const auto& [limit, code] : {std::pair{"1", kUsage}, {"80%", kUsage}, {"16MiB", kInternalError}}) {
    const std::string words = "info " + path("g.json") + " --memory-limit " + limit;
    const std::string command = "'" REMORA_PROGRAM "' " + words + " > /dev/null 2> '" + path("err.txt") + "'";
    const int status = std::system(command.c_str());
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, code) << words << ": " << read("err.txt");
    const std::string err = read("err.txt");
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
  }
  EXPECT_NE(read("err.txt").find("out of memory"), std::string::npos) << read("err.txt");
}

}  // namespace
}  // namespace remora::cli
