// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "frontends/formats/document.hpp"
#include "frontends/formats/json.hpp"
#include "tests/frontends/formats/samples.hpp"
#include "tests/support/refusal.hpp"

namespace remora::json {
namespace {

/// Figure 1 in three units of memory: A B C D A E, with every field set.
Schedule full_schedule() {
  const auto step = [](int op, std::vector<int> freed) {
    Step result{.op = OpId(op), .free = {}};
    for (const int tensor : freed) result.free.emplace_back(tensor);
    return result;
  };
  Schedule schedule{.graph = "figure-1",
                    .graph_sha256 = std::string(64, 'a'),
                    .status = Status::optimal,
                    .order = OrderMode::free,
                    .budget = Bytes(3),
                    .duration = Duration(6),
                    .baseline_duration = Duration(5),
                    .peak_memory = Bytes(3),
                    .baseline_peak_memory = Bytes(4),
                    .lower_bound = Duration(6)};
  schedule.steps = {step(0, {}), step(1, {}), step(2, {0}), step(3, {1, 2}), step(0, {}), step(4, {0, 3})};
  schedule.certificate = Certificate{.op = OpId(3), .required = Bytes(9), .tensors = {TensorId(1), TensorId(2)}};
  schedule.solver = {.version = "0.1.0",
                     .seed = std::numeric_limits<std::uint64_t>::max(),
                     .threads = 2,
                     .max_computes = 3,
                     .time_limit = 60,
                     .work_limit = 1000,
                     .work = 17,
                     .seconds = 0.1,
                     .phase1_seconds = 1.0 / 3,
                     .phase2_seconds = 2e-9,
                     .reached_peak = Bytes(3),
                     .history = {{0.25, Duration(7), Bytes(3), "cp 0"}, {0.5, Duration(6), Bytes(3), "lns \"1\""}},
                     .statistics = {{"levels", 3}, {"compose", 0.125, Statistic::Unit::seconds}},
                     .options = {{"z", "1"}, {"a", "2"}}};
  return schedule;
}

std::string text_of(const Schedule& schedule, const Graph& graph) {
  std::ostringstream out;
  write_schedule(out, schedule, graph);
  return out.str();
}

/// The same with addresses.
Schedule placed_schedule() {
  Schedule schedule = full_schedule();
  const auto lies = [](int tensor, int offset) { return Arena::Offsets{{TensorId(tensor), Bytes(offset)}}; };
  schedule.arena = Arena{.size = Bytes(3),
                         .steps = {{.outputs = lies(0, 0)},
                                   {.outputs = lies(1, 1)},
                                   {.outputs = lies(2, 2), .workspace = Bytes(7)},
                                   {.outputs = lies(3, 0)},
                                   {.outputs = lies(0, 1)},
                                   {.outputs = lies(4, 2)}}};
  return schedule;
}

TEST(WriteSchedule, WithAddressesIsVersion2AndReadsBack) {
  const Graph graph = read_graph(Text(kFigure1));
  const std::string text = text_of(placed_schedule(), graph);
  EXPECT_NE(text.find("\"version\": 2"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("arena": {"alignment": 1, "size": 3, "inputs": {}})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"({"op": "C", "offsets": {"c": 2}, "workspace_offset": 7, "free": ["a"]})"), std::string::npos)
      << text;
  const Schedule again = read_schedule(Text(text), graph);
  EXPECT_EQ(again.arena, placed_schedule().arena);
  EXPECT_EQ(again.steps, placed_schedule().steps);
  EXPECT_FALSE(read_schedule(Text(text_of(full_schedule(), graph)), graph).arena);
}

TEST(WriteSchedule, InSeveralModesIsVersion4AndReadsBack) {
  const Graph graph = read_graph(Text(kFigure1));
  Schedule schedule = full_schedule();
  schedule.steps[2].mode = 3;
  const std::string text = text_of(schedule, graph);
  EXPECT_NE(text.find("\"version\": 4"), std::string::npos) << text;
  EXPECT_NE(text.find(R"({"op": "C", "mode": 3, "free": ["a"]})"), std::string::npos) << text;
  EXPECT_EQ(read_schedule(Text(text), graph).steps, schedule.steps);
  const auto refusal_of = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return remora::test::refusal_of([&] { static_cast<void>(read_schedule(Text(changed), graph)); }, "accepted");
  };
  EXPECT_EQ(refusal_of("\"mode\": 3", "\"mode\": -1"), "$.steps[2].mode: must not be negative, but is -1");
  EXPECT_EQ(refusal_of("\"mode\": 3", "\"mode\": 64"), "$.steps[2].mode: the number 64 is too large (at most 63)");
}

TEST(ReadSchedule, RefusesOffsetsThatAreNone) {
  const Graph graph = read_graph(Text(kFigure1));
  const std::string text = text_of(placed_schedule(), graph);
  const auto refusal_of = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return remora::test::refusal_of([&] { static_cast<void>(read_schedule(Text(changed), graph)); }, "accepted");
  };
  EXPECT_EQ(refusal_of(R"("offsets": {"c": 2})", R"("offsets": {"q": 2})"),
            R"($.steps[2].offsets.q: the graph "figure-1" has no tensor "q")");
  EXPECT_EQ(refusal_of(R"("offsets": {"c": 2})", R"("offsets": {"c": -2})"),
            "$.steps[2].offsets.c: must not be negative, but is -2");
  EXPECT_EQ(refusal_of(R"("alignment": 1)", R"("alignment": 0)"), "$.arena.alignment: must be at least 1, but is 0");
  EXPECT_EQ(refusal_of("\"version\": 2", "\"version\": 5"),
            "$.version: version 5 is not supported, only versions 1 to 4");
}

