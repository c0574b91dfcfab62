// SPDX-License-Identifier: Apache-2.0
#include "model/budget.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/error.hpp"
#include "tests/support/refusal.hpp"

namespace remora {
namespace {

TEST(PartOfPeak, IsWhatTheBudgetsPercentageIs) {
  const Bytes fixed(100);
  const Bytes peak(1100);
  EXPECT_EQ(part_of_peak(parse_budget("62.5%", fixed, peak), fixed, peak), 0.625);
  EXPECT_EQ(part_of_peak(peak, fixed, peak), 1);
  EXPECT_EQ(part_of_peak(fixed, fixed, peak), 0);
  // Nothing but fixed memory: any order has all of it.
  EXPECT_EQ(part_of_peak(fixed, fixed, fixed), 1);
}

std::string error_of(const std::string& text, Bytes peak) {
  return remora::test::refusal_of([&] { static_cast<void>(parse_budget(text, Bytes(0), peak)); });
}

TEST(ParseBudget, TakesUnitsAsPeopleWriteThem) {
  const auto bytes = [](const char* text) { return parse_budget(text, Bytes(0), Bytes(0)).count(); };
  EXPECT_EQ(bytes("12G"), 12LL << 30);
  EXPECT_EQ(bytes("12g"), 12LL << 30);
  EXPECT_EQ(bytes("12GiB"), 12LL << 30);
  EXPECT_EQ(bytes("12gib"), 12LL << 30);
  EXPECT_EQ(bytes("12gb"), 12'000'000'000);
  EXPECT_EQ(bytes("1.5K"), 1536);
  EXPECT_EQ(bytes("7 b"), 7);
  for (const char* text : {"12P", "12GG", "12Gibi", "12i", "G", "-1"}) EXPECT_NE(error_of(text, Bytes(0)), "") << text;
}

TEST(ParseBudget, OfThePeakOrOfWhatIsAboveFixedMemory) {
  EXPECT_EQ(parse_budget("60%", Bytes(1000), Bytes(2000)), Bytes(1600));
  EXPECT_EQ(parse_budget("60%peak", Bytes(1000), Bytes(2000)), Bytes(1200));
}

TEST(ParseBudgets, TakesListsAndRanges) {
  const auto budgets = [](const char* text) { return parse_budgets(text, Bytes(100), Bytes(1100)); };
  EXPECT_EQ(budgets("100%:90%:5%"), (std::vector{Bytes(1100), Bytes(1050), Bytes(1000)}));
  EXPECT_EQ(budgets("1KiB,300:500:100,1024"), (std::vector{Bytes(1024), Bytes(300), Bytes(400), Bytes(500)}));
  for (const char* text : {"", "50%-90%", "90%:50%", "90%:100:10", "100%:50%:0%", "1000:2000:0", "1:2000000:1"}) {
    EXPECT_THROW(budgets(text), InputError) << text;
  }
}

TEST(ParseBudget, AsksWhetherAPercentageWasMeant) {
  const auto asks = [](const std::string& text, const std::string& percentage, Bytes peak) {
    EXPECT_EQ(error_of(text, peak), "'" + text + "' without a unit is bytes; did you mean " + percentage +
                                        "? (for bytes write " + text + "B)");
  };
  asks("80", "80%", Bytes(1 << 30));
  asks("80", "80%", Bytes(46'319));
  asks("100", "100%", Bytes(1001));
  asks("0.8", "80%", Bytes(1 << 30));
  asks("0.625", "62.5%", Bytes(10));
  asks("1.0", "100%", Bytes(10));
  asks("62.5", "62.5%", Bytes(100));
  // Small graphs have such budgets, and bytes can always be said.
  EXPECT_EQ(parse_budget("80", Bytes(0), Bytes(120)), Bytes(80));
  EXPECT_EQ(parse_budget("80", Bytes(0), Bytes(800)), Bytes(80));
  EXPECT_EQ(parse_budget("3", Bytes(0), Bytes(4)), Bytes(3));
  EXPECT_EQ(parse_budget("101", Bytes(0), Bytes(1 << 30)), Bytes(101));
  EXPECT_EQ(parse_budget("80B", Bytes(0), Bytes(1 << 30)), Bytes(80));
  EXPECT_EQ(parse_budget("0", Bytes(0), Bytes(1 << 30)), Bytes(0));
}

TEST(ParseBytes, AsksForTheUnitWhereNoPercentageCanBeMeant) {
  const auto error = [](const std::string& text, Bytes most) -> std::string {
    return remora::test::refusal_of([&] { static_cast<void>(parse_bytes(text, most)); });
  };
  EXPECT_EQ(parse_bytes("12G", Bytes(0)), Bytes(12LL << 30));
  EXPECT_EQ(parse_bytes("80", Bytes(800)), Bytes(80));
  EXPECT_EQ(parse_bytes("80B", Bytes(1 << 30)), Bytes(80));
  EXPECT_EQ(error("80", Bytes(1 << 30)),
            "'80' without a unit is bytes; name the unit (80GiB, 80MiB; for bytes write 80B)");
  EXPECT_EQ(error("80%", Bytes(100)), "'80%' is a percentage; expected bytes (123456, 12GiB, 12G, 1.5GB)");
  EXPECT_EQ(error("x", Bytes(100)), "'x' is not an amount of memory; expected bytes (123456, 12GiB, 12G, 1.5GB)");
  EXPECT_EQ(error("80P", Bytes(100)), "'80P' has an unknown unit; expected bytes (123456, 12GiB, 12G, 1.5GB)");
}

}  // namespace
}  // namespace remora
