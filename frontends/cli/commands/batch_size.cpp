// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/commands/batch_size.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/allowance.hpp"
#include "engine/baselines/method.hpp"
#include "engine/computes_choice.hpp"
#include "engine/solve.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/verify.hpp"

namespace remora::cli {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kMostBatch = std::int64_t{1} << 32;
/// One size may take this part of the time that is left, or this part of all where that is more: the last ones decide.
constexpr double kShareOfRest = 0.25;
constexpr double kShareOfAll = 0.1;
constexpr const char* kScheduleName = "batch-";
constexpr const char* kDefaultOverhead = "10%";

/// One size and what was found for it.
struct Trial {
  std::int64_t size = 0;
  Fit fit = Fit::undecided;
  Schedule schedule{};
};

const char* fit_word(Fit fit) {
  switch (fit) {
    case Fit::fits:
      return "fits";
    case Fit::impossible:
      return "impossible";
    case Fit::undecided:
      break;
  }
  return "undecided";
}

/// "10%" of a duration, exactly: as a budget of as many units.
Duration most_duration(const std::string& overhead, Duration baseline) {
  try {
    const Bytes allowed = read_budget(overhead, Bytes(0), Bytes(baseline.count()));
    if (overhead.ends_with('%')) return baseline + Duration(allowed.count());
  } catch (const UsageError&) {
    // Told below, in terms of overheads.
  }
  throw UsageError("--overhead: '" + overhead + "' is not a percentage (10%)");
}

Fit fit_of(const Schedule& schedule, Duration most) {
  if (schedule.has_schedule() && schedule.duration <= most) return Fit::fits;
  const bool is_impossible = schedule.status == Status::infeasible || schedule.lower_bound > most;
  return is_impossible ? Fit::impossible : Fit::undecided;
}

/// Solves until it is clear whether the duration holds.
Schedule solve_until_clear(const Instance& instance, const SolveOptions& options, Duration most, bool more_computes,
                           const std::atomic<bool>& cancel) {
  const auto is_clear = [&](const Progress& progress) {
    const bool fits = progress.peak <= instance.budget() && progress.duration <= most;
    return fits || progress.lower_bound > most;
  };
  const SolveCallbacks callbacks{.enough = is_clear, .cancel = &cancel};
  return more_computes ? solve_with_more_computes(instance, options, callbacks) : solve(instance, options, callbacks);
}

/// The same, where ops may run more often than the problem says: what is proved to be impossible is tried with one compute
/// more, for a quarter as long again. What that leaves undecided is proved of the fewer.
Schedule solve_until_clear_of_all(const Instance& instance, const SolveOptions& options, Duration most,
                                  const std::atomic<bool>& cancel) {
  Allowance allowance(limits_of(options), &cancel);
  Schedule clear = solve_until_clear(instance, options, most, true, cancel);
  allowance.spend(Work(clear.solver.work));
  while (fit_of(clear, most) == Fit::impossible && clear.solver.max_computes < kMostComputes && !allowance.is_over()) {
    const Instance wider = with_computes(instance, clear.solver.max_computes + 1);
    Schedule next = solve_until_clear(wider, within(options, allowance.again(kPartAfterProof)), most, true, cancel);
    allowance.spend(Work(next.solver.work));
    if (fit_of(next, most) == Fit::undecided) break;
    clear = std::move(next);
  }
  clear.solver.seconds = allowance.elapsed();
  clear.solver.work = allowance.spent().count();
  return clear;
}

class BatchSizeSearch {
 public:
  BatchSizeSearch(const Arguments& arguments, const SolveOptions& options, const Problem& problem, bool more_computes)
      : arguments_(arguments),
        options_(options),
        problem_(problem),
        more_computes_(more_computes),
        dimension_(arguments.get<std::string>("batch-size")),
        overhead_(arguments.has("overhead") ? arguments.get<std::string>("overhead") : kDefaultOverhead),
        budget_(budget_of(arguments)),
        quiet_(arguments.has("quiet")),
        allowance_({.seconds = options.time_limit}, &signals_.flag()) {
    signals_.heed_memory();
    static_cast<void>(most_duration(overhead_, Duration(1)));
    // Read anew for each size.
    if (arguments.file("GRAPH") == "-") throw UsageError("--batch-size: GRAPH must be a file, not standard input");
    json::check_writable(arguments.output("output"));
    if (arguments.has("schedules")) {
      const std::string& folder = arguments.get<std::string>("schedules");
      fs::create_directories(folder);
      arguments.files().will_write_in(folder, kScheduleName, "--schedules");
    }
    if (!quiet_) warn_of_weaker_bound(options);
  }