TEST(WriteSchedule, PutsAStepALine) {
  EXPECT_EQ(text_of(full_schedule(), read_graph(Text(kFigure1))), R"({
  "format": "remora-schedule",
  "version": 1,
  "graph": "figure-1",
  "graph_sha256": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  "status": "optimal",
  "order": "free",
  "budget": 3,
  "duration": 6,
  "baseline_duration": 5,
  "overhead": 0.2,
  "peak_memory": 3,
  "baseline_peak_memory": 4,
  "lower_bound": 6,
  "gap": 0.0,
  "steps": [
    {"op": "A", "free": []},
    {"op": "B", "free": []},
    {"op": "C", "free": ["a"]},
    {"op": "D", "free": ["b", "c"]},
    {"op": "A", "free": []},
    {"op": "E", "free": ["a", "d"]}
  ],
  "certificate": {"op": "D", "required": 9, "tensors": ["b", "c"]},
  "solver": {
    "version": "0.1.0",
    "seed": 18446744073709551615,
    "threads": 2,
    "limits": {"max_computes": 3, "seconds": 60.0, "work": 1000},
    "work": 17,
    "seconds": 0.1,
    "phases": {"feasibility": {"seconds": 0.3333333333333333, "reached_peak_memory": 3}, "duration": {"seconds": 2e-09}},
    "statistics": {"levels": 3.0, "compose_seconds": 0.125},
    "options": {"z": "1", "a": "2"},
    "history": [
      [0.25, 7, 3, "cp 0"],
      [0.5, 6, 3, "lns \"1\""]
    ]
  }
}
)");
}

TEST(ReadSchedule, KeepsForWhichNumberOfComputesItIsProved) {
  const Graph graph = read_graph(Text(kFigure1));
  Schedule schedule = full_schedule();
  EXPECT_EQ(text_of(schedule, graph).find("optimal_for"), std::string::npos);
  EXPECT_EQ(text_of(schedule, graph).find("bound_for_any"), std::string::npos);
  schedule.solver.bound_for_any_number = true;
  for (const auto& [number, word] : {std::pair{2, "2"}, std::pair{kAnyNumber, "null"}}) {
    schedule.solver.optimal_for_max_computes = number;
    const std::string text = text_of(schedule, graph);
    EXPECT_NE(text.find(std::string("\"optimal_for_max_computes\": ") + word + ","), std::string::npos) << text;
    EXPECT_EQ(read_schedule(Text(text), graph).solver.optimal_for_max_computes, number);
    EXPECT_TRUE(read_schedule(Text(text), graph).solver.bound_for_any_number);
  }
}

TEST(ReadSchedule, KeepsATimeLimitWithoutEnd) {
  const Graph graph = read_graph(Text(kFigure1));
  Schedule schedule = full_schedule();
  schedule.solver.time_limit = std::numeric_limits<double>::infinity();
  const std::string text = text_of(schedule, graph);
  EXPECT_NE(text.find("\"seconds\": null"), std::string::npos);
  EXPECT_EQ(read_schedule(Text(text), graph).solver.time_limit, std::numeric_limits<double>::infinity());
}

