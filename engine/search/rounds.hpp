// SPDX-License-Identifier: Apache-2.0
//
// Runs workers in rounds, as TBB tasks over one incumbent.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/search/mix.hpp"
#include "engine/search/worker.hpp"
#include "engine/solve.hpp"

namespace remora {

/// What the search knows; grows from round to round.
struct SearchState {
  Solution incumbent{};
  /// Of the extra duration.
  Duration lower_bound{};
  CoverFacts cover{};
  bool infeasible = false;
  std::int64_t work = 0;
  std::vector<Incumbent> history{};
};

/// The threads that a solve uses: the option, or one a core.
int thread_count(const SolveOptions& options);

class Rounds {
 public:
  Rounds(const Instance& instance, const SolveOptions& options, const SolveCallbacks& callbacks,
         const Deadline& deadline, SearchState& state);

  /// Rounds of workers from the mix until `finished` holds, a limit is reached, the caller has enough or infeasibility
  /// is proved.
  void run(int phase, Mix& mix, const std::function<bool()>& finished);

  /// Tells the caller about the state.
  void report(int phase, const std::string& source) const;
  /// Gives the caller the incumbent as a schedule, if it holds the budget.
  void give_incumbent() const;

 private:
  [[nodiscard]] bool limit_reached(int phase) const;
  [[nodiscard]] std::vector<RoundResult> run_round(const std::vector<Worker*>& workers, const RoundInput& input) const;
  [[nodiscard]] Progress progress(int phase, const std::string& source) const;
  void merge(int phase, const Worker& worker, RoundResult& result);

  const Instance& instance_;
  const SolveOptions& options_;
  const SolveCallbacks& callbacks_;
  const Deadline& deadline_;
  SearchState& state_;
};

}  // namespace remora
