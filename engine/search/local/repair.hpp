// SPDX-License-Identifier: Apache-2.0
//
// Makes a plan hold its budget again by adding recomputes, the best value first, and takes out what is not needed.
//
// At an event above the budget every tensor that is retained across it without being used there could be given up: its
// producer then runs again, just before the next use or earlier, alone or with a chain that feeds it. Of a sample of
// those the one with the most relief (bytes above the budget, over all events) per unit of time is taken, give or take
// some noise.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/search/local/plan_moves.hpp"
#include "model/random.hpp"

namespace remora {

/// Candidates and noise: measured on rl500 at 80 % and a generated graph of 1000 ops at 90 % (benchmarks/README.md).
/// The reference must stay valid.
struct RepairSettings {
  /// Tensors looked at for one event, at random.
  int candidates = 16;
  /// Values are multiplied by something between 1 and 1 + noise.
  double noise = 0.3;
  /// The probability that a candidate is tried with a chain, too.
  double chains = 0.3;
  /// The repair is given up where the recomputes cost this much or more.
  Duration below = Duration::max();
  /// It is also given up when the evaluator's effort has come this far, or when `interrupted` says true.
  std::int64_t effort_limit = INT64_MAX;
  const std::function<bool()>& interrupted;
};

class Repair {
 public:
  Repair(PlanMoves& moves, Random& random) : moves_(moves), random_(random) {}

  /// Adds recomputes until no event is above the budget. False if no addition helps any more or it was given up; the
  /// additions made stay.
  bool run(const RepairSettings& settings);
  /// Removes the recomputes that no event needs, dear ones first, give or take some noise.
  void prune(const std::function<bool()>& interrupted);

 private:
  [[nodiscard]] bool given_up(const RepairSettings& settings) const;
  bool relieve(EventKey event, const RepairSettings& settings);
  void consider(Recompute recompute, const RepairSettings& settings);
  [[nodiscard]] double value(const PlanChange& change, double noise);

  PlanMoves& moves_;
  Random& random_;
  /// The best recomputes to add at the event at hand.
  double best_value_ = 0;
  std::vector<Recompute> best_;
  /// Kept for their memory.
  std::vector<TensorId> crossing_;
};

}  // namespace remora
