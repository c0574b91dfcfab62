// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/runner.hpp"

#include <array>
#include <charconv>
#include <exception>
#include <new>
#include <ostream>
#include <string_view>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "frontends/batch/question.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::batch {
namespace {

constexpr const char* kSlurmIndex = "SLURM_ARRAY_TASK_ID";
constexpr const char* kCompletionIndex = "JOB_COMPLETION_INDEX";

std::size_t number(const std::string& place, std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw InputError(place, quote(text) + " is not a whole number");
  }
  return value;
}

Shard checked(Shard shard) {
  if (shard.count < 1) throw InputError(shard.source, "there must be at least one shard");
  if (shard.index < shard.count) return shard;
  throw InputError(shard.source, "index " + std::to_string(shard.index) + " is not below the number of shards, " +
                                     std::to_string(shard.count));
}

Shard from_text(std::string_view text) {
  constexpr const char* kPlace = "--shard";
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) throw InputError(kPlace, "expected i/n, for example 3/8, got " + quote(text));
  Shard shard{.index = number(kPlace, text.substr(0, slash)) - 1,
              .count = number(kPlace, text.substr(slash + 1)),
              .source = kPlace};
  // 0 has wrapped around and is too large, too.
  if (shard.index < shard.count) return shard;
  throw InputError(kPlace, quote(text) + " is not one of 1/n to n/n");
}

std::size_t variable(const char* name, const Environment& environment) {
  const char* text = environment(name);
  if (text == nullptr) throw InputError(kSlurmIndex, std::string("is set, but ") + name + " is not; give --shard i/n");
  return number(name, text);
}

Shard from_slurm(const std::string& index, const std::optional<std::string>& count, const Environment& environment) {
  const std::size_t id = number(kSlurmIndex, index);
  if (count) return checked({.index = id, .count = number("--shard-count", *count), .source = kSlurmIndex});
  const std::size_t least = variable("SLURM_ARRAY_TASK_MIN", environment);
  const std::size_t most = variable("SLURM_ARRAY_TASK_MAX", environment);
  const char* step_text = environment("SLURM_ARRAY_TASK_STEP");
  const std::size_t step = step_text == nullptr ? 1 : number("SLURM_ARRAY_TASK_STEP", step_text);
  const std::size_t elements = variable("SLURM_ARRAY_TASK_COUNT", environment);
  const bool inside = step > 0 && least <= id && id <= most;
  if (!inside || (id - least) % step != 0 || (most - least) / step + 1 != elements) {
    throw InputError(kSlurmIndex,
                     "the array is not a plain range; give --shard i/n, or --shard-count n for elements of 0 "
                     "to n-1");
  }
  return checked({.index = (id - least) / step, .count = elements, .source = kSlurmIndex});
}

Shard from_completion(const std::string& index, const std::optional<std::string>& count,
                      const Environment& environment) {
  const char* completions = environment("JOB_COMPLETIONS");
  if (!count && completions == nullptr) {
    throw InputError(kCompletionIndex, "is set, but not how many there are; give --shard-count n or JOB_COMPLETIONS");
  }
  const std::size_t shards = count ? number("--shard-count", *count) : number("JOB_COMPLETIONS", completions);
  return checked({.index = number(kCompletionIndex, index), .count = shards, .source = kCompletionIndex});
}

}  // namespace

std::string Shard::text() const {
  return std::to_string(index + 1) + "/" + std::to_string(count);
}

Shard find_shard(const std::optional<std::string>& shard, const std::optional<std::string>& count,
                 const Environment& environment) {
  if (shard && count) throw InputError("--shard-count", "not with --shard, which says the number already");
  if (shard) return from_text(*shard);
  const char* slurm = environment(kSlurmIndex);
  const char* completion = environment(kCompletionIndex);
  if (slurm != nullptr && completion != nullptr) {
    throw InputError(kSlurmIndex, std::string("is set, and ") + kCompletionIndex + " too; give --shard i/n");
  }
  if (slurm != nullptr) return from_slurm(slurm, count, environment);
  if (completion != nullptr) return from_completion(completion, count, environment);
  if (count)
    throw InputError("--shard-count", "needs SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX; or give --shard i/n");
  return {};
}

namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// The result of one attempt.
struct Attempt {
  Question question{};
  std::optional<Begun> begun{};
  std::int64_t runs = 0;
  std::string started{};
  std::optional<Answer> answer{};
  bool was_there = false;
  bool is_for_later = false;
  /// The best so far could not be filed while it was in work.
  bool is_unkept = false;
  /// Why there is nothing of all this; else empty.
  std::string error{};
};

class Run {
 public:
  Run(const Store& store, Solver& solver, const RunnerOptions& options)
      : store_(store), solver_(solver), asking_(solver), options_(options), host_(host_name()) {}

  RunSummary all(const std::vector<Task>& tasks) {
    for (std::size_t position = 0; position < tasks.size(); ++position) {
      if (options_.shard.takes(position)) mine_.push_back(&tasks[position]);
    }
    summary_.tasks = mine_.size();
    for (std::size_t i = 0; i < mine_.size(); ++i) visit(i, false);
    for (const std::size_t i : last_) visit(i, true);
    store_.clean(settled_);
    return summary_;
  }

