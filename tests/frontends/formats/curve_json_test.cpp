// SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "frontends/formats/json.hpp"
#include "model/error.hpp"
#include "tests/support/refusal.hpp"

namespace remora::json {
namespace {

Curve full_curve() {
  Curve curve{.graph = "g \"1\"",
              .graph_sha256 = std::string(64, 'b'),
              .order = OrderMode::input,
              .max_computes = 2,
              .fixed_memory = Bytes(5),
              .baseline_duration = Duration(100),
              .baseline_peak_memory = Bytes(45),
              .least_budget = Bytes(12)};
  curve.points = {{.budget = Bytes(15), .status = Status::infeasible, .lower_bound = Duration(150), .seconds = 0.25},
                  {.budget = Bytes(20),
                   .status = Status::feasible,
                   .duration = Duration(140),
                   .peak_memory = Bytes(19),
                   .lower_bound = Duration(130),
                   .seconds = 1.5,
                   .found_under = Bytes(20),
                   .schedule_file = "curve-schedules/20.json"},
                  {.budget = Bytes(30),
                   .status = Status::optimal,
                   .duration = Duration(110),
                   .peak_memory = Bytes(28),
                   .lower_bound = Duration(110),
                   .found_under = Bytes(30)}};
  curve.knee = 2;
  curve.seconds = 2.5;
  return curve;
}

std::string text_of(const Curve& curve) {
  std::ostringstream out;
  write_curve(out, curve);
  return out.str();
}

std::string replaced_text(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string curve_fault(const std::string& text) {
  return remora::test::refusal_of([&] { static_cast<void>(read_curve(Text(text))); }, "none");
}

TEST(CurveJson, PutsAPointALineWithWhatFollows) {
  const std::string text = text_of(full_curve());
  EXPECT_NE(text.find("\n    {\"budget\": 20, \"part\": 0.375, \"status\": \"feasible\", \"duration\": 140, "
                      "\"overhead\": 0.4, \"peak_memory\": 19, \"found_under\": 20, \"lower_bound\": 130, "
                      "\"seconds\": 1.5, \"schedule\": \"curve-schedules/20.json\"},\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\"smallest_feasible\": 20"), std::string::npos);
  EXPECT_NE(text.find("\"knee\": 30"), std::string::npos);
}

TEST(CurveJson, RefusesWhatIsNoCurve) {
  const std::string text = text_of(full_curve());
  EXPECT_EQ(curve_fault(replaced_text(text, "\"knee\": 30", "\"knee\": 31")),
            "$.knee: must be the budget of a point with a schedule");
  EXPECT_EQ(curve_fault(replaced_text(text, "\"budget\": 15", "\"budget\": 20")),
            "$.points[1]: its budget is not above that of the point before it");
  EXPECT_EQ(curve_fault(replaced_text(text, "\"duration\": 140", "\"duration\": 139")), "none");
  EXPECT_EQ(curve_fault(replaced_text(text, "\"lower_bound\": 130", "\"lower_bound\": 105")),
            "$.points[2]: its lower_bound is above that of a smaller budget");
  // With more computes another problem.
  const std::string wider = replaced_text(text, "\"lower_bound\": 130", "\"lower_bound\": 105, \"max_computes\": 3");
  EXPECT_EQ(curve_fault(wider), "none");
  EXPECT_EQ(json::read_curve(json::Text(wider)).points[1].max_computes, 3);
  EXPECT_EQ(curve_fault(replaced_text(text, "\"lower_bound\": 130", "\"lower_bound\": 141")),
            "$.points[1]: its lower_bound is above its duration");
  EXPECT_EQ(curve_fault(replaced_text(text, "\"duration\": 110", "\"duration\": 111")),
            "$.points[2]: its status does not fit its lower_bound");
  EXPECT_EQ(curve_fault(replaced_text(text, "\"optimal\"", "\"unknown\"")),
            "$.points[2]: it has no schedule, though a smaller budget has one");
  EXPECT_EQ(curve_fault(replaced_text(text, "\"peak_memory\": 19", "\"peak_memory\": 21")),
            "$.points[1]: its peak_memory is above its budget");
  EXPECT_NE(curve_fault(replaced_text(text, "remora-curve", "remora-schedule")), "none");
}

TEST(CurveJson, IsToldByItsFormat) {
  EXPECT_TRUE(is_curve(Text(text_of(full_curve()))));
  EXPECT_FALSE(is_curve(Text("{\"format\": \"remora-schedule\"}")));
  EXPECT_FALSE(is_curve(Text("[]")));
  EXPECT_THROW(static_cast<void>(is_curve(Text("{"))), InputError);
}

}  // namespace
}  // namespace remora::json
