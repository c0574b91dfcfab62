// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "engine/ask/outcomes.hpp"

namespace remora {
namespace {

CurvePoint point(std::int64_t budget, std::int64_t duration) {
  return {.budget = Bytes(budget),
          .status = duration > 0 ? Status::feasible : Status::unknown,
          .duration = Duration(duration),
          .peak_memory = Bytes(budget)};
}

TEST(NextBudget, IsTheMiddleOfTheLargestRectangle) {
  const std::vector<CurvePoint> points{point(10, 200), point(20, 150), point(60, 140), point(100, 100)};
  EXPECT_EQ(next_budget(points, Bytes(0)), Bytes(80));
  EXPECT_EQ(next_budget(points, Bytes(40)), std::nullopt);
}

TEST(NextBudget, LooksBesideAPointWithoutASchedule) {
  const std::vector<CurvePoint> points{point(10, 0), point(90, 110), point(100, 100)};
  EXPECT_EQ(next_budget(points, Bytes(1)), Bytes(50));
}

TEST(NextBudget, IsNoneWhereNeighboursAgree) {
  EXPECT_EQ(next_budget(std::vector<CurvePoint>{point(10, 100), point(100, 100)}, Bytes(1)), std::nullopt);
  EXPECT_EQ(next_budget(std::vector<CurvePoint>{point(10, 0), point(100, 0)}, Bytes(1)), std::nullopt);
  EXPECT_EQ(next_budget(std::vector<CurvePoint>{point(10, 120), point(11, 100)}, Bytes(0)), std::nullopt);
}

}  // namespace
}  // namespace remora
