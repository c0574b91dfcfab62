// SPDX-License-Identifier: Apache-2.0
//
// Simulated annealing over (op, stage) pairs: drops, adds or moves one recompute, alone or with its chain, and accepts
// what raises the cost by less than a random amount that shrinks with the temperature. Plans may exceed the budget; the
// cost is the overflow plus time at a price. It is how feasibility is found on large dense graphs: at a high
// temperature whole parts of the graph are recomputed, and what does not pay freezes out.
#pragma once

#include <optional>
#include <vector>

#include "engine/options.hpp"
#include "engine/search/local/exchange_rate.hpp"
#include "engine/search/local/plan_moves.hpp"
#include "engine/search/worker.hpp"
#include "model/random.hpp"

namespace remora {

class AnnealingWorker : public Worker {
 public:
  AnnealingWorker(const SolveOptions& options, std::uint64_t seed);

  [[nodiscard]] std::string name() const override { return "anneal"; }
  RoundResult run(const RoundInput& input) override;

 private:
  void begin(const RoundInput& input);
  void begin_cooling();
  void step();
  bool change(OpId op);
  [[nodiscard]] Stage random_stage(OpId op);
  [[nodiscard]] double cost() const;

  [[nodiscard]] std::int64_t effort() const { return moves_->state().effort() + kLocalStepEffort * steps_; }

  Random random_;
  std::optional<PlanMoves> moves_;
  std::int64_t steps_ = 0;
  /// Those that may be recomputed.
  std::vector<OpId> ops_;
  ExchangeRate rate_;
  /// Bytes above the budget, over all events, that a unit of time is worth.
  double price_ = 0;
  double temperature_ = 0;
  /// The effort that the present cooling takes, and when it began.
  std::int64_t cooling_effort_ = 0;
  std::int64_t cooling_begin_ = 0;
  int coolings_ = 0;
};

}  // namespace remora
