// SPDX-License-Identifier: Apache-2.0
//
// The examples of docs/reference/formats.md are what the readers accept.
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "tests/frontends/formats/samples.hpp"

namespace remora::json {
namespace {

/// The contents of the ```json blocks.
std::vector<std::string> json_blocks(const std::string& page) {
  const std::string opening = "```json\n";
  std::vector<std::string> blocks;
  for (std::size_t begin = page.find(opening); begin != std::string::npos; begin = page.find(opening, begin)) {
    begin += opening.size();
    blocks.push_back(page.substr(begin, page.find("```", begin) - begin));
  }
  return blocks;
}

/// The words of what stands between backticks, in lines and in blocks.
std::set<std::string> code_words(const std::string& page) {
  std::set<std::string> words;
  // Spans of one backtick or of three.
  const std::regex code("```([^`]+)```|`([^`]+)`");
  const std::regex word("[a-z_0-9]+");
  const std::sregex_iterator end;
  for (std::sregex_iterator span(page.begin(), page.end(), code); span != end; ++span) {
    const std::string text = span->str();
    for (std::sregex_iterator at(text.begin(), text.end(), word); at != end; ++at) words.insert(at->str());
  }
  return words;
}

/// The keys that a source reads or writes: the texts that the calls for it are given, and those in tables of keys.
std::set<std::string> keys_in(const std::string& source) {
  std::set<std::string> keys;
  const std::regex call(
      R"re((?:\.|->)(?:at|has|string|strings|integer|unsigned_integer|number|boolean|names|key|take|expect)\("([a-z_0-9]+)")re");
  const std::regex helper(
      R"re(\b(?:read|place|list|number_at|numbers_at|optional_at|string_at|bytes_at)\((?:\w+, )*"([a-z_0-9]+)")re");
  const std::regex table(R"re(\bk(?:\w*Keys|Columns)\b[^;]*?\{([^;]*);)re");
  const std::regex text("\"([a-z_0-9]+)\"");
  const std::sregex_iterator end;
  for (const std::regex& pattern : {call, helper}) {
    for (std::sregex_iterator at(source.begin(), source.end(), pattern); at != end; ++at) keys.insert((*at)[1]);
  }
  for (std::sregex_iterator at(source.begin(), source.end(), table); at != end; ++at) {
    const std::string rows = (*at)[1];
    for (std::sregex_iterator key(rows.begin(), rows.end(), text); key != end; ++key) keys.insert((*key)[1]);
  }
  return keys;
}

TEST(FormatsPage, ListsEveryKeyOfEveryReaderAndWriter) {
  std::set<std::string> words;
  for (const char* page : {"reference/formats", "guide/sweep", "guide/rewrite", "guide/pipeline", "guide/batch",
                           "guide/place", "guide/onnx"}) {
    words.merge(code_words(read_file(std::string(REMORA_SOURCE_DIR "/docs/") + page + ".md")));
  }
  std::set<std::string> keys;
  for (const char* folder : {"formats", "batch", "machine", "onnx/read", "onnx/write"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(REMORA_SOURCE_DIR "/frontends/") + folder)) {
      for (const std::string& key : keys_in(read_file(entry.path().string()))) {
        keys.insert(key);
        EXPECT_TRUE(words.contains(key)) << key << " of " << entry.path().filename();
      }
    }
  }
  // The scan itself: keys of each dialect, by each kind of pattern.
  for (const char* key :
       {"recompute_allocates", "buffer_id", "found_under", "launch", "runs", "model_sha256", "workspace_offset"}) {
    EXPECT_TRUE(keys.contains(key)) << key;
  }
}

TEST(FormatsPage, ShowsAGraphAndItsSchedule) {
  const std::vector<std::string> blocks = json_blocks(read_file(REMORA_SOURCE_DIR "/docs/reference/formats.md"));
  ASSERT_EQ(blocks.size(), 7U);
  const Graph graph = read_graph(Text(blocks[0]));
  EXPECT_EQ(graph, read_graph(Text(kFigure1)));
  const Schedule schedule = read_schedule(Text(blocks[1]), graph);
  EXPECT_EQ(schedule.graph, graph.name);
  EXPECT_EQ(schedule.steps.size(), 6U);
  EXPECT_EQ(schedule.overhead(), 0.2);
  EXPECT_EQ(read_graph(Text(blocks[2])).recompute_allocates, Allocation::all);
  const DeviceGraph devices = read_device_graph(Text(blocks[3]));
  const DeviceVerdict verdict = verify(devices, read_schedule(Text(blocks[4]), devices));
  EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
  EXPECT_TRUE(has_lanes(read_device_graph(Text(blocks[5]))));
  EXPECT_EQ(read_graph(Text(blocks[6])).ops[0].axes.size(), 3U);
}

}  // namespace
}  // namespace remora::json