TEST(ReadSchedule, IgnoresUnknownKeysAndAMissingReport) {
  const Graph graph = read_graph(Text(kFigure1));
  const Schedule schedule = read_schedule(Text(R"({"format": "remora-schedule", "version": 1, "graph": "figure-1",
    "status": "feasible", "order": "input", "budget": 4, "duration": 1, "baseline_duration": 5, "peak_memory": 1,
    "baseline_peak_memory": 4, "lower_bound": 0, "steps": [{"op": "A", "free": [], "note": 1}], "more": {}})"),
                                          graph);
  EXPECT_EQ(schedule.steps.size(), 1U);
  EXPECT_EQ(schedule.solver.seed, 0U);
}

const std::vector<Malformed> kMalformedSchedules = {
    {R"("remora-schedule")", R"("remora-graph")", "$.format", R"(must be "remora-schedule")"},
    {R"("version": 1)", R"("version": 5)", "$.version", "version 5"},
    {R"("status": "optimal",)", "", "$", R"("status" is missing)"},
    {R"("status": "optimal")", R"("status": "great")", "$.status", R"(must be one of "optimal", "feasible")"},
    {R"("order": "free")", R"("order": 1)", "$.order", "must be a string, not 1"},
    {R"("order": "free")", R"("order": "any")", "$.order", R"("input", "free", not "any")"},
    {R"("budget": 3)", R"("budget": -3)", "$.budget", "must not be negative"},
    {R"("budget": 3)", R"("budget": 3.5)", "$.budget", "must be an integer"},
    {R"("budget": 3)", R"("budget": 9223372036854775808)", "$.budget", "too large"},
    {R"("duration": 6,)", "", "$", R"("duration" is missing)"},
    {R"("overhead": 0.2)", R"("overhead": "0.2")", "$.overhead", "must be a number"},
    {R"("steps": [)", R"("steps": 1, "more": [)", "$.steps", "must be an array"},
    {R"("op": "B")", R"("op": "Z")", "$.steps[1].op", R"(the graph "figure-1" has no op "Z")"},
    {R"("op": "B")", R"("op": 1)", "$.steps[1].op", "must be a string"},
    {R"("op": "B", )", "", "$.steps[1]", R"("op" is missing)"},
    {R"({"op": "B", "free": []})", R"("B")", "$.steps[1]", "must be an object"},
    {R"("free": ["a"])", R"("free": ["z"])", "$.steps[2].free[0]", R"(no tensor "z")"},
    {R"("op": "C", "free": ["a"])", R"("op": "C")", "$.steps[2]", R"("free" is missing)"},
    {R"("op": "D", "required")", R"("op": "Z", "required")", "$.certificate.op", R"(no op "Z")"},
    {R"("required": 9)", R"("required": "9")", "$.certificate.required", "must be an integer"},
    {R"("tensors": ["b", "c"])", R"("tensors": ["b", "z"])", "$.certificate.tensors[1]", R"(no tensor "z")"},
    {R"("seed": 18446744073709551615)", R"("seed": -1)", "$.solver.seed", "must be an integer from 0"},
    {R"("threads": 2)", R"("threads": 2147483648)", "$.solver.threads", "too large"},
    {R"("seconds": 60.0)", R"("seconds": "60")", "$.solver.limits.seconds", "must be a number"},
    {R"("reached_peak_memory": 3)", R"("reached_peak_memory": -3)", "$.solver.phases.feasibility.reached_peak_memory",
     "must not be negative"},
    {R"("levels": 3.0)", R"("levels": "3")", "$.solver.statistics.levels", "must be a number"},
    {R"({"levels": 3.0, "compose_seconds": 0.125})", "[]", "$.solver.statistics", "must be an object"},
    {R"("z": "1")", R"("z": 1)", "$.solver.options.z", "must be a string"},
    {R"([0.25, 7, 3, "cp 0"])", R"([0.25, 7, 3])", "$.solver.history[0]", "[seconds, duration, peak_memory, source]"},
    {R"([0.25, 7, 3, "cp 0"])", R"([0.25, 7, -3, "cp 0"])", "$.solver.history[0][2]", "must not be negative"},
    {R"("graph": "figure-1")", R"("graph": "figure-1", "graph": "")", "$.graph", "stands twice"},
    {R"("lower_bound": 6)", R"("lower_bound": 6 6)", "line 14, column 20", "not JSON"},
};

