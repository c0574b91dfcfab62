// SPDX-License-Identifier: Apache-2.0
//
// Like doors_test.cpp, for graphs over several devices, with and without lanes, and for buffers in one or several memories.
// (Python, and pipelines: tests/python/{devices,placement,pipeline}_test.py.)
#include <filesystem>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/ask/ask.hpp"
#include "engine/devices/ask.hpp"
#include "frontends/capi/remora_devices.h"
#include "frontends/formats/banks_json.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/interchange.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/formats/keys.hpp"
#include "tests/frontends/cli/run_words.hpp"
#include "tests/support/placement_oracle.hpp"
#include "tests/support/random_devices.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/work_limited.hpp"

namespace remora::cli {
namespace {

constexpr int kDeviceRequests = 40;
using Options = std::vector<std::pair<std::string, std::string>>;

/// A graph with everything that the format can express, under some budgets, with some options.
devices::Request random_device_request(std::mt19937& random) {
  using remora::test::chance;
  DeviceGraph graph = remora::test::random_device_graph(random, remora::test::draw(random, 1, 3), 7);
  const bool has_lanes = chance(random, 40);
  if (has_lanes) remora::test::draw_lanes(random, graph, 3);
  const OrderMode order = chance(random, 30) ? OrderMode::free : OrderMode::input;
  devices::Problem problem = remora::test::draw_problem(random, graph, order);
  remora::test::draw_limits(random, graph, problem);
  devices::Request request{.graph = std::make_shared<const DeviceGraph>(std::move(graph)),
                           .budget = problem.budget,
                           .objective = problem.objective,
                           .duration_limit = problem.duration_limit,
                           .energy_limit = problem.energy_limit,
                           .order = order,
                           .options = remora::test::work_limited(300, 1)};
  if (chance(random, 60)) request.max_computes = problem.max_computes;
  if (!has_lanes && chance(random, 40)) request.copies = CopyMode::overlap;
  request.options.seed = remora::test::draw(random, 0, 4);
  return request;
}

std::string budget_of(const devices::Request& request) {
  std::string text;
  for (std::size_t d = 0; d < request.budget.size(); ++d) {
    const auto& budget = request.budget[DeviceId(d)];
    if (!budget) continue;
    text += (text.empty() ? "" : ",") + request.graph->devices[DeviceId(d)].name + "=" +
            std::to_string(budget->count()) + "B";
  }
  return text;
}

Options words_of(const devices::Request& request) {
  Options words{{"max-computes", request.max_computes ? std::to_string(*request.max_computes) : "auto"},
                {"order", request.order == OrderMode::free ? "free" : "input"},
                {"objective", request.objective == Objective::energy ? "energy" : "duration"},
                {"seed", std::to_string(request.options.seed)},
                {"work-limit", std::to_string(request.options.work_limit)}};
  if (request.copies) words.emplace_back("copies", "overlap");
  if (request.duration_limit) words.emplace_back("duration-limit", std::to_string(request.duration_limit->count()));
  if (request.energy_limit) words.emplace_back("energy-limit", std::to_string(request.energy_limit->count()));
  return words;
}

/// Everything that must not differ, in one line; the schedule is verified.
std::string line_of(const DeviceGraph& graph, const DeviceSchedule& schedule) {
  std::ostringstream text;
  text << static_cast<int>(schedule.status) << " order " << static_cast<int>(schedule.order) << " copies "
       << static_cast<int>(schedule.copies) << " duration " << schedule.duration.count() << " energy "
       << schedule.energy.count() << " bound " << schedule.lower_bound << " computes " << schedule.solver.max_computes
       << " work " << schedule.solver.work << " note " << schedule.solver.note << " budgets";
  for (const auto& budget : schedule.budget) text << " " << (budget ? budget->count() : -1);
  if (!schedule.has_schedule()) return std::move(text).str();
  const DeviceVerdict verdict = verify(graph, schedule);
  EXPECT_TRUE(verdict.valid()) << verdict.errors.front();
  text << " peaks";
  for (const Bytes peak : verdict.peak) text << " " << peak.count();
  text << " steps";
  for (const DeviceStep& step : schedule.steps) {
    text << " " << (step.is_copy() ? "copy " + graph.graph[step.copied].name : graph.graph[step.op].name) << "@"
         << graph.devices[step.device].name;
  }
  return std::move(text).str();
}

class DeviceDoors : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    std::mt19937 random(2718);
    while (requests_.size() < kDeviceRequests) {
      devices::Request request = random_device_request(random);
      if (budget_of(request).empty()) continue;  // the command line wants a budget
      const std::string name = file(requests_.size());
      json::write_file(name, [&](std::ostream& out) { json::write_graph(out, *request.graph); });
      // As every door reads it.
      request.graph = std::make_shared<const DeviceGraph>(json::read_device_graph(json::Text(json::read_file(name))));
      schedules_.push_back(devices::solve(request).schedule);
      requests_.push_back(std::move(request));
    }
  }
  [[nodiscard]] std::string file(std::size_t i) const { return path(std::to_string(i) + ".json"); }
  [[nodiscard]] const DeviceGraph& graph(std::size_t i) const { return *requests_[i].graph; }
  [[nodiscard]] std::string answer_to(std::size_t i) const { return line_of(graph(i), schedules_[i]); }
  [[nodiscard]] std::string read_again(std::size_t i, const std::string& text) const {
    return line_of(graph(i), json::read_schedule(json::Text(text), graph(i)));
  }