  int run() {
    const LargestFit answer = find_largest_fit(kMostBatch, [&](std::int64_t size) { return try_size(size); });
    if (arguments_.has("schedules") && answer.largest) write_schedule(*answer.largest);
    arguments_.files().write(arguments_.output("output"), [&](std::ostream& out) { write_answer(out, answer); });
    if (!quiet_) print_answer(answer);
    if (answer.largest) return kSuccess;
    return !trials_.empty() && trials_.back().fit == Fit::impossible ? kInfeasible : kNoSchedule;
  }

 private:
  static Bytes budget_of(const Arguments& arguments) {
    const std::string& text = arguments.get<std::string>("budget");
    if (text.ends_with('%')) {
      throw UsageError("--budget: a percentage grows with the batch; --batch-size takes bytes (12GiB)");
    }
    return read_budget(text, Bytes(0), Bytes(0));
  }

  [[nodiscard]] LoadedGraph load(std::int64_t size) const {
    // What there is to warn of is told once.
    return load_graph(arguments_.file("GRAPH"), arguments_, quiet_ || !trials_.empty(), {{dimension_, size}});
  }

  std::optional<Fit> try_size(std::int64_t size) {
    if (allowance_.is_over()) return std::nullopt;
    const LoadedGraph loaded = load(size);
    const Instance instance = Instance(loaded.graph, problem_).with_budget(budget_);
    const Duration most = most_duration(overhead_, instance.baseline_duration());
    SolveOptions options = options_;
    const double left = allowance_.left().seconds;
    options.time_limit = std::min(left, std::max(kShareOfRest * left, kShareOfAll * options_.time_limit));
    const bool chooses = more_computes_ && is_search(options.strategy);
    Trial trial{.size = size,
                .schedule = chooses ? solve_until_clear_of_all(instance, options, most, signals_.flag())
                                    : solve_until_clear(instance, options, most, false, signals_.flag())};
    Schedule& schedule = trial.schedule;
    schedule.graph_sha256 = loaded.sha256;
    schedule.reading = reading_of(arguments_);
    schedule.reading.push_back("--dim=" + dimension_ + "=" + std::to_string(size));
    if (schedule.has_schedule()) {
      ensure(verify(*loaded.graph, schedule).valid(), "batch size: the schedule found does not verify");
    }
    trial.fit = fit_of(schedule, most);
    if (!quiet_) print(trial);
    trials_.push_back(std::move(trial));
    return trials_.back().fit;
  }

  [[nodiscard]] const Trial& trial_of(std::int64_t size) const {
    return *std::find_if(trials_.begin(), trials_.end(), [&](const Trial& trial) { return trial.size == size; });
  }

  void print(const Trial& trial) {
    if (trials_.empty()) std::cerr << "  seconds  batch size  answer        overhead       bound  peak\n";
    const Schedule& schedule = trial.schedule;
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(), "%9.2f  %10s  %-10s  %10s  %10s  %s\n", allowance_.elapsed(),
                  text::grouped(trial.size).c_str(), fit_word(trial.fit),
                  schedule.has_schedule() ? text::percent_text(schedule.overhead(), 3).c_str() : "-",
                  text::percent_text(schedule.least_overhead(), 3).c_str(),
                  schedule.has_schedule() ? text::bytes_text(schedule.peak_memory).c_str() : "-");
    std::cerr << line.data() << std::flush;
  }

