// SPDX-License-Identifier: Apache-2.0
//
// Every door leads to the same engine: what the command line, a batch, C and the compiler pass give for a random request is
// what the engine answers. (Python: tests/python/program_test.py; devices, lanes and banks: device_doors_test.cpp.)
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/ask/ask.hpp"
#include "engine/baselines/method.hpp"
#include "frontends/capi/handles.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/mlir/plan.hpp"
#include "model/evaluate.hpp"
#include "tests/frontends/cli/run_words.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_training_graph.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/work_limited.hpp"

namespace remora::cli {
namespace {

constexpr int kRequests = 40;
constexpr Bytes kAlignment{8};

template <class Values>
auto one_of(std::mt19937& random, const Values& values) {
  return values[random() % values.size()];
}

/// Some graph under some budget, asked in some way.
Request random_request(std::mt19937& random) {
  Request request;
  switch (random() % 3) {
    case 0:
      request.graph = remora::test::random_graph(random, {.most_ops = 8});
      break;
    case 1:
      request.graph = remora::test::random_training_graph(random, 8);
      break;
    default:
      request.graph = remora::test::training_chain(4 + static_cast<int>(random() % 16));
  }
  const Instance whole(request.graph, {});
  const std::int64_t peak = baseline_peak(whole).count();
  const std::int64_t fixed = request.graph->fixed_memory.count();
  request.budget = Bytes(fixed + (peak - fixed) * static_cast<std::int64_t>(4 + random() % 7) / 10);
  request.max_computes = one_of(random, std::vector<std::optional<int>>{std::nullopt, std::nullopt, 1, 2, 3});
  request.order = one_of(random, std::vector<OrderRequest>{OrderRequest::input, OrderRequest::input, OrderRequest::free,
                                                           OrderRequest::automatic});
  request.options = remora::test::work_limited(300, 1);
  request.options.strategy =
      one_of(random, std::vector<Strategy>{Strategy::automatic, Strategy::automatic, Strategy::cp, Strategy::greedy,
                                           Strategy::rotor, Strategy::sqrt});
  if (!is_search(request.options.strategy)) request.options.work_limit = 0;
  request.options.seed = static_cast<std::int64_t>(random() % 5);
  if (random() % 4 == 0) request.alignment = kAlignment;
  return request;
}

/// The request's options as the command line and a batch's task name them.
std::vector<std::pair<std::string, std::string>> words_of(const Request& request) {
  std::vector<std::pair<std::string, std::string>> words{
      {"strategy", strategy_name(request.options.strategy)},
      {"max-computes", request.max_computes ? std::to_string(*request.max_computes) : "auto"},
      {"order", order_request_name(*request.order)},
      {"seed", std::to_string(request.options.seed)},
      {"threads", "1"}};
  if (request.options.work_limit > 0) words.emplace_back("work-limit", std::to_string(request.options.work_limit));
  return words;
}

/// All that must not differ, in a line.
std::string told(const Schedule& schedule) {
  std::ostringstream text;
  text << static_cast<int>(schedule.status) << " order " << static_cast<int>(schedule.order) << " duration "
       << schedule.duration.count() << " peak " << schedule.peak_memory.count() << " bound "
       << schedule.lower_bound.count() << " computes " << schedule.solver.max_computes << " work "
       << schedule.solver.work << " ops";
  for (const OpId op : ops_of(schedule)) text << " " << op;
  if (schedule.arena) text << " arena " << schedule.arena->size.count();
  return std::move(text).str();
}

class Doors : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    std::mt19937 random(4711);
    for (int i = 0; i < kRequests; ++i) {
      requests_.push_back(random_request(random));
      json::write_file(file(i), [&](std::ostream& out) { json::write_graph(out, *requests_.back().graph); });
      // As every door reads it.
      requests_.back().graph = std::make_shared<const Graph>(json::read_graph(json::Text(json::read_file(file(i)))));
      answers_.push_back(solve(requests_.back()).schedule);
    }
  }
  [[nodiscard]] std::string file(int i) const { return path(std::to_string(i) + ".json"); }
  [[nodiscard]] std::string answer_to(int i) const { return told(answers_[static_cast<std::size_t>(i)]); }
  [[nodiscard]] const Request& request(int i) const { return requests_[static_cast<std::size_t>(i)]; }

  std::vector<Request> requests_{};
  std::vector<Schedule> answers_{};
};

