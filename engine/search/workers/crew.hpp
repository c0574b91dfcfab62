// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/options.hpp"
#include "engine/search/worker.hpp"
#include "engine/search/workers/mode_workers.hpp"
#include "model/instance.hpp"

namespace remora {

/// How many workers of each kind a strategy that searches sends into its rounds.
struct CrewPlan {
  bool complete = false;
  bool benders = false;
  /// Recomputes near to the solution of the period relaxation's linear program.
  bool roundings = false;
  int neighbourhoods = 0;
  int ruins = 0;
  int annealings = 0;
};

CrewPlan crew_plan(const SolveOptions& options);

/// The workers of a phase while they are added: a worker that draws at random takes the next seed.
class Crew {
 public:
  /// The complete search runs on graphs of up to so many ops, unless it is asked for alone: on very large ones even its
  /// root takes longer than all that the others need. It takes part in every round where it may well end.
  struct CompleteSearch {
    int most_ops = 0;
    int most_ops_of_every_round = 0;
  };

  /// Begins with the complete search, if the strategy has it and the graph is small enough.
  Crew(const Instance& instance, const SolveOptions& options, const CompleteSearch& complete);

  [[nodiscard]] const CrewPlan& plan() const { return plan_; }

  void add(std::unique_ptr<Worker> worker) { workers_.push_back(std::move(worker)); }
  /// One that runs in every round that it is ready for.
  void add_for_every_round(std::unique_ptr<Worker> worker) {
    workers_.insert(workers_.begin() + static_cast<std::ptrdiff_t>(exempt_++), std::move(worker));
  }
  /// Workers of one mode per op that need nothing but a seed.
  template <class Kind>
  void add(int count) {
    for (int i = 0; i < count; ++i) add(of_fixed_modes<Kind>(next_seed()));
  }
  template <class Kind>
  static std::unique_ptr<Worker> of_fixed_modes(std::uint64_t seed) {
    return std::make_unique<FixedModesWorker>([seed] { return std::make_unique<Kind>(seed); });
  }
  /// As many of the constraint program's neighbourhoods as the plan says, of the kind that the phase needs, and what
  /// exchanges modes.
  void add_neighbourhoods(SearchPhase phase);
  [[nodiscard]] std::uint64_t next_seed() { return seed_++; }

  /// Leaves the crew empty.
  [[nodiscard]] Mix mix() { return {std::move(workers_), exempt_, seed_}; }

 private:
  const SolveOptions& options_;
  CrewPlan plan_;
  std::uint64_t seed_;
  /// How many, from the first, run in every round.
  std::size_t exempt_ = 0;
  std::vector<std::unique_ptr<Worker>> workers_;
};

/// The crew that searches along the input order.
Mix input_order_crew(const Instance& instance, const SolveOptions& options, SearchPhase phase);

}  // namespace remora