TEST(ReadSlices, ReadsWhatIsWrittenAndNamesFaults) {
  const Graph graph = read_graph(Text(kFigure1));
  Schedule schedule = full_schedule();
  EXPECT_EQ(read_slices(Text(text_of(schedule, graph))), std::nullopt);
  schedule.slices = {.regions = {{.parts = {{{"A", 0}, {"B", 2}}, {{"C", 1}}},
                                  .slices = 4,
                                  .saved_peak = Bytes(-3),
                                  .saved_minimum = Bytes(5),
                                  .cost = Duration(7)}},
                     .run = {.overhead = Duration(2), .temporaries = true, .copies = true, .bandwidth = Bytes(9)},
                     .whole_status = Status::feasible,
                     .whole_duration = Duration(8),
                     .whole_lower_bound = Duration(6),
                     .whole_max_computes = 2};
  const std::string valid = text_of(schedule, graph);
  EXPECT_EQ(read_slices(Text(valid)), schedule.slices);
  EXPECT_EQ(read_schedule(Text(valid), graph).slices, schedule.slices);
  const std::vector<Malformed> malformed = {
      {R"("slices": 4)", R"("slices": 0)", "$.slices.regions[0].slices", "at least 1"},
      {R"("slices": 4)", R"("slices": 65537)", "$.slices.regions[0].slices", "too large"},
      {R"(["B",2])", R"(["B"])", "$.slices.regions[0].parts[0][1]", "[op, number of its axis]"},
      {R"(["B",2])", R"(["B",-2])", "$.slices.regions[0].parts[0][1][1]", "must not be negative"},
      {R"([["C",1]])", "[]", "$.slices.regions[0].parts[1]", "must have an op"},
      {R"("temporaries": true)", R"("temporaries": 1)", "$.slices.temporaries", "true or false"},
      {R"("copies": true)", R"("copies": 1)", "$.slices.copies", "true or false"},
      {R"("max_computes": 2})", R"("max_computes": 0})", "$.slices.without.max_computes", "at least 1"},
      {R"("costs": 7)", R"("cost": 7)", "$.slices.regions[0]", R"("costs" is missing)"},
  };
  for (const Malformed& one : malformed) {
    SCOPED_TRACE(std::string(one.from) + " -> " + std::string(one.to));
    const std::string text = replaced(valid, one.from, one.to);
    ASSERT_FALSE(text.empty());
    const Fault fault = fault_of([&] { static_cast<void>(read_slices(Text(text))); });
    EXPECT_EQ(fault.place, one.place);
    EXPECT_NE(fault.what.find(one.fragment), std::string::npos) << fault.what;
  }
}

TEST(ReadSchedule, NamesThePlaceOfEveryFault) {
  const Graph graph = read_graph(Text(kFigure1));
  const std::string valid = text_of(full_schedule(), graph);
  for (const Malformed& malformed : kMalformedSchedules) {
    SCOPED_TRACE(std::string(malformed.from) + " -> " + std::string(malformed.to));
    const std::string text = replaced(valid, malformed.from, malformed.to);
    ASSERT_FALSE(text.empty());
    const Fault fault = fault_of([&] { static_cast<void>(read_schedule(Text(text), graph)); });
    EXPECT_EQ(fault.place, malformed.place);
    EXPECT_NE(fault.what.find(malformed.fragment), std::string::npos) << fault.what;
  }
}

TEST(WriteSchedule, GivesOverheadAndGapEveryDigit) {
  const Graph graph = read_graph(Text(kFigure1));
  const Schedule schedule{.status = Status::feasible,
                          .duration = Duration(7),
                          .baseline_duration = Duration(3),
                          .lower_bound = Duration(5)};
  const Document document = parse(text_of(schedule, graph));
  EXPECT_EQ(document["overhead"].get<double>(), 4.0 / 3);
  EXPECT_EQ(document["gap"].get<double>(), 2.0 / 7);
}

TEST(WriteSchedule, RefusesIdsThatTheGraphDoesNotHave) {
  const Graph graph = read_graph(Text(kFigure1));
  for (const Step& step : {Step{OpId(5), {}}, Step{OpId::none(), {}}, Step{OpId(0), {TensorId(5)}}}) {
    EXPECT_THROW(static_cast<void>(text_of({.steps = {step}}, graph)), InputError);
  }
}

TEST(Schedule, HasNoOverheadAndTheWholeGapWhereThereIsNone) {
  EXPECT_EQ(Schedule().overhead(), 0);
  EXPECT_EQ(Schedule().gap(), 1);
}

}  // namespace
}  // namespace remora::json
