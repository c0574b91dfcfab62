// SPDX-License-Identifier: Apache-2.0
//
// The largest batch that a budget holds at a given overhead: `remora sweep MODEL --batch-size DIM --budget B`.
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>

#include "engine/ask/largest_fit.hpp"
#include "frontends/cli/commands/command.hpp"
#include "frontends/cli/reading/graph_source.hpp"
#include "frontends/cli/reading/solve_options.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/formats/json.hpp"
#include "frontends/formats/json_text.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"

namespace remora::cli {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kMaxBatch = std::int64_t{1} << 32;
constexpr const char* kScheduleName = "batch-";
constexpr const char* kDefaultOverhead = "10%";

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

class BatchSizeSearch {
 public:
  BatchSizeSearch(const Arguments& arguments, const Request& request)
      : arguments_(arguments),
        request_(request),
        dimension_(arguments.get<std::string>("batch-size")),
        overhead_(arguments.has("overhead") ? arguments.get<std::string>("overhead") : kDefaultOverhead),
        budget_(budget_of(arguments)),
        quiet_(arguments.has("quiet")) {
    signals_.watch_memory();
    request_.budget = budget_;
    static_cast<void>(most_duration(overhead_, Duration(1)));
    // Read anew for each size.
    if (arguments.file("GRAPH") == "-") throw UsageError("--batch-size: GRAPH must be a file, not standard input");
    json::check_writable(arguments.output("output"));
    if (arguments.has("schedules")) {
      const std::string& folder = arguments.get<std::string>("schedules");
      fs::create_directories(folder);
      arguments.files().will_write_in(folder, kScheduleName, "--schedules");
    }
    if (!quiet_) warn_of_weaker_bound(request.options);
  }

  int run() {
    const FitRequest asked{.request = request_,
                           .most = kMaxBatch,
                           .graph_of = [&](std::int64_t size) { return load(size).graph; },
                           .allowed = [&](Duration baseline) { return most_duration(overhead_, baseline); }};
    FitCallbacks callbacks{.cancel = &signals_.flag()};
    if (!quiet_) callbacks.tried = [&](const Trial& trial, double seconds) { print(trial, seconds); };
    const FitAnswer answer = largest_fit(asked, callbacks);
    if (arguments_.has("schedules") && answer.sizes.largest) write_schedule(answer.trial_of(*answer.sizes.largest));
    arguments_.files().write(arguments_.output("output"), [&](std::ostream& out) { write_answer(out, answer); });
    if (!quiet_ || !answer.sizes.largest) print_answer(answer);
    if (answer.sizes.largest) return kSuccess;
    return !answer.trials.empty() && answer.trials.back().fit == Fit::impossible ? kInfeasible : kNoSchedule;
  }

 private:
  static Bytes budget_of(const Arguments& arguments) {
    const std::string& text = arguments.get<std::string>("budget");
    if (text.ends_with('%')) {
      throw UsageError("--budget: a percentage grows with the batch; --batch-size takes bytes (12GiB)");
    }
    return read_budget(text, Bytes(0), Bytes(0));
  }

  [[nodiscard]] LoadedGraph load(std::int64_t size) {
    // Warnings are printed once.
    const bool tells = !quiet_ && !std::exchange(has_warned_, true);
    return load_graph(arguments_.file("GRAPH"), arguments_, !tells, {{dimension_, size}});
  }

  void print(const Trial& trial, double seconds) {
    if (!std::exchange(has_header_, true))
      std::cerr << "  seconds  batch size  answer        overhead       bound  peak\n";
    const Schedule& schedule = trial.schedule;
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(), "%9.2f  %10s  %-10s  %10s  %10s  %s\n", seconds,
                  text::grouped(trial.size).c_str(), fit_word(trial.fit),
                  schedule.has_schedule() ? text::percent_text(schedule.overhead(), 3).c_str() : "-",
                  text::percent_text(schedule.least_overhead(), 3).c_str(),
                  schedule.has_schedule() ? text::bytes_text(schedule.peak_memory).c_str() : "-");
    std::cerr << line.data() << std::flush;
  }

  void write_schedule(const Trial& trial) {
    const fs::path folder = arguments_.get<std::string>("schedules");
    const LoadedGraph loaded = load(trial.size);
    Schedule schedule = trial.schedule;
    schedule.graph_sha256 = loaded.sha256;
    schedule.reading = reading_of(arguments_);
    schedule.reading.push_back("--dim=" + dimension_ + "=" + std::to_string(trial.size));
    arguments_.files().write((folder / (kScheduleName + std::to_string(trial.size) + ".json")).string(),
                             [&](std::ostream& out) { json::write_schedule(out, schedule, *loaded.graph); });
  }

  void write_answer(std::ostream& out, const FitAnswer& answer) const {
    std::string text;
    json::ObjectText object(text, ",\n  ");
    object.string("format", "remora-batch-size");
    object.integer("version", 1);
    object.string("dimension", dimension_);
    object.integer("budget", budget_.count());
    object.string("overhead", overhead_);
    if (answer.sizes.largest) object.integer("largest", *answer.sizes.largest);
    if (answer.sizes.next) object.integer("next", *answer.sizes.next);
    object.boolean("proved", answer.is_proved());
    object.key("trials");
    json::append_lines(text, 2, answer.trials.size(), [&](std::size_t i) { write_trial(text, answer.trials[i]); });
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

  void print_answer(const FitAnswer& answer) const {
    const std::string with = " within " + text::bytes_text(budget_) + " at " + overhead_ + " overhead";
    if (!answer.sizes.largest) {
      std::cerr << (quiet_ ? "remora: " : "") << "no batch size fits" << with << "\n";
      return;
    }
    std::cerr << "largest     " << dimension_ << " = " << text::grouped(*answer.sizes.largest) << with;
    if (answer.is_proved()) {
      std::cerr << ": proved, one more is impossible with at most "
                << answer.trial_of(*answer.sizes.next).schedule.solver.max_computes << " runs per op\n";
    } else if (answer.sizes.next) {
      std::cerr << "; " << text::grouped(*answer.sizes.next) << " is "
                << fit_word(answer.trial_of(*answer.sizes.next).fit)
                << (*answer.sizes.next > *answer.sizes.largest + 1 ? ", what is between was not tried\n" : "\n");
    } else {
      std::cerr << "; no larger one was tried\n";
    }
  }

  const Arguments& arguments_;
  Request request_;
  std::string dimension_;
  std::string overhead_;
  Bytes budget_;
  bool quiet_;
  SignalGuard signals_;
  bool has_warned_ = false;
  bool has_header_ = false;
};

}  // namespace

int find_batch_size(const Arguments& arguments, const Request& request) {
  return BatchSizeSearch(arguments, request).run();
}

}  // namespace remora::cli