  std::vector<devices::Request> requests_{};
  std::vector<DeviceSchedule> schedules_{};
};

TEST_F(DeviceDoors, TheRequestsAreOfAllKinds) {
  int found = 0;
  int infeasible = 0;
  int with_lanes = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    found += schedules_[i].has_schedule() ? 1 : 0;
    infeasible += schedules_[i].status == Status::infeasible ? 1 : 0;
    with_lanes += graph(i).devices[DeviceId(0)].lanes.empty() ? 0 : 1;
  }
  EXPECT_GT(found, kDeviceRequests / 4);
  EXPECT_GT(infeasible, 0);
  EXPECT_GT(with_lanes, kDeviceRequests / 8);
}

TEST_F(DeviceDoors, TheCommandLineAnswersAsTheEngine) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    SCOPED_TRACE(i);
    const std::string output = file(i) + ".schedule";
    std::string words = "solve " + file(i) + " -q --threads 1 -b " + budget_of(requests_[i]) + " -o " + output;
    for (const auto& [name, value] : words_of(requests_[i])) words += " --" + name + " " + value;
    const test::Outcome outcome = test::run_words(words);
    ASSERT_EQ(outcome.err.substr(0, 19), outcome.code == 0 ? "" : "remora: no schedule") << words;
    EXPECT_EQ(read_again(i, json::read_file(output)), answer_to(i)) << words;
  }
}

TEST_F(DeviceDoors, ABatchAnswersAsTheEngine) {
  json::write_file(path("tasks.jsonl"), [&](std::ostream& out) {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      nlohmann::json options;
      for (const auto& [name, value] : words_of(requests_[i])) options[option_name(name)] = value;
      out << nlohmann::json{{"id", std::to_string(i)},
                            {"graph", file(i)},
                            {"budget", budget_of(requests_[i])},
                            {"options", options}}
          << "\n";
    }
  });
  const test::Outcome outcome =
      test::run_words("batch " + path("tasks.jsonl") + " -q --threads 1 -o " + path("results"));
  ASSERT_EQ(outcome.code, kSuccess) << outcome.err;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path("results") + "/results")) {
    const nlohmann::json record = nlohmann::json::parse(json::read_file(entry.path()));
    const auto i = static_cast<std::size_t>(std::stoi(record.at("task").get<std::string>()));
    EXPECT_EQ(read_again(i, record.at("schedule").dump()), answer_to(i)) << i;
    ++count;
  }
  EXPECT_EQ(count, kDeviceRequests);
}

TEST_F(DeviceDoors, CAnswersAsTheEngine) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    SCOPED_TRACE(i);
    const devices::Request& request = requests_[i];
    remora_device_graph* graph = nullptr;
    ASSERT_EQ(remora_device_graph_read(file(i).c_str(), &graph), REMORA_OK) << remora_last_error();
    std::vector<std::int64_t> budgets;
    for (const auto& budget : request.budget) budgets.push_back(budget ? budget->count() : -1);
    remora_device_problem problem{};
    problem.size = sizeof problem;
    problem.budgets = budgets.data();
    problem.budget_count = budgets.size();
    problem.objective = request.objective == Objective::energy ? REMORA_LEAST_ENERGY : REMORA_LEAST_DURATION;
    problem.order = request.order == OrderMode::free ? REMORA_ORDER_FREE : REMORA_ORDER_INPUT;
    problem.max_computes = request.max_computes.value_or(0);
    problem.duration_limit = request.duration_limit ? request.duration_limit->count() : 0;
    problem.energy_limit = request.energy_limit ? request.energy_limit->count() : 0;
    problem.copies = request.copies ? REMORA_COPIES_OVERLAP : REMORA_COPIES_SEQUENTIAL;
    remora_options* options = nullptr;
    ASSERT_EQ(remora_options_new(&options), REMORA_OK);
    for (const auto& [name, value] : Options{{"seed", std::to_string(request.options.seed)},
                                             {"work-limit", "300"},
                                             {"threads", "1"},
                                             {"time-limit", "1000000000"}}) {
      ASSERT_EQ(remora_options_set(options, name.c_str(), value.c_str()), REMORA_OK) << remora_last_error();
    }
    remora_device_schedule* schedule = nullptr;
    ASSERT_EQ(remora_device_solve(graph, &problem, options, nullptr, nullptr, &schedule), REMORA_OK)
        << remora_last_error();
    char* text = nullptr;
    ASSERT_EQ(remora_device_schedule_text(schedule, &text), REMORA_OK);
    EXPECT_EQ(read_again(i, text), answer_to(i));
    remora_text_free(text);
    remora_device_schedule_free(schedule);
    remora_options_free(options);
    remora_device_graph_free(graph);
  }
}

