// SPDX-License-Identifier: Apache-2.0
//
// Runs what a suite asks for, one after the other, each in a process of its own that is pinned to as many cores as it
// has threads; replays every schedule; adds a line to the results file at once, so that a suite that was interrupted
// goes on where it stood.
#pragma once

#include <atomic>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "frontends/bench/best_known.hpp"
#include "frontends/bench/instance_store.hpp"
#include "frontends/bench/result.hpp"
#include "frontends/bench/results_file.hpp"
#include "frontends/bench/suite.hpp"

namespace remora::bench {

struct RunnerOptions {
  Programs programs{};
  /// Where results.jsonl and, in `work`, graphs and the latest schedule are.
  std::string folder{};
  /// Told of every verified schedule of the staged form, before its result is kept. May be empty.
  std::function<void(const BestKnown&)> learn{};
  /// May be null.
  const std::atomic<bool>* cancel = nullptr;
  /// A line for each run; may be null.
  std::ostream* log = nullptr;
};

class Runner {
 public:
  /// Reads the results that are there. Throws InputError for a file that is not of this kind, for a budget that is
  /// none, and where the suite wants more threads than there are cores to use.
  Runner(const Suite& suite, RunnerOptions options);

  /// Runs what is missing, and again what gave no valid answer. False if it was cancelled. Throws InputError if another
  /// benchmark runs in the same folder.
  bool run();

  /// Everything of the suite that is known now, in the suite's order: of each instance only what was measured on its
  /// latest graph, and of a contender only how the suite asks it now.
  [[nodiscard]] std::vector<Result> results() const;
  /// How many runs the suite plans.
  [[nodiscard]] std::size_t planned() const;
  /// Of the instances and contenders that are not to be had: name and reason. Known after run().
  [[nodiscard]] const std::map<std::string, std::string>& missing() const { return missing_; }

 private:
  struct Job;
  [[nodiscard]] bool cancelled() const { return options_.cancel != nullptr && options_.cancel->load(); }
  void log(const std::string& line) const;
  bool run_instance(const SuiteInstance& instance);
  bool run_job(const Job& job);
  [[nodiscard]] std::vector<std::string> command(const Job& job) const;
  [[nodiscard]] bool is_done(const Job& job) const;
  void leave_out(const std::string& name, const std::string& why);

  const Suite& suite_;
  RunnerOptions options_;
  InstanceStore store_;
  ResultsFile results_;
  std::map<std::string, std::string> missing_{};
  std::size_t done_ = 0;
};

}  // namespace remora::bench