TEST_F(Doors, TheRequestsAreOfAllKinds) {
  int found = 0;
  int infeasible = 0;
  int with_more = 0;
  int placed = 0;
  for (const Schedule& schedule : answers_) {
    found += schedule.has_schedule() ? 1 : 0;
    infeasible += schedule.status == Status::infeasible ? 1 : 0;
    with_more += schedule.has_schedule() && schedule.solver.max_computes > 2 ? 1 : 0;
    placed += schedule.arena ? 1 : 0;
  }
  EXPECT_GT(found, kRequests / 4);
  EXPECT_GT(infeasible, 0);
  EXPECT_GT(with_more, 0);
  EXPECT_GT(placed, 0);
}

TEST_F(Doors, TheCommandLineAnswersAsTheEngine) {
  for (int i = 0; i < kRequests; ++i) {
    SCOPED_TRACE(i);
    const std::string output = file(i) + ".schedule";
    std::string words = "solve " + file(i) + " -q -b " + std::to_string(request(i).budget.count()) + "B -o " + output;
    for (const auto& [name, value] : words_of(request(i))) words += " --" + name + " " + value;
    if (request(i).alignment) words += " --addresses --alignment " + std::to_string(kAlignment.count());
    const test::Outcome outcome = test::run_words(words);
    const bool is_refused = outcome.err.find("no schedule") != std::string::npos;
    ASSERT_TRUE(outcome.code == 0 ? outcome.err.empty() : is_refused) << words << "\n" << outcome.err;
    EXPECT_EQ(told(json::read_schedule(json::Text(json::read_file(output)), *request(i).graph)), answer_to(i)) << words;
  }
}