constexpr std::int64_t kPlaceWork = 2000;

class PlaceDoors : public remora::test::TemporaryFolder {
 protected:
  [[nodiscard]] nlohmann::json figures(const std::string& words) const {
    const test::Outcome outcome = test::run_words("place --threads 1 --json -q --work-limit " +
                                                  std::to_string(kPlaceWork) + " -o " + path("placed") + " " + words);
    EXPECT_EQ(outcome.err, "") << words;
    return nlohmann::json::parse(outcome.out);
  }
  [[nodiscard]] static PlaceSettings settings() { return {.work_limit = kPlaceWork}; }
};

TEST_F(PlaceDoors, AnArenaIsTheSameOnTheCommandLineAndInC) {
  Random random(31);
  for (int i = 0; i < kDeviceRequests; ++i) {
    SCOPED_TRACE(i);
    const std::vector<Buffer> asked = remora::test::random_buffers(random, {.most_buffers = 12});
    json::write_file(path("b.csv"), [&](std::ostream& out) { interchange::write_buffers(out, asked); });
    const std::vector<Buffer> buffers = interchange::read_buffers(read("b.csv"), "b.csv");
    const PlaceResult answer = place(buffers, settings(), [] { return false; });
    const nlohmann::json said = figures(path("b.csv"));
    EXPECT_EQ(said["status"], json::status_word(answer.status));
    std::vector<remora_buffer> rows;
    std::vector<std::vector<std::int64_t>> gaps;
    for (const Buffer& buffer : buffers) {
      gaps.emplace_back();
      for (const auto& gap : buffer.gaps) gaps.back().insert(gaps.back().end(), {gap.lower, gap.upper});
      rows.push_back({.lower = buffer.lifespan.lower,
                      .upper = buffer.lifespan.upper,
                      .size = buffer.size.count(),
                      .alignment = buffer.alignment.count(),
                      .offset = buffer.offset ? buffer.offset->count() : -1,
                      .gaps = nullptr,
                      .gap_count = buffer.gaps.size()});
    }
    for (std::size_t b = 0; b < rows.size(); ++b) rows[b].gaps = gaps[b].data();
    remora_options* options = nullptr;
    ASSERT_EQ(remora_options_new(&options), REMORA_OK);
    ASSERT_EQ(remora_options_set(options, "work-limit", std::to_string(kPlaceWork).c_str()), REMORA_OK);
    ASSERT_EQ(remora_options_set(options, "threads", "1"), REMORA_OK);
    remora_result result{};
    std::vector<std::int64_t> offsets(rows.size());
    std::int64_t arena = 0;
    std::int64_t bound = 0;
    ASSERT_EQ(remora_place(rows.data(), rows.size(), -1, options, nullptr, &result, offsets.data(), &arena, &bound),
              REMORA_OK)
        << remora_last_error();
    remora_options_free(options);
    EXPECT_EQ(result == REMORA_INFEASIBLE, answer.status == PlacementStatus::infeasible);
    if (answer.offsets.empty()) continue;
    EXPECT_EQ(placement_fault(buffers, answer.offsets), "");
    EXPECT_EQ(said["arena"], answer.arena.count());
    EXPECT_EQ(said["lower_bound"], answer.lower_bound.count());
    EXPECT_EQ(arena, answer.arena.count());
    EXPECT_EQ(bound, answer.lower_bound.count());
    const std::vector<Buffer> placed = interchange::read_buffers(read("placed"), "placed");
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      EXPECT_EQ(offsets[b], answer.offsets[b].count());
      EXPECT_EQ(placed[b].offset, answer.offsets[b]);
    }
  }
}

TEST_F(PlaceDoors, BanksAreTheSameOnTheCommandLine) {
  Random random(32);
  int found = 0;
  for (int i = 0; i < kDeviceRequests; ++i) {
    SCOPED_TRACE(i);
    const BankProblem problem = remora::test::random_bank_problem(random);
    BankPlacement anywhere;
    for (const auto& choices : problem.choices) anywhere.banks.push_back(choices.front().bank);
    anywhere.offsets.resize(problem.buffers.size());
    json::write_file(path("b.json"), [&](std::ostream& out) { json::write_bank_placement(out, problem, anywhere); });
    const PlaceResult answer =
        place(json::read_bank_problem(json::Text(read("b.json"))), settings(), [] { return false; });
    const nlohmann::json said = figures(path("b.json"));
    EXPECT_EQ(said["status"], json::status_word(answer.status));
    if (answer.status == PlacementStatus::infeasible || answer.status == PlacementStatus::unknown) continue;
    ++found;
    EXPECT_EQ(bank_fault(problem, {answer.banks, answer.offsets}), "");
    EXPECT_EQ(said["cost"], answer.cost);
    EXPECT_EQ(said["lower_bound"], answer.least_cost);
    std::ostringstream expected;
    json::write_bank_placement(expected, problem, {answer.banks, answer.offsets});
    EXPECT_EQ(read("placed"), expected.str());
  }
  EXPECT_GT(found, kDeviceRequests / 4);
}

}  // namespace
}  // namespace remora::cli
