// SPDX-License-Identifier: Apache-2.0
//
// The workers that move from plan to plan: simulated annealing, and ruin and recreate.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/search/local/local_search.hpp"
#include "engine/search/worker.hpp"
#include "model/random.hpp"

namespace remora {

// Simulated annealing over (op, stage) pairs: drops, adds or moves one recompute, alone or with its chain, and accepts
// what raises the cost by less than a random amount that shrinks with the temperature. Plans may exceed the budget; the
// cost is the overflow plus time at a price. It is how feasibility is found on large dense graphs: at a high
// temperature whole parts of the graph are recomputed, and what does not pay freezes out.

class AnnealingWorker : public Worker {
 public:
  explicit AnnealingWorker(std::uint64_t seed);

  [[nodiscard]] Source source() const override { return Source::anneal; }
  RoundResult run(const RoundInput& input) override;

 private:
  /// State that depends on the instance; begins with the first round.
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

// Ruin and recreate (Schrimpf et al. 2000) on recompute plans: takes some recomputes out, makes the plan hold the
// budget in another way, and keeps it if it is better, or worse by little and by chance. In phase 1, where plans
// still exceed the budget, what counts is the overflow and, at a low price, time.

class RuinWorker : public Worker {
 public:
  explicit RuinWorker(std::uint64_t seed);

  [[nodiscard]] Source source() const override { return Source::ruin; }
  RoundResult run(const RoundInput& input) override;

 private:
  void begin_round(const RoundInput& input);
  /// One ruin and its recreation, up to about `end` of the effort.
  void step(Effort end, const std::function<bool()>& interrupted);
  void ruin();
  void remove_some(std::size_t first, std::size_t count);
  void remove_around(Stage stage, std::size_t count);
  bool approach(Bytes overflow, Duration extra, const RepairSettings& settings);
  bool recreate(Duration extra, RepairSettings settings);
  [[nodiscard]] double mean_duration() const;
  [[nodiscard]] double tolerated();
  [[nodiscard]] Effort effort() const { return moves_->state().effort() + kLocalStepEffort * steps_; }

  Random random_;
  ExchangeRate rate_;
  std::optional<PlanMoves> moves_;
  std::int64_t steps_ = 0;
  /// The best plan within the budget that this worker has seen.
  Duration best_ = Duration::max();
  Cooling cooling_;
  std::vector<Recompute> plan_;
};

}  // namespace remora
