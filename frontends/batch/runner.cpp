// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/runner.hpp"

#include <array>
#include <exception>
#include <new>
#include <ostream>
#include <utility>

#include <unistd.h>

#include "frontends/batch/question.hpp"
#include "frontends/text/text.hpp"
#include "model/quote.hpp"

namespace remora::batch {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// What came of one attempt.
struct Attempt {
  Question question{};
  std::optional<Begun> begun{};
  std::int64_t runs = 0;
  std::string started{};
  std::optional<Answer> answer{};
  bool was_there = false;
  bool is_for_later = false;
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
      attempt.answer = solver_.solve({task, attempt.question.graph_sha256, attempt.begun});
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

  /// False if the task is not done.
  bool file(const Task& task, const Attempt& attempt) {
    const Record record = record_of(task, attempt);
    if (record.status == "interrupted") {
      store_.put_partial(record);
      summary_.interrupted = true;
      log(task, "interrupted, to be resumed");
      return false;
    }
    store_.put_result(record);
    ++summary_.solved[record.status];
    log(task, record.status);
    return true;
  }

  [[nodiscard]] Record record_of(const Task& task, const Attempt& attempt) const {
    const Answer& answer = *attempt.answer;
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
