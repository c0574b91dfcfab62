// SPDX-License-Identifier: Apache-2.0
#include "model/budget.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace remora