TEST_F(Doors, ABatchAnswersAsTheEngine) {
  int asked = 0;
  json::write_file(path("tasks.jsonl"), [&](std::ostream& out) {
    for (int i = 0; i < kRequests; ++i) {
      if (request(i).alignment) continue;  // a batch gives no addresses
      nlohmann::json options;
      for (const auto& [name, value] : words_of(request(i))) {
        if (name != "threads") options[option_name(name)] = value;
      }
      ++asked;
      out << nlohmann::json{{"id", std::to_string(i)},
                            {"graph", file(i)},
                            {"budget", std::to_string(request(i).budget.count()) + "B"},
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
    const int i = std::stoi(record.at("task").get<std::string>());
    SCOPED_TRACE(i);
    EXPECT_EQ(told(json::read_schedule(json::Text(record.at("schedule").dump()), *request(i).graph)), answer_to(i));
    ++count;
  }
  EXPECT_EQ(count, asked);
  EXPECT_GT(count, kRequests / 2);
}

TEST_F(Doors, CAnswersAsTheEngine) {
  for (int i = 0; i < kRequests; ++i) {
    SCOPED_TRACE(i);
    remora_graph* graph = nullptr;
    ASSERT_EQ(remora_graph_read(file(i).c_str(), &graph), REMORA_OK) << remora_last_error();
    remora_instance* instance = nullptr;
    const std::string budget = std::to_string(request(i).budget.count()) + "B";
    ASSERT_EQ(remora_instance_new(graph, budget.c_str(), request(i).max_computes.value_or(0),
                                  static_cast<remora_order>(*request(i).order), &instance),
              REMORA_OK)
        << remora_last_error();
    remora_options* options = nullptr;
    ASSERT_EQ(remora_options_new(&options), REMORA_OK);
    for (const auto& [name, value] : words_of(request(i))) {
      if (name == "max-computes" || name == "order") continue;
      ASSERT_EQ(remora_options_set(options, name.c_str(), value.c_str()), REMORA_OK) << remora_last_error();
    }
    ASSERT_EQ(remora_options_set(options, "time-limit", "1000000000"), REMORA_OK);
    remora_schedule* schedule = nullptr;
    ASSERT_EQ(request(i).alignment
                  ? remora_solve_with_addresses(instance, options, kAlignment.count(), nullptr, nullptr, &schedule)
                  : remora_solve(instance, options, nullptr, nullptr, &schedule),
              REMORA_OK)
        << remora_last_error();
    EXPECT_EQ(told(schedule->value), answer_to(i));
    remora_schedule_free(schedule);
    remora_options_free(options);
    remora_instance_free(instance);
    remora_graph_free(graph);
  }
}

TEST_F(Doors, TheCompilerPassAnswersAsTheEngine) {
  int asked = 0;
  for (int i = 0; i < kRequests; ++i) {
    SCOPED_TRACE(i);
    if (request(i).options.strategy != Strategy::automatic) continue;  // the pass has no other
    mlir_frontend::RematerializeOptions plan{.budget = std::to_string(request(i).budget.count()) + "B",
                                             .order = order_request_name(*request(i).order),
                                             .time_limit = kNoTimeLimit,
                                             .work_limit = request(i).options.work_limit,
                                             .seed = request(i).options.seed,
                                             .threads = 1,
                                             .arena = request(i).alignment.has_value(),
                                             .alignment = kAlignment.count()};
    if (request(i).max_computes) plan.max_computes = std::to_string(*request(i).max_computes);
    ASSERT_EQ(mlir_frontend::check_options(plan), "");
    const mlir_frontend::Plan made = mlir_frontend::make_plan(*request(i).graph, plan);
    EXPECT_EQ(told(made.schedule), answer_to(i));
    EXPECT_EQ(made.error.empty(), made.schedule.has_schedule()) << made.error;
    ++asked;
  }
  EXPECT_GT(asked, 5);
}

/// Requests that the engine refuses, and its reasons.
class RefusingDoors : public remora::test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    std::mt19937 random(815);
    while (requests_.size() < static_cast<std::size_t>(remora::test::fewer(200))) {
      Request request = random_request(random);
      request.options.strategy = Strategy::automatic;
      request.options.work_limit = 300;
      const std::string file = file_of(requests_.size());
      json::write_file(file, [&](std::ostream& out) { json::write_graph(out, *request.graph); });
      request.graph = std::make_shared<const Graph>(json::read_graph(json::Text(json::read_file(file))));
      const std::int64_t fixed = request.graph->fixed_memory.count();
      request.budget = Bytes(fixed + (request.budget.count() - fixed) * static_cast<std::int64_t>(random() % 9) / 8);
      Answer answer = solve(request);
      if (answer.schedule.has_schedule()) continue;
      requests_.push_back(std::move(request));
      refusals_.push_back(std::move(answer.refusal));
    }
  }
  [[nodiscard]] std::string file_of(std::size_t i) const { return path("refused-" + std::to_string(i) + ".json"); }
  [[nodiscard]] static std::string budget_of(const Request& request) {
    return std::to_string(request.budget.count()) + "B";
  }

  /// Whether the words name the op that is too large by itself, the budgets, and what could be done.
  void expect_named(const std::string& words, std::size_t i) const {
    std::string line = words;
    // The command line wraps at blanks.
    for (std::size_t at = line.find("\n"); at != std::string::npos; at = line.find("\n", at)) {
      line.replace(at, line.find_first_not_of(" \n", at) - at, " ");
    }
    const Refusal& refusal = refusals_[i];
    const Graph& graph = *requests_[i].graph;
    EXPECT_NE(line.find("(" + std::to_string(refusal.enough.count()) + " bytes"), std::string::npos) << line;
    if (refusal.is_proved()) {
      EXPECT_NE(line.find("(" + std::to_string(refusal.lower_bound.count()) + " bytes"), std::string::npos) << line;
    }
    if (refusal.cause == Refusal::Cause::op) {
      EXPECT_NE(line.find(graph[refusal.op].name), std::string::npos) << line;
      EXPECT_NE(line.find("a smaller batch, splitting the op or offloading"), std::string::npos) << line;
    }
    EXPECT_NE(line.find("a larger budget"), std::string::npos) << line;
  }

  std::vector<Request> requests_{};
  std::vector<Refusal> refusals_{};
};

TEST_F(RefusingDoors, TheCommandLineSaysWhatTheEngineSays) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    SCOPED_TRACE(i);
    std::string words = "solve " + file_of(i) + " -b " + budget_of(requests_[i]) + " -o " + path("out.json");
    for (const auto& [name, value] : words_of(requests_[i])) words += " --" + name + " " + value;
    if (requests_[i].alignment) words += " --addresses --alignment " + std::to_string(kAlignment.count());
    expect_named(test::run_words(words).err, i);
    const Schedule written = json::read_schedule(json::Text(json::read_file(path("out.json"))), *requests_[i].graph);
    EXPECT_LE(written.solver.reached_peak, refusals_[i].enough) << words;
    EXPECT_GT(written.solver.reached_peak, requests_[i].budget) << words;
  }
}