  void write_schedule(std::int64_t size) const {
    const fs::path folder = arguments_.get<std::string>("schedules");
    const LoadedGraph loaded = load(size);
    arguments_.files().write(
        (folder / (kScheduleName + std::to_string(size) + ".json")).string(),
        [&](std::ostream& out) { json::write_schedule(out, trial_of(size).schedule, *loaded.graph); });
  }

  void write_answer(std::ostream& out, const LargestFit& answer) const {
    std::string text;
    json::ObjectText object(text, ",\n  ");
    object.string("format", "remora-batch-size");
    object.integer("version", 1);
    object.string("dimension", dimension_);
    object.integer("budget", budget_.count());
    object.string("overhead", overhead_);
    if (answer.largest) object.integer("largest", *answer.largest);
    if (answer.next) object.integer("next", *answer.next);
    object.boolean("proved", is_proved(answer));
    object.key("trials");
    json::append_lines(text, 2, trials_.size(), [&](std::size_t i) { write_trial(text, trials_[i]); });
    object.close();
    out << text << "\n";
  }

  static void write_trial(std::string& text, const Trial& trial) {
    json::ObjectText object(text);
    object.integer("size", trial.size);
    object.string("answer", fit_word(trial.fit));
    if (trial.schedule.has_schedule()) {
      object.number("overhead", trial.schedule.overhead());
      object.integer("peak_memory", trial.schedule.peak_memory.count());
    }
    object.integer("baseline_peak_memory", trial.schedule.baseline_peak_memory.count());
    object.integer("max_computes", trial.schedule.solver.max_computes);
    object.number("seconds", trial.schedule.solver.seconds);
    object.close();
  }

  [[nodiscard]] bool is_proved(const LargestFit& answer) const {
    return answer.next && *answer.next == answer.largest.value_or(0) + 1 &&
           trial_of(*answer.next).fit == Fit::impossible;
  }

  void print_answer(const LargestFit& answer) const {
    const std::string with = " within " + text::bytes_text(budget_) + " at " + overhead_ + " overhead";
    if (!answer.largest) {
      std::cerr << "no batch size fits" << with << "\n";
      return;
    }
    std::cerr << "largest     " << dimension_ << " = " << text::grouped(*answer.largest) << with;
    if (is_proved(answer)) {
      std::cerr << ": proved, one more is impossible with at most "
                << trial_of(*answer.next).schedule.solver.max_computes << " computes per op\n";
    } else if (answer.next) {
      std::cerr << "; " << text::grouped(*answer.next) << " is " << fit_word(trial_of(*answer.next).fit)
                << (*answer.next > *answer.largest + 1 ? ", what is between was not tried\n" : "\n");
    } else {
      std::cerr << "; no larger one was tried\n";
    }
  }

  const Arguments& arguments_;
  const SolveOptions& options_;
  const Problem& problem_;
  bool more_computes_;
  std::string dimension_;
  std::string overhead_;
  Bytes budget_;
  bool quiet_;
  SignalGuard signals_;
  Allowance allowance_;
  std::vector<Trial> trials_;
};

}  // namespace

LargestFit find_largest_fit(std::int64_t most, const std::function<std::optional<Fit>(std::int64_t)>& fit) {
  LargestFit answer;
  std::int64_t size = 1;
  while (size <= most) {
    const std::optional<Fit> of_size = fit(size);
    if (!of_size) return answer;
    if (*of_size == Fit::fits) {
      answer.largest = size;
    } else {
      answer.next = size;
    }
    const std::int64_t below = answer.largest.value_or(0);
    if (!answer.next) {
      if (size == most) return answer;
      size = std::min(most, size * 2);
    } else {
      if (*answer.next == below + 1) return answer;
      size = below + (*answer.next - below) / 2;
    }
  }
  return answer;
}

int find_batch_size(const Arguments& arguments, const SolveOptions& options, const Problem& problem,
                    bool more_computes) {
  return BatchSizeSearch(arguments, options, problem, more_computes).run();
}

}  // namespace remora::cli
