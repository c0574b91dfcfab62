// SPDX-License-Identifier: Apache-2.0
//
// `remora place` of buffers that may lie in several memories.
#include "engine/placement/place_banks.hpp"

#include <iostream>
#include <ostream>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "engine/base/deadline.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/commands/place_banks.hpp"
#include "frontends/cli/showing/summary.hpp"
#include "frontends/formats/banks_json.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/types.hpp"

namespace remora::cli {
namespace {

struct BankFigures {
  const BankProblem& problem;
  const PlaceBanksResult& result;
  double seconds = 0;
  std::int64_t seed = 0;

  [[nodiscard]] bool is_placed() const {
    return result.status == PlacementStatus::optimal || result.status == PlacementStatus::feasible;
  }
  [[nodiscard]] BankContents contents(std::size_t bank) const { return contents_of(problem, result.placement, bank); }
};

void print_json(std::ostream& out, const BankFigures& figures) {
  const PlaceBanksResult& result = figures.result;
  nlohmann::ordered_json text{{"buffers", figures.problem.buffers.size()}, {"status", status_name(result.status)}};
  if (result.status != PlacementStatus::infeasible) text["lower_bound"] = result.lower_bound;
  if (figures.is_placed()) text["cost"] = result.cost;
  for (std::size_t b = 0; figures.is_placed() && b < figures.problem.banks.size(); ++b) {
    const Bank& bank = figures.problem.banks[b];
    const BankContents contents = figures.contents(b);
    text["banks"].push_back({{"name", bank.name},
                             {"capacity", bank.capacity.count()},
                             {"buffers", contents.buffers.size()},
                             {"arena", arena_of(contents.buffers, contents.offsets).count()}});
  }
  text["seconds"] = figures.seconds;
  text["work"] = result.work;
  text["seed"] = figures.seed;
  out << text.dump(1) << "\n";
}

void print_text(std::ostream& stream, const BankFigures& figures, int width) {
  const PlaceBanksResult& result = figures.result;
  std::ostringstream out;
  out << "buffers     " << text::grouped(static_cast<std::int64_t>(figures.problem.buffers.size())) << " in "
      << figures.problem.banks.size() << " banks\n";
  if (figures.is_placed()) {
    out << "cost        " << text::grouped(result.cost) << "; "
        << (result.status == PlacementStatus::optimal ? "proved least"
                                                      : "at least " + text::grouped(result.lower_bound))
        << "\n";
    for (std::size_t b = 0; b < figures.problem.banks.size(); ++b) {
      const Bank& bank = figures.problem.banks[b];
      const BankContents contents = figures.contents(b);
      out << "bank        " << bank.name << ": " << text::grouped(static_cast<std::int64_t>(contents.buffers.size()))
          << " buffers, arena " << text::exact_bytes_text(arena_of(contents.buffers, contents.offsets)) << " of "
          << text::exact_bytes_text(bank.capacity) << "\n";
    }
  } else if (result.status == PlacementStatus::infeasible) {
    out << "impossible  the banks do not hold the buffers\n";
  } else {
    out << "unknown     no placement found, nor proved impossible\n";
  }
  out << "search      " << text::fixed(figures.seconds, 2) << " s, work " << text::grouped(result.work) << ", seed "
      << figures.seed << "\n";
  stream << text::wrapped_lines(out.str(), kWordColumns, width);
}

}  // namespace

int place_in_banks(const Arguments& arguments, const SolveOptions& options, const FileText& file, Bytes alignment,
                   const std::string& output) {
  for (const char* option : {"capacity", "graph", "tflite"}) {
    if (arguments.has(option)) {
      throw UsageError(std::string("--") + option + ": " + file.path + " is a remora-banks, which says so itself");
    }
  }
  BankProblem problem;
  try {
    problem = json::read_bank_problem(json::Text(file.content));
  } catch (const InputError& error) {
    throw InputError(file.path, error.what());
  }
  align(problem.buffers, alignment);
  check_bank_problem(problem);
  SignalGuard signals;
  signals.heed_memory();
  const Deadline deadline(options.time_limit, &signals.flag());
  const PlaceSettings limits = place_settings(options);
  const PlaceBanksResult result = place_banks(
      problem, {.work_limit = limits.work_limit, .seed = limits.seed, .exact = !arguments.has("heuristics")},
      [&] { return deadline.reached(); });
  const BankFigures figures{.problem = problem, .result = result, .seconds = deadline.elapsed(), .seed = options.seed};
  if (!output.empty() && figures.is_placed()) {
    arguments.files().write(output,
                            [&](std::ostream& out) { json::write_bank_placement(out, problem, result.placement); });
  }
  if (arguments.has("json")) {
    print_json(std::cout, figures);
  } else if (output != "-" || !arguments.has("quiet")) {
    const bool to_error = output == "-";
    print_text(to_error ? std::cerr : std::cout, figures,
               text::terminal_width(to_error ? STDERR_FILENO : STDOUT_FILENO, kNoWidth));
  }
  if (result.status == PlacementStatus::infeasible) return kInfeasible;
  return figures.is_placed() ? kSuccess : kNoSchedule;
}

}  // namespace remora::cli
