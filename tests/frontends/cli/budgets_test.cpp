// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ask/largest_fit.hpp"
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

std::vector<std::int64_t> budgets_of(const std::string& text) {
  std::vector<std::int64_t> budgets;
  for (const Bytes budget : read_budgets("--budgets", text, Bytes(100), Bytes(1100))) budgets.push_back(budget.count());
  return budgets;
}

TEST(ParseBudgets, ReadsRangesWithBothEnds) {
  EXPECT_EQ(budgets_of("100%:40%:20%"), (std::vector<std::int64_t>{1100, 900, 700, 500}));
  EXPECT_EQ(budgets_of("40%:100%:25%"), (std::vector<std::int64_t>{500, 750, 1000}));
  EXPECT_EQ(budgets_of("1KiB:0:256"), (std::vector<std::int64_t>{1024, 768, 512, 256, 0}));
  EXPECT_EQ(budgets_of("99.8%:99.5%:0.1%"), (std::vector<std::int64_t>{1098, 1097, 1096, 1095}));
  EXPECT_EQ(budgets_of("0.3%:0%:0.1%"), (std::vector<std::int64_t>{103, 102, 101, 100}));
  EXPECT_EQ(budgets_of("10737418239:0:10737418240"), (std::vector<std::int64_t>{10737418239}));
}

TEST(ParseBudgets, ReadsListsAndTakesEachBudgetOnce) {
  EXPECT_EQ(budgets_of("300,20%,400:300:50"), (std::vector<std::int64_t>{300, 400, 350}));
}

TEST(ParseBudgets, RefusesWhatItCannotRead) {
  for (const char* text :
       {"", "100%:40%", "100%:40%:0%", "100%:40:5%", "100%:40%:-5%", "90%,,80%", "1:9:0", "a:b:c", "100%:0%:0.001%"}) {
    EXPECT_THROW(budgets_of(text), UsageError) << text;
  }
}

std::optional<Fit> fit_up_to(std::int64_t largest, std::int64_t size, std::set<std::int64_t>& asked) {
  EXPECT_TRUE(asked.insert(size).second) << size << " asked twice";
  return size <= largest ? Fit::fits : Fit::impossible;
}

TEST(LargestFit, IsFoundInLogarithmicallyManyTrials) {
  for (const std::int64_t largest : {1, 2, 3, 7, 8, 9, 1000, 4097}) {
    std::set<std::int64_t> asked;
    const LargestFit answer =
        find_largest_fit(1 << 20, [&](std::int64_t size) { return fit_up_to(largest, size, asked); });
    EXPECT_EQ(answer.largest, largest);
    EXPECT_EQ(answer.next, largest + 1);
    EXPECT_LE(asked.size(), 26U);
  }
}

TEST(LargestFit, SaysWhatItKnowsAtTheEnds) {
  std::set<std::int64_t> asked;
  const LargestFit none = find_largest_fit(100, [&](std::int64_t size) { return fit_up_to(0, size, asked); });
  EXPECT_EQ(none.largest, std::nullopt);
  EXPECT_EQ(none.next, 1);
  asked.clear();
  const LargestFit all = find_largest_fit(100, [&](std::int64_t size) { return fit_up_to(500, size, asked); });
  EXPECT_EQ(all.largest, 100);
  EXPECT_EQ(all.next, std::nullopt);
  int trials = 0;
  const LargestFit cut =
      find_largest_fit(100, [&](std::int64_t) { return ++trials <= 3 ? std::optional<Fit>(Fit::fits) : std::nullopt; });
  EXPECT_EQ(cut.largest, 4);
  EXPECT_EQ(cut.next, std::nullopt);
}

}  // namespace
}  // namespace remora::cli
