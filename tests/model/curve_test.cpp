// SPDX-License-Identifier: Apache-2.0
#include "model/curve.hpp"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace remora {
namespace {

/// Points with the given durations (0: none) under budgets 10, 20, ...; one without fixed memory.
Curve curve_of(const std::vector<std::int64_t>& durations) {
  Curve curve{.baseline_duration = Duration(100), .baseline_peak_memory = Bytes(80)};
  for (const std::int64_t duration : durations) {
    const Bytes budget(10 * static_cast<std::int64_t>(curve.points.size() + 1));
    curve.points.push_back({.budget = budget,
                            .status = duration > 0 ? Status::feasible : Status::unknown,
                            .duration = Duration(duration),
                            .peak_memory = budget,
                            .lower_bound = Duration(100)});
  }
  return curve;
}

TEST(Curve, SmallestFeasibleIsTheFirstPointWithASchedule) {
  EXPECT_EQ(curve_of({0, 0, 120, 110}).smallest_feasible(), 2U);
  EXPECT_EQ(curve_of({0, 0}).smallest_feasible(), std::nullopt);
  EXPECT_EQ(curve_of({}).smallest_feasible(), std::nullopt);
}

TEST(Curve, OverheadsAreOfTheBaseline) {
  Curve curve = curve_of({0, 125});
  curve.points[1].lower_bound = Duration(120);
  EXPECT_DOUBLE_EQ(curve.overhead(curve.points[0]), 0);
  EXPECT_DOUBLE_EQ(curve.overhead(curve.points[1]), 0.25);
  EXPECT_DOUBLE_EQ(curve.least_overhead(curve.points[1]), 0.2);
  curve.baseline_duration = Duration(0);
  EXPECT_DOUBLE_EQ(curve.overhead(curve.points[1]), 0);
}

TEST(Curve, PartsAreOfWhatIsAboveFixedMemory) {
  Curve curve = curve_of({0});
  curve.fixed_memory = Bytes(40);
  EXPECT_DOUBLE_EQ(curve.part_of_baseline(Bytes(60)), 0.5);
  EXPECT_DOUBLE_EQ(curve.part_of_baseline(Bytes(80)), 1);
  curve.fixed_memory = Bytes(80);
  EXPECT_DOUBLE_EQ(curve.part_of_baseline(Bytes(80)), 1);
}

TEST(FindKnee, IsWhereTheCurveBendsMost) {
  EXPECT_EQ(find_knee(curve_of({200, 120, 110, 105, 100})), 1U);
  EXPECT_EQ(find_knee(curve_of({0, 0, 200, 190, 105, 100, 100})), 4U);
}

TEST(FindKnee, OfAStraightOrBulgingOrFlatCurveThereIsNone) {
  EXPECT_EQ(find_knee(curve_of({130, 120, 110})), std::nullopt);
  EXPECT_EQ(find_knee(curve_of({130, 129, 100})), std::nullopt);
  EXPECT_EQ(find_knee(curve_of({100, 100, 100})), std::nullopt);
  EXPECT_EQ(find_knee(curve_of({0, 130})), std::nullopt);
  EXPECT_EQ(find_knee(curve_of({0, 0})), std::nullopt);
}

}  // namespace
}  // namespace remora
