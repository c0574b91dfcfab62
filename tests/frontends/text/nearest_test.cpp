// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>

#include <gtest/gtest.h>

#include "frontends/text/text.hpp"

namespace remora::text {
namespace {

TEST(Nearest, IsWhatSomebodyMayHaveMeant) {
  const std::array<std::string, 4> words{"solve", "sweep", "verify", "batch"};
  EXPECT_EQ(nearest("slove", words), "solve");
  EXPECT_EQ(nearest("veriify", words), "verify");
  EXPECT_EQ(nearest("sweep", words), "sweep");
  EXPECT_EQ(nearest("btach", words), "batch");
  EXPECT_EQ(nearest("quux", words), "");
  // What it alone begins with, however much longer.
  const std::vector<std::string> options{"--dim", "--time-limit", "--threads"};
  EXPECT_EQ(nearest("--time", options), "--time-limit");
  EXPECT_EQ(nearest("--tim", options), "--time-limit");
  EXPECT_EQ(nearest("--t", options), "");
  EXPECT_EQ(nearest("", words), "");
  EXPECT_EQ(nearest(std::string(1000, 's'), words), "");
}

TEST(TerminalWidth, IsTheOtherOneWhereThereIsNoTerminal) {
  EXPECT_EQ(terminal_width(-1, 77), 77);
}

}  // namespace
}  // namespace remora::text
