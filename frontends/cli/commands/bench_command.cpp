// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "frontends/bench/best_known.hpp"
#include "frontends/bench/comparison.hpp"
#include "frontends/bench/figures.hpp"
#include "frontends/bench/markdown.hpp"
#include "frontends/bench/runner.hpp"
#include "frontends/bench/suite.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/commands/exit_code.hpp"
#include "frontends/cli/commands/signals.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "frontends/formats/file.hpp"
#include "model/error.hpp"

namespace remora::cli {
namespace po = boost::program_options;
namespace fs = std::filesystem;
using namespace bench;
namespace {

/// As shells tell of a program that SIGINT ended.
constexpr int kInterrupted = 130;

OptionGroup bench_options() {
  OptionGroup group("The benchmark");
  group.add_options()("out,o", po::value<std::string>()->value_name("DIR"),
                      "where results.jsonl, README.md and plots go (default: bench-NAME)")(
      "only", po::value<std::vector<std::string>>()->value_name("CONTENDER"),
      "run only this contender of the suite (repeatable); the page shows all that is known")(
      "time-limit", po::value<double>()->value_name("S"), "seconds a run, in place of the suite's and its instances'")(
      "best-known", output_file(),
      "table of best known schedules: shown beside the results, and taught what is better")(
      "no-runs", "only the page and the plots, from the results that are there")("quiet,q", "no line for each run");
  return group;
}

/// The file, or the suite of that name beside the others: benchmarks/suites/NAME.json.
std::string find_suite(const std::string& name) {
  if (fs::exists(name)) return name;
  std::string named = "benchmarks/suites/" + name + ".json";
  if (fs::exists(named)) return named;
  throw UsageError("there is no suite '" + name + "': neither that file nor " + named);
}

std::string folder_of(const std::string& file) {
  return fs::path(file).parent_path().string();
}

Suite load_suite(const std::string& path, const std::vector<std::string>& parameters) {
  try {
    return read_suite(json::read_file(path), folder_of(path), parameters);
  } catch (const InputError& error) {
    throw InputError(path, error.what());
  }
}

BestKnownTable load_best_known(const std::string& path) {
  if (path.empty() || !fs::exists(path)) return {};
  try {
    return BestKnownTable(json::read_file(path), folder_of(path));
  } catch (const InputError& error) {
    throw InputError(path, error.what());
  }
}

void write_text(const Files& files, const std::string& path, const std::string& text) {
  files.write(path, [&](std::ostream& out) { out << text; });
}

/// Keeps the schedule in the file at once if it is better: a run that is done is not repeated.
void teach(const Files& files, const std::string& path, const BestKnown& news) {
  BestKnownTable table = load_best_known(path);
  if (table.learn(news)) write_text(files, path, table.text(folder_of(path)));
}

/// The suite with one limit for every run: what a user types goes before what the suite says anywhere.
void limit_all(Suite& suite, double seconds) {
  if (!(seconds > 0)) throw UsageError("--time-limit: must be above 0");
  suite.time_limit = seconds;
  for (SuiteInstance& instance : suite.instances) instance.time_limit.reset();
}

/// The suite with only the contenders named; UsageError for one that it has not.
Suite only(const Suite& suite, const std::vector<std::string>& names) {
  Suite part = suite;
  for (const std::string& name : names) {
    const auto is_it = [&](const Contender& contender) { return contender.name == name; };
    if (std::none_of(suite.contenders.begin(), suite.contenders.end(), is_it)) {
      throw UsageError("--only: the suite has no contender '" + name + "'");
    }
  }
  std::erase_if(part.contenders, [&](const Contender& contender) {
    return std::find(names.begin(), names.end(), contender.name) == names.end();
  });
  return part;
}

std::string typed(const Words& words) {
  std::string text = "remora bench";
  for (const std::string& word : words) {
    const char* quote = word.find_first_of(" ,'\"") == std::string::npos ? "" : "'";
    text.append(" ").append(quote).append(word).append(quote);
  }
  return text;
}

void write_page(const Files& files, PageInput page, const std::string& folder) {
  for (const NamedFigure& figure : figures(page.comparison)) {
    const std::string file = figure.name + ".svg";
    write_text(files, (fs::path(folder) / file).string(), report::svg(figure.figure));
    page.plots.emplace_back(figure.figure.title, file);
  }
  write_text(files, (fs::path(folder) / "README.md").string(), markdown_page(page));
}

/// What is read and written but not named on the command line.
void note_files(Files& files, const std::string& path, const Suite& suite, const std::string& folder) {
  files.will_read(path, "the suite");
  for (const SuiteInstance& instance : suite.instances) {
    if (!instance.file.empty()) files.will_read(instance.file, "a graph of the suite");
  }
  for (const char* name : {"results.jsonl", "README.md"}) files.will_write((fs::path(folder) / name).string(), "--out");
}

/// This program, also where its file has been replaced meanwhile, and the zoo beside it.
Programs programs() {
  const char* self = "/proc/self/exe";
  return {self, (fs::read_symlink(self).parent_path() / "remora_zoo").string()};
}

/// A run that gave no valid answer, or two that exclude each other, must not pass unseen.
int exit_code(const std::vector<Result>& results) {
  const auto lines = contradictions(results);
  for (const std::string& line : lines) std::cerr << "remora: contradiction: " << line << "\n";
  const bool failed = std::any_of(results.begin(), results.end(), [](const Result& r) { return r.status == "failed"; });
  if (failed) std::cerr << "remora: some runs gave no valid answer; the page lists them\n";
  return failed || !lines.empty() ? kBadInput : kSuccess;
}

}  // namespace

int bench_command(const Words& words) {
  Arguments arguments("bench", "Runs a suite: instances x budgets x contenders x seeds, and compares.",
                      {{"SUITE", "a suite file, or the name of one in benchmarks/suites"}});
  arguments.add(bench_options());
  arguments.take_rest("PARAMETER", "what the suite calls {1}, {2}, ...: the folder of 'external'");
  arguments.set_notes(
      "Results are kept as they come: run again to go on where a suite stopped.\n"
      "Exit: 0 done, 65 a run gave no valid answer, 130 interrupted.");
  if (!arguments.parse(words)) return kSuccess;
  const std::string path = find_suite(arguments.file("SUITE"));
  Suite suite = load_suite(path, arguments.rest());
  if (arguments.has("time-limit")) limit_all(suite, arguments.get<double>("time-limit"));
  const Suite part = arguments.has("only") ? only(suite, arguments.get<std::vector<std::string>>("only")) : suite;
  const std::string folder = arguments.has("out") ? arguments.get<std::string>("out") : "bench-" + suite.name;
  const std::string best_known_path = arguments.has("best-known") ? arguments.output("best-known") : "";
  const bool runs = !arguments.has("no-runs");
  if (!best_known_path.empty() && runs) json::check_writable(best_known_path);

  note_files(arguments.files(), path, suite, folder);
  const SignalGuard signals;
  RunnerOptions options{.programs = programs(),
                        .folder = folder,
                        .cancel = &signals.flag(),
                        .log = arguments.has("quiet") ? nullptr : &std::cerr};
  if (!best_known_path.empty())
    options.learn = [&](const BestKnown& news) { teach(arguments.files(), best_known_path, news); };
  Runner runner(part, options);
  const bool finished = !runs || runner.run();
  // The page shows every contender's results, whoever ran now.
  const Runner all(suite, options);
  const std::vector<Result> results = all.results();
  const Comparison comparison = compare(suite, results);
  const BestKnownTable best_known = load_best_known(best_known_path);
  write_page(arguments.files(),
             {suite, comparison, results, runner.missing(), best_known, typed(words), all.planned(), {}}, folder);
  if (!finished) {
    std::cerr << "remora: interrupted; run again to go on\n";
    return kInterrupted;
  }
  return exit_code(results);
}

}  // namespace remora::cli