 private:
  /// `is_last`: also a task that an earlier run did not survive.
  void visit(std::size_t i, bool is_last) {
    if (cancelled()) summary_.interrupted = true;
    if (summary_.interrupted) return;
    number_ = i + 1;
    const Attempt result = attempt(*mine_[i], is_last);
    if (result.is_for_later) last_.push_back(i);
    if (!result.is_for_later) settle(*mine_[i], result);
  }

  [[nodiscard]] bool cancelled() const { return options_.cancel != nullptr && options_.cancel->load(); }

  /// Whatever goes wrong with a task is that task's error.
  Attempt attempt(const Task& task, bool is_last) {
    Attempt attempt;
    try {
      attempt.question = asking_.question_of(task);
      const std::string key = key_of(attempt.question);
      attempt.was_there = store_.has_result(key);
      if (attempt.was_there) return attempt;
      // It may need more memory than there is: the others must not wait for it.
      attempt.is_for_later = !is_last && store_.is_begun(key);
      if (attempt.is_for_later) return attempt;
      asking_.check_digest(task);
      if (const std::optional<Record> partial = store_.partial(key)) {
        attempt.begun = Begun{partial->schedule, partial->seconds, partial->work};
        attempt.runs = partial->runs;
      }
      attempt.started = text::now_text();
      store_.note_begun(key);
      log(task, attempt.begun ? "resumed" : "begun");
      attempt.answer = solver_.solve(
          {task, attempt.question.graph_sha256, attempt.begun, [&](const Answer& best) { keep(task, attempt, best); }});
    } catch (const std::bad_alloc&) {
      attempt.error = "out of memory";
    } catch (const std::exception& error) {
      attempt.error = error.what();
      if (attempt.error.empty()) attempt.error = "unknown error";
    }
    return attempt;
  }

  void settle(const Task& task, const Attempt& attempt) {
    note(task, attempt);
    // After the answer is filed: the mark says that a run did not survive the task.
    if (!attempt.started.empty()) store_.forget_begun(key_of(attempt.question));
  }

  /// Files what came of it.
  void note(const Task& task, const Attempt& attempt) {
    if (!attempt.error.empty()) {
      ++summary_.errors;
      store_.put_error(task, {task.id, task.graph, attempt.error, origin()});
      settled_.push_back(error_name_of(task));
      return log(task, "error: " + attempt.error);
    }
    if (attempt.was_there) {
      ++summary_.skipped;
    } else if (!attempt.answer) {
      summary_.interrupted = true;
      return;
    } else if (!file(task, attempt)) {
      return;
    }
    store_.forget_error(task);
    settled_.push_back(key_of(attempt.question));
    settled_.push_back(error_name_of(task));
  }

  /// Files the best so far of a task in work. That it cannot be written is no reason to stop.
  void keep(const Task& task, Attempt& attempt, const Answer& best) const {
    if (attempt.is_unkept) return;
    try {
      Record record = record_of(task, attempt, best);
      record.status = kInterrupted;
      store_.put_partial(record);
    } catch (const InputError& error) {
      attempt.is_unkept = true;
      log(task, std::string("warning: the best so far is not kept: ") + error.what());
    }
  }

  /// Waits where the disk is full: hours of work may be in the answer. Throws once it is cancelled.
  void put_result(const Task& task, const Record& record) const {
    for (bool is_logged = false;; is_logged = true) {
      try {
        return store_.put_result(record);
      } catch (const json::NoRoomError& error) {
        if (cancelled()) throw;
        if (!is_logged) log(task, std::string(error.what()) + "; waits for room");
      }
    }
  }

  /// False if the task is not done.
  bool file(const Task& task, const Attempt& attempt) {
    const Record record = record_of(task, attempt, *attempt.answer);
    if (record.status == kInterrupted) {
      store_.put_partial(record);
      summary_.interrupted = true;
      log(task, "interrupted, to be resumed");
      return false;
    }
    put_result(task, record);
    ++summary_.solved[record.status];
    log(task, record.status);
    return true;
  }

  [[nodiscard]] Record record_of(const Task& task, const Attempt& attempt, const Answer& answer) const {
    const Begun begun = attempt.begun.value_or(Begun{});
    return {.question = attempt.question,
            .status = answer.status,
            .task = task.id,
            .graph = task.graph,
            .seconds = begun.seconds + answer.seconds,
            .work = begun.work + answer.work,
            .runs = attempt.runs + 1,
            .threads = answer.threads,
            .started = attempt.started,
            .origin = origin(),
            .schedule = answer.schedule};
  }

  [[nodiscard]] Origin origin() const { return {host_, options_.shard.text(), text::now_text()}; }

  void log(const Task& task, const std::string& what) const {
    if (options_.log == nullptr) return;
    *options_.log << "[" << number_ << "/" << mine_.size() << "] " << printable(task.id) << "  " << what << std::endl;
  }

  const Store& store_;
  Solver& solver_;
  Asking asking_;
  const RunnerOptions& options_;
  std::string host_;
  std::vector<const Task*> mine_{};
  /// Those of them that come after all others.
  std::vector<std::size_t> last_{};
  std::size_t number_ = 0;
  std::vector<std::string> settled_{};
  RunSummary summary_{};
};

}  // namespace

RunSummary run_batch(const std::vector<Task>& tasks, const Store& store, Solver& solver, const RunnerOptions& options) {
  return Run(store, solver, options).all(tasks);
}

}  // namespace remora::batch
