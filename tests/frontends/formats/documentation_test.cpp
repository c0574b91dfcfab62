// SPDX-License-Identifier: Apache-2.0
//
// The examples of docs/formats.md are what the readers accept.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/formats/device_json.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/graph_json.hpp"
#include "frontends/formats/schedule_json.hpp"
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

TEST(FormatsPage, ShowsAGraphAndItsSchedule) {
  const std::vector<std::string> blocks = json_blocks(read_file(REMORA_SOURCE_DIR "/docs/formats.md"));
  ASSERT_EQ(blocks.size(), 5U);
  const Graph graph = read_graph(Text(blocks[0]));
  EXPECT_EQ(graph, read_graph(Text(kFigure1)));
  const Schedule schedule = read_schedule(Text(blocks[1]), graph);
  EXPECT_EQ(schedule.graph, graph.name);
  EXPECT_EQ(schedule.steps.size(), 6U);
  EXPECT_EQ(schedule.overhead(), 0.2);
  EXPECT_EQ(read_graph(Text(blocks[2])).recompute_allocates, Allocation::all);
  const DeviceGraph devices = read_device_graph(Text(blocks[3]));
  const DeviceVerdict verdict = verify(devices, read_device_schedule(Text(blocks[4]), devices));
  EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
}

}  // namespace
}  // namespace remora::json
