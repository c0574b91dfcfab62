// SPDX-License-Identifier: Apache-2.0
//
// Simulated annealing over (op, stage) pairs: drops, adds or moves one recompute, alone or with its chain, and accepts
// what raises the cost by less than a random amount that shrinks with the temperature. Plans may exceed the budget; the
// cost is the overflow plus time at a price. It is how feasibility is found on large dense graphs: at a high
// temperature whole parts of the graph are recomputed, and what does not pay freezes out.
#pragma once

#include <optional>
#include <vector>

#include "engine/search/local/local_search.hpp"
#include "engine/search/local/plan_moves.hpp"
#include "engine/search/worker.hpp"
#include "model/random.hpp"

namespace remora {

class AnnealingWorker : public Worker {
 public:
  explicit AnnealingWorker(std::uint64_t seed);

  [[nodiscard]] Source source() const override { return Source::anneal; }
  RoundResult run(const RoundInput& input) override;

 private:
  /// What depends on the instance; begins with the first round.
  struct Walk {
    PlanMoves moves;
    ExchangeRate rate;
    Cooling cooling;
    /// Those that may be recomputed.
    std::vector<OpId> ops{};

    Walk(const Solution& begin, const Instance& instance);
  };

  void step();
  bool change(OpId op);
  [[nodiscard]] Stage random_stage(OpId op);
  [[nodiscard]] double cost() const;
  /// Bytes above the budget, over all events, that a unit of time is worth in the present cooling.
  [[nodiscard]] double price() const;
  [[nodiscard]] Effort effort() const { return walk_->moves.state().effort() + kLocalStepEffort * steps_; }

  Random random_;
  std::optional<Walk> walk_;
  std::int64_t steps_ = 0;
  std::size_t coolings_ = 0;
};

}  // namespace remora
