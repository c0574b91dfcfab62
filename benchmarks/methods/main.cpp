// SPDX-License-Identifier: Apache-2.0
//
// remora_methods: solves a remora-graph by a method of the literature that `remora solve` does not have. Exit as `remora
// solve`: 0 a schedule was written, 20 proved infeasible, 21 none found, 64 bad usage, 65 bad input.
#include <cstdint>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>

#include "benchmarks/methods/checkmate/checkmate.hpp"
#include "benchmarks/methods/twremat/twremat.hpp"
#include "engine/ask/problem.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace {

constexpr int kNoSchedule = 21;
constexpr int kInfeasible = 20;
constexpr int kBadUsage = 64;
constexpr int kBadInput = 65;
constexpr const char* kUsage =
    "usage: remora_methods twremat|checkmate|checkmate-lp GRAPH --budget BUDGET [--order input|free]\n"
    "                      [--max-computes C] [--time-limit SECONDS] [--seed N] [--gap PART] -o FILE\n";

using Words = std::map<std::string, std::string>;

bool is_usage(const std::string& method, const Words& given) {
  const std::set<std::string> methods{"twremat", "checkmate", "checkmate-lp"};
  const std::set<std::string> known{"--budget", "--order", "--max-computes", "--time-limit", "--seed", "--gap", "-o"};
  for (const auto& [name, value] : given) {
    if (!known.contains(name)) return false;
  }
  const bool is_ordered = !given.contains("--order") || given.at("--order") == "input" || given.at("--order") == "free";
  return methods.contains(method) && given.contains("--budget") && given.contains("-o") && is_ordered;
}

remora::Problem problem_of(const std::string& method, const Words& given) {
  const bool is_twremat = method == "twremat";
  remora::Problem problem;
  if (is_twremat) problem.max_computes = static_cast<int>(remora::kComputesWithin64Bits);
  if (given.contains("--max-computes")) problem.max_computes = std::stoi(given.at("--max-computes"));
  const bool is_free = given.contains("--order") ? given.at("--order") == "free" : is_twremat;
  problem.order = is_free ? remora::OrderMode::free : remora::OrderMode::input;
  return problem;
}

int run(const std::string& method, const std::string& file, const Words& given) {
  const std::map<std::string, remora::Method> methods{{"twremat", remora::run_twremat},
                                                      {"checkmate", remora::run_checkmate},
                                                      {"checkmate-lp", remora::run_checkmate_lp}};
  const auto graph = std::make_shared<const remora::Graph>(
      remora::json::read_graph(remora::json::Text(remora::json::read_file(file))));
  const remora::Instance unlimited(graph, problem_of(method, given));
  const remora::Instance instance = unlimited.with_budget(
      remora::parse_budget(given.at("--budget"), graph->fixed_memory, remora::baseline_peak(unlimited)));
  // The bound is the method's own.
  remora::SolveOptions options{.covering = remora::Covering::off};
  for (const auto& [option, name] : Words{{"--time-limit", "time_limit"}, {"--seed", "seed"}, {"--gap", "gap"}}) {
    if (given.contains(option)) remora::set_option(options, name, given.at(option));
  }
  remora::check_options(options);
  const remora::Schedule schedule = remora::solve_by_method(methods.at(method), instance, options);
  remora::expect_valid(instance, schedule);
  remora::json::write_file(given.at("-o"),
                           [&](std::ostream& out) { remora::json::write_schedule(out, schedule, *graph); });
  if (!schedule.solver.note.empty()) std::cerr << "remora_methods: " << schedule.solver.note << '\n';
  if (schedule.has_schedule()) return 0;
  return schedule.status == remora::Status::infeasible ? kInfeasible : kNoSchedule;
}

}  // namespace

int main(int count, char** arguments) {
  Words given;
  for (int i = 3; i + 1 < count; i += 2) given[arguments[i]] = arguments[i + 1];
  if (count < 3 || count % 2 == 0 || !is_usage(arguments[1], given)) {
    std::cerr << kUsage;
    return kBadUsage;
  }
  try {
    return run(arguments[1], arguments[2], given);
  } catch (const std::invalid_argument&) {
    std::cerr << "remora_methods: --max-computes: '" << given["--max-computes"] << "' is no number\n";
    return kBadInput;
  } catch (const std::exception& error) {
    std::cerr << "remora_methods: " << error.what() << '\n';
    return kBadInput;
  }
}
