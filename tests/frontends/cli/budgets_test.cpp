// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "frontends/cli/reading/arguments.hpp"
#include "frontends/cli/reading/solve_options.hpp"

namespace remora::cli {
namespace {

TEST(ParseBudget, ReadsBytesWithAndWithoutUnits) {
  const auto parse = [](const char* text) { return read_budget(text, Bytes(0), Bytes(100)).count(); };
  EXPECT_EQ(parse("123456"), 123456);
  EXPECT_EQ(parse("12GiB"), 12LL << 30);
  EXPECT_EQ(parse("1.5 KiB"), 1536);
  EXPECT_EQ(parse("2MB"), 2000000);
  EXPECT_EQ(parse("0"), 0);
  EXPECT_EQ(parse("0.3B"), 0);
  EXPECT_EQ(parse("9223372036854775807"), INT64_MAX);
}

TEST(ParseBudget, APercentageIsOfThePeakAboveFixedMemoryRoundedDown) {
  EXPECT_EQ(read_budget("80%", Bytes(0), Bytes(46319)), Bytes(37055));
  EXPECT_EQ(read_budget("80%", Bytes(1000), Bytes(1010)), Bytes(1008));
  EXPECT_EQ(read_budget("62.5%", Bytes(0), Bytes(1001)), Bytes(625));
  EXPECT_EQ(read_budget("56.99999999999999%", Bytes(0), Bytes(1000)), Bytes(569));
  EXPECT_EQ(read_budget("0%", Bytes(3), Bytes(1000)), Bytes(3));
  EXPECT_EQ(read_budget("100%", Bytes(7), Bytes(9'000'000'000'000'000'000)), Bytes(9'000'000'000'000'000'000));
}

TEST(ParseBudget, RefusesWhatItCannotRead) {
  for (const char* text : {"", "GiB", "-5", "80 %%", "1e9", "12Gibi", "1.2.3", "99999999999999999999",
                           "9223372036854775808", "9000000TiB", "3P", "99999999999%"}) {
    EXPECT_THROW(read_budget(text, Bytes(0), Bytes(100)), UsageError) << text;
  }
}

}  // namespace
}  // namespace remora::cli