TEST_F(RefusingDoors, CSaysWhatTheEngineSays) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    SCOPED_TRACE(i);
    const Request& request = requests_[i];
    remora_graph* graph = nullptr;
    remora_instance* instance = nullptr;
    remora_options* options = nullptr;
    remora_schedule* schedule = nullptr;
    ASSERT_EQ(remora_graph_read(file_of(i).c_str(), &graph), REMORA_OK) << remora_last_error();
    ASSERT_EQ(remora_instance_new(graph, budget_of(request).c_str(), request.max_computes.value_or(0),
                                  static_cast<remora_order>(*request.order), &instance),
              REMORA_OK);
    ASSERT_EQ(remora_options_new(&options), REMORA_OK);
    for (const auto& [name, value] : words_of(request)) {
      if (name == "max-computes" || name == "order") continue;
      ASSERT_EQ(remora_options_set(options, name.c_str(), value.c_str()), REMORA_OK) << remora_last_error();
    }
    ASSERT_EQ(remora_options_set(options, "time-limit", "1000000000"), REMORA_OK);
    ASSERT_EQ(request.alignment
                  ? remora_solve_with_addresses(instance, options, kAlignment.count(), nullptr, nullptr, &schedule)
                  : remora_solve(instance, options, nullptr, nullptr, &schedule),
              REMORA_OK);
    remora_refusal refusal{};
    refusal.size = sizeof refusal;
    ASSERT_EQ(remora_schedule_refusal(schedule, graph, &refusal), REMORA_OK) << remora_last_error();
    EXPECT_EQ(refusal.reason, static_cast<remora_reason>(refusals_[i].cause));
    EXPECT_EQ(refusal.op, refusals_[i].op.valid() ? static_cast<std::int32_t>(refusals_[i].op) : -1);
    EXPECT_EQ(refusal.needed, refusals_[i].needed.count());
    EXPECT_EQ(refusal.lower_bound, refusals_[i].lower_bound.count());
    EXPECT_EQ(refusal.enough, refusals_[i].enough.count());
    char* text = nullptr;
    ASSERT_EQ(remora_schedule_refusal_text(schedule, graph, &text), REMORA_OK);
    expect_named(text, i);
    remora_text_free(text);
    remora_schedule_free(schedule);
    remora_options_free(options);
    remora_instance_free(instance);
    remora_graph_free(graph);
  }
}

TEST_F(RefusingDoors, TheCompilerPassSaysWhatTheEngineSays) {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    SCOPED_TRACE(i);
    const Request& request = requests_[i];
    mlir_frontend::RematerializeOptions plan{.budget = budget_of(request),
                                             .order = order_request_name(*request.order),
                                             .time_limit = kNoTimeLimit,
                                             .work_limit = request.options.work_limit,
                                             .seed = request.options.seed,
                                             .threads = 1,
                                             .arena = request.alignment.has_value(),
                                             .alignment = kAlignment.count()};
    if (request.max_computes) plan.max_computes = std::to_string(*request.max_computes);
    expect_named(mlir_frontend::make_plan(*request.graph, plan).error, i);
  }
}

TEST_F(RefusingDoors, ABatchKeepsABudgetThatIsKnown) {
  std::size_t asked = 0;
  json::write_file(path("tasks.jsonl"), [&](std::ostream& out) {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i].alignment) continue;  // a batch gives no addresses
      nlohmann::json options;
      for (const auto& [name, value] : words_of(requests_[i])) {
        if (name != "threads") options[option_name(name)] = value;
      }
      ++asked;
      out << nlohmann::json{{"id", std::to_string(i)},
                            {"graph", file_of(i)},
                            {"budget", budget_of(requests_[i])},
                            {"options", options}}
          << "\n";
    }
  });
  test::run_words("batch " + path("tasks.jsonl") + " -q --threads 1 -o " + path("results"));
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path("results") + "/results")) {
    const nlohmann::json record = nlohmann::json::parse(json::read_file(entry.path()));
    const auto i = static_cast<std::size_t>(std::stoi(record.at("task").get<std::string>()));
    const Schedule schedule = json::read_schedule(json::Text(record.at("schedule").dump()), *requests_[i].graph);
    EXPECT_LE(schedule.solver.reached_peak, refusals_[i].enough) << i;
    EXPECT_GT(schedule.solver.reached_peak, requests_[i].budget) << i;
    ++count;
  }
  EXPECT_EQ(count, asked);
}

}  // namespace
}  // namespace remora::cli
