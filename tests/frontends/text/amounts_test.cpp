// SPDX-License-Identifier: Apache-2.0
#include <locale>
#include <ostream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "frontends/text/text.hpp"

namespace remora::text {
namespace {

TEST(Texts, AreShortAndExact) {
  EXPECT_EQ(bytes_text(Bytes(1023)), "1023 B");
  EXPECT_EQ(bytes_text(Bytes(3) + Bytes(3LL << 30)), "3.00 GiB");
  EXPECT_EQ(exact_bytes_text(Bytes(1536)), "1.50 KiB (1536 bytes)");
  EXPECT_EQ(exact_bytes_text(Bytes(1)), "1 B (1 byte)");
  EXPECT_EQ(budget_text(Bytes(1), Bytes(0), Bytes(4)), "1 B (1 byte, 25.0 % of the peak)");
  EXPECT_EQ(duration_text(Duration(1234567), "ns"), "1.23 ms");
  EXPECT_EQ(duration_text(Duration(1234567), "flop"), "1,234,567 flop");
  EXPECT_EQ(duration_text(Duration(12), ""), "12");
  EXPECT_EQ(duration_text(Duration(1000), "operation"), "1,000 operations");
  EXPECT_EQ(duration_text(Duration(1), "operation"), "1 operation");
  EXPECT_EQ(percent_text(0.0213), "2.13 %");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(grouped(-123), "-123");
}

TEST(Texts, OfABudgetLeaveFixedMemoryOut) {
  EXPECT_EQ(part_of_peak_text(Bytes(60), Bytes(0), Bytes(100)), "60.0 % of the peak");
  EXPECT_EQ(part_of_peak_text(Bytes(1600), Bytes(1000), Bytes(2000)), "1000 B fixed + 60.0 % of the rest of the peak");
  EXPECT_EQ(part_of_peak_text(Bytes(900), Bytes(1000), Bytes(2000)), "100 B less than the fixed memory of 1000 B");
}

/// The global locale of C++ while one lives: "1.234.567,50", as in German.
class GermanNumbers {
 public:
  GermanNumbers() : before_(std::locale::global(std::locale(std::locale(), new Commas))) {}
  ~GermanNumbers() { std::locale::global(before_); }
  GermanNumbers(const GermanNumbers&) = delete;
  GermanNumbers& operator=(const GermanNumbers&) = delete;

 private:
  struct Commas : std::numpunct<char> {
    [[nodiscard]] char do_decimal_point() const override { return ','; }
    [[nodiscard]] char do_thousands_sep() const override { return '.'; }
    [[nodiscard]] std::string do_grouping() const override { return "\3"; }
  };
  std::locale before_;
};

TEST(Texts, KeepTheirNumbersInEveryLocale) {
  const GermanNumbers german;
  EXPECT_EQ((std::ostringstream() << 1234567.5).str(), "1,23457e+06") << "the locale is another one";
  EXPECT_EQ(written([](std::ostream& out) { out << 1234567 << ' ' << 0.5; }), "1234567 0.5");
  EXPECT_EQ(fixed(1234567.125, 2), "1234567.12");
  EXPECT_EQ(fixed(-0.4, 0), "-0");
  EXPECT_EQ(fixed(1e308, 1).size(), 311U);
  EXPECT_EQ(percent_text(0.0213), "2.13 %");
  EXPECT_EQ(bytes_text(Bytes(3LL << 29)), "1.50 GiB");
}

TEST(Texts, AreWrappedBetweenWords) {
  EXPECT_EQ(wrapped("one two  three\nfour", 0, 2, 9), "one two\n  three\n  four");
  EXPECT_EQ(wrapped("one two", 6, 4, 9), "one\n    two") << "the line has begun already";
  EXPECT_EQ(wrapped("unbreakable", 0, 0, 4), "unbreakable");
  EXPECT_EQ(wrapped("", 0, 0, 4), "");
}

}  // namespace
}  // namespace remora::text
