// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <sstream>

#include <gtest/gtest.h>

#include "frontends/report/figures.hpp"

namespace remora::report {
namespace {

TEST(CurveCsv, WritesExactAmountsAndLeavesEmptyWhatThereIsNot) {
  const std::int64_t large = std::int64_t{1} << 60;
  Curve curve{.baseline_duration = Duration(large), .baseline_peak_memory = Bytes(large)};
  curve.points = {{.budget = Bytes(large / 8), .lower_bound = Duration(large / 8 * 9), .seconds = 0.1},
                  {.budget = Bytes(large / 2),
                   .status = Status::feasible,
                   .duration = Duration(large / 4 * 5 + 1),
                   .peak_memory = Bytes(large / 2 - 1),
                   .lower_bound = Duration(large),
                   .found_under = Bytes(7),
                   .schedule_file = "s,1.json"},
                  {.budget = Bytes(large),
                   .status = Status::optimal,
                   .duration = Duration(large),
                   .peak_memory = Bytes(8),
                   .lower_bound = Duration(large),
                   .found_under = Bytes(8)}};
  curve.knee = 1;
  std::ostringstream out;
  write_curve_csv(out, curve);
  EXPECT_EQ(out.str(),
            "budget,part,status,duration,overhead,peak_memory,lower_bound,least_overhead,found_under,seconds,mark,"
            "schedule\n"
            "144115188075855872,0.125,unknown,,,,1297036692682702848,0.125,,0.1,,\n"
            "576460752303423488,0.5,feasible,1441151880758558721,0.25,576460752303423487,1152921504606846976,0.0,7,0.0,"
            "knee smallest,\"s,1.json\"\n"
            "1152921504606846976,1.0,optimal,1152921504606846976,0.0,8,1152921504606846976,0.0,8,0.0,,\n");
}

}  // namespace
}  // namespace remora::report
