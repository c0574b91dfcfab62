// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/runner.hpp"

#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "frontends/bench/machine.hpp"
#include "frontends/bench/process.hpp"
#include "frontends/bench/read_answer.hpp"
#include "frontends/json/file.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora::bench {
namespace {

namespace fs = std::filesystem;

/// A run that takes so many times its limit, and some, hangs.
constexpr double kPatienceFactor = 1.5;
constexpr double kPatienceSeconds = 60;

std::string with_marks_filled(std::string word, const std::map<std::string, std::string>& values) {
  for (const auto& [mark, value] : values) {
    const auto at = word.find(mark);
    if (at != std::string::npos) word.replace(at, mark.size(), value);
  }
  return word;
}

std::string number_text(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string log_text(const Result& result) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(4);
  text << result.key.instance << " " << result.key.budget << " " << result.key.contender << " seed " << result.key.seed
       << ": " << result.status;
  if (result.has_schedule()) text << ", overhead " << *result.overhead() << " %";
  text << std::setprecision(1) << ", " << result.seconds << " s";
  if (!result.note.empty()) text << " (" << result.note << ")";
  return text.str();
}

}  // namespace

/// One run.
struct Runner::Job {
  const SuiteInstance& instance;
  const StoredInstance& stored;
  const Contender& contender;
  RunKey key{};
  std::int64_t edges = 0;
  Bytes budget{};
  std::string output{};
};

Runner::Runner(const Suite& suite, RunnerOptions options)
    : suite_(suite),
      options_(std::move(options)),
      store_(options_.programs, options_.folder + "/work", options_.cancel) {
  if (!fs::exists(results_file())) return;
  std::istringstream lines(json::read_file(results_file()));
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    try {
      const Result result = from_line(line);
      results_.insert_or_assign(result.key, result);
    } catch (const InputError& error) {
      throw InputError(results_file() + ":" + std::to_string(number), error.what());
    }
  }
}

bool Runner::run(BestKnownTable& best_known) {
  missing_.clear();
  done_ = 0;
  planned_ = 0;
  for (const SuiteInstance& instance : suite_.instances) {
    const auto budgets = (instance.budgets.empty() ? suite_.budgets : instance.budgets).size();
    for (const Contender& contender : suite_.contenders) {
      planned_ += budgets * (contender.seeds.empty() ? suite_.seeds : contender.seeds).size();
    }
  }
  for (const SuiteInstance& instance : suite_.instances) {
    if (!run_instance(instance, best_known)) return false;
  }
  return true;
}

bool Runner::run_instance(const SuiteInstance& instance, BestKnownTable& best_known) {
  const StoredInstance stored = store_.get(instance);
  if (cancelled()) return false;
  if (stored.graph == nullptr) {
    missing_.emplace(instance.name, stored.missing);
    if (options_.log != nullptr) *options_.log << instance.name << " left out: " << stored.missing << std::endl;
    return true;
  }
  const Instance unlimited(stored.graph, {});
  const Bytes peak = baseline_peak(unlimited);
  const std::int64_t edges = edge_count(*stored.graph);
  for (const std::string& budget : instance.budgets.empty() ? suite_.budgets : instance.budgets) {
    for (const Contender& contender : suite_.contenders) {
      for (const std::int64_t seed : contender.seeds.empty() ? suite_.seeds : contender.seeds) {
        Job job{instance, stored, contender};
        job.key = {instance.name, budget, contender.name, seed, suite_.time_limit, suite_.threads};
        job.edges = edges;
        job.budget = options_.parse_budget(budget, stored.graph->fixed_memory, peak);
        job.output = options_.folder + "/work/schedule.json";
        if (!run_job(job, best_known)) return false;
      }
    }
  }
  return true;
}

std::vector<std::string> Runner::command(const Job& job) const {
  const std::map<std::string, std::string> values{{"{graph}", job.stored.path},
                                                  {"{budget}", std::to_string(job.budget.count())},
                                                  {"{time_limit}", number_text(job.key.time_limit)},
                                                  {"{threads}", std::to_string(job.key.threads)},
                                                  {"{seed}", std::to_string(job.key.seed)},
                                                  {"{output}", job.output}};
  std::vector<std::string> words = job.contender.command;
  if (words.empty()) {
    words = {options_.programs + "/remora",
             "solve",
             "{graph}",
             "--budget",
             "{budget}",
             "--quiet",
             "--time-limit",
             "{time_limit}",
             "--threads",
             "{threads}",
             "--seed",
             "{seed}",
             "-o",
             "{output}"};
    words.insert(words.end(), job.contender.arguments.begin(), job.contender.arguments.end());
  }
  for (std::string& word : words) word = with_marks_filled(word, values);
  return words;
}

bool Runner::run_job(const Job& job, BestKnownTable& best_known) {
  ++done_;
  const auto known = results_.find(job.key);
  if (known != results_.end() && known->second.graph_sha256 == job.stored.sha256) return true;
  fs::remove(job.output);
  const ProcessOutcome outcome =
      run_process(command(job), {.cores = job.key.threads,
                                 .patience = kPatienceFactor * job.key.time_limit + kPatienceSeconds,
                                 .cancel = options_.cancel});
  if (outcome.cancelled || cancelled()) return false;
  Result result{.key = job.key,
                .graph_sha256 = job.stored.sha256,
                .ops = static_cast<std::int64_t>(job.stored.graph->ops.size()),
                .edges = job.edges,
                .budget_bytes = job.budget.count(),
                .seconds = outcome.seconds,
                .cpu_seconds = outcome.cpu_seconds,
                .peak_kibibytes = outcome.peak_kibibytes,
                .commit = built_commit(),
                .when = now_text()};
  const std::optional<Schedule> schedule = read_answer(outcome, job.output, *job.stored.graph, result);
  add(result);
  if (schedule) {
    const std::optional<BestKnown> news = best_known_of(job.instance, *schedule, job.stored.graph, result);
    if (news) best_known.learn(*news);
  }
  return true;
}

void Runner::add(const Result& result) {
  std::ofstream file(results_file(), std::ios::app);
  file << to_line(result) << std::endl;
  if (!file) throw InputError(results_file(), "cannot be written");
  results_.insert_or_assign(result.key, result);
  if (options_.log != nullptr)
    *options_.log << "[" << done_ << "/" << planned_ << "] " << log_text(result) << std::endl;
}

std::vector<Result> Runner::results() const {
  std::vector<Result> list;
  for (const SuiteInstance& instance : suite_.instances) {
    for (const std::string& budget : instance.budgets.empty() ? suite_.budgets : instance.budgets) {
      for (const Contender& contender : suite_.contenders) {
        for (const std::int64_t seed : contender.seeds.empty() ? suite_.seeds : contender.seeds) {
          const auto at =
              results_.find({instance.name, budget, contender.name, seed, suite_.time_limit, suite_.threads});
          if (at != results_.end()) list.push_back(at->second);
        }
      }
    }
  }
  return list;
}

}  // namespace remora::bench
