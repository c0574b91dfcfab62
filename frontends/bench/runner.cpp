// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/runner.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iomanip>
#include <sstream>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "frontends/bench/machine.hpp"
#include "frontends/bench/process.hpp"
#include "frontends/bench/read_answer.hpp"
#include "frontends/bench/words.hpp"
#include "frontends/text/clock.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"

namespace remora::bench {
namespace {

namespace fs = std::filesystem;

/// A run that takes so many times its limit, and some, hangs.
constexpr double kPatienceFactor = 1.5;
constexpr double kPatienceSeconds = 60;
/// No graph's file is called so: theirs end in .json or .made.
constexpr const char* kAnswerFile = "answer.schedule";

std::string number_text(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

/// Calls visit(contender, key) for every run that the suite plans of the instance.
template <class Visit>
void for_each_key(const Suite& suite, const SuiteInstance& instance, Visit visit) {
  const double time_limit = instance.time_limit.value_or(suite.time_limit);
  for (const std::string& budget : instance.budgets.empty() ? suite.budgets : instance.budgets) {
    for (const Contender& contender : suite.contenders) {
      for (const std::int64_t seed : contender.seeds.empty() ? suite.seeds : contender.seeds) {
        visit(contender, RunKey{instance.name, budget, contender.name, seed, time_limit, suite.threads});
      }
    }
  }
}

bool is_asked(const Contender& contender, std::int64_t ops) {
  return contender.most_ops == 0 || ops <= contender.most_ops;
}

/// Holds the folder for one benchmark at a time; the system lets go when the process ends.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder)
      : descriptor_(open((folder + "/lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0 || flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      const std::string reason = std::strerror(errno);
      if (descriptor_ >= 0) close(descriptor_);
      throw InputError(folder, "another benchmark runs there, or it cannot be locked: " + reason);
    }
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() { close(descriptor_); }

 private:
  int descriptor_;
};

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
  Duration baseline{};
  Bytes budget{};
  std::string output{};
};

Runner::Runner(const Suite& suite, RunnerOptions options)
    : suite_(suite),
      options_(std::move(options)),
      store_(options_.programs, options_.folder + "/work", options_.cancel),
      results_(options_.folder + "/results.jsonl") {
  if (usable_cores() > 0 && suite.threads > usable_cores()) {
    throw InputError("suite " + suite.name, "wants " + std::to_string(suite.threads) +
                                                " threads, each pinned to a core, of " +
                                                std::to_string(usable_cores()));
  }
  // Better now than after hours.
  for (const SuiteInstance& instance : suite.instances) {
    for_each_key(suite, instance,
                 [&](const Contender&, const RunKey& key) { parse_budget(key.budget, Bytes(0), Bytes(0)); });
  }
}

void Runner::log(const std::string& line) const {
  if (options_.log != nullptr) *options_.log << line << std::endl;
}

void Runner::leave_out(const std::string& name, const std::string& why) {
  if (missing_.emplace(name, why).second) log(name + " left out: " + why);
}

std::size_t Runner::planned() const {
  std::size_t count = 0;
  for (const SuiteInstance& instance : suite_.instances) {
    for_each_key(suite_, instance, [&](const Contender&, const RunKey&) { ++count; });
  }
  return count;
}

bool Runner::run() {
  const FolderLock lock(options_.folder);
  missing_.clear();
  done_ = 0;
  for (const SuiteInstance& instance : suite_.instances) {
    if (!run_instance(instance)) return false;
  }
  return true;
}

bool Runner::run_instance(const SuiteInstance& instance) {
  const StoredInstance stored = store_.get(instance);
  if (cancelled()) return false;
  if (stored.graph == nullptr) {
    leave_out(instance.name, stored.missing);
    return true;
  }
  const Instance unlimited(stored.graph, {});
  const Bytes peak = baseline_peak(unlimited);
  const std::int64_t edges = edge_count(*stored.graph);
  bool goes_on = true;
  for_each_key(suite_, instance, [&](const Contender& contender, const RunKey& key) {
    ++done_;
    const Job job{instance,
                  stored,
                  contender,
                  key,
                  edges,
                  unlimited.baseline_duration(),
                  parse_budget(key.budget, stored.graph->fixed_memory, peak),
                  options_.folder + "/work/" + kAnswerFile};
    goes_on = goes_on && (is_done(job) || run_job(job));
  });
  return goes_on;
}

/// Whether there is nothing to run: an answer is there, or the contender is not asked.
bool Runner::is_done(const Job& job) const {
  if (!is_asked(job.contender, static_cast<std::int64_t>(job.stored.graph->ops.size()))) return true;
  if (missing_.contains(job.contender.name)) return true;
  const Result* known = results_.find(job.key);
  return known != nullptr && known->graph_sha256 == job.stored.sha256 && known->asked == job.contender.asked &&
         known->status != "failed";
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
    words = {options_.programs.remora, "solve",     "{graph}",   "--budget", "{budget}", "--quiet", "--time-limit",
             "{time_limit}",           "--threads", "{threads}", "--seed",   "{seed}",   "-o",      "{output}"};
    words.insert(words.end(), job.contender.arguments.begin(), job.contender.arguments.end());
  }
  for (std::string& word : words) {
    for (const auto& [mark, value] : values) replace_all(word, mark, value);
  }
  return words;
}

bool Runner::run_job(const Job& job) {
  fs::remove(job.output);
  ProcessOutcome outcome;
  try {
    outcome = run_process(command(job), {.cores = job.key.threads,
                                         .patience = kPatienceFactor * job.key.time_limit + kPatienceSeconds,
                                         .cancel = options_.cancel});
  } catch (const InputError& error) {
    leave_out(job.contender.name, error.what());
    return true;
  }
  if (outcome.cancelled || cancelled()) return false;
  Result result{.key = job.key,
                .graph_sha256 = job.stored.sha256,
                .asked = job.contender.asked,
                .ops = static_cast<std::int64_t>(job.stored.graph->ops.size()),
                .edges = job.edges,
                .budget_bytes = job.budget.count(),
                .baseline_duration = job.baseline.count(),
                .seconds = outcome.seconds,
                .cpu_seconds = outcome.cpu_seconds,
                .peak_kibibytes = outcome.peak_kibibytes,
                .commit = built_commit(),
                .machine = machine_text(),
                .when = text::now_text()};
  const std::optional<Schedule> schedule = read_answer(outcome, job.output, *job.stored.graph, result);
  if (schedule && options_.learn) {
    const std::optional<BestKnown> news = best_known_of(job.instance, *schedule, job.stored.graph, result);
    if (news) options_.learn(*news);
  }
  results_.add(result);
  log("[" + std::to_string(done_) + "/" + std::to_string(planned()) + "] " + log_text(result));
  return true;
}

std::vector<Result> Runner::results() const {
  std::vector<Result> list;
  for (const SuiteInstance& instance : suite_.instances) {
    std::vector<const Result*> found;
    for_each_key(suite_, instance, [&](const Contender& contender, const RunKey& key) {
      const Result* result = results_.find(key);
      if (result == nullptr || result->asked != contender.asked) return;
      if (is_asked(contender, result->ops)) found.push_back(result);
    });
    if (found.empty()) continue;
    const Result* latest = *std::max_element(found.begin(), found.end(),
                                             [](const Result* a, const Result* b) { return a->when < b->when; });
    for (const Result* result : found) {
      if (result->graph_sha256 == latest->graph_sha256) list.push_back(*result);
    }
  }
  return list;
}

}  // namespace remora::bench
