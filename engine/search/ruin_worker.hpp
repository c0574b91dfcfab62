// SPDX-License-Identifier: Apache-2.0
//
// Ruin and recreate (Schrimpf et al. 2000) on recompute plans: takes some recomputes out, makes the plan hold the budget
// in another way, and keeps it if it is better, or worse by little and by chance. In phase 1, where plans still exceed
// the budget, what counts is the overflow and, at a low price, time.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/options.hpp"
#include "engine/search/local/exchange_rate.hpp"
#include "engine/search/local/plan_moves.hpp"
#include "engine/search/local/repair.hpp"
#include "engine/search/worker.hpp"
#include "model/random.hpp"

namespace remora {

class RuinWorker : public Worker {
 public:
  RuinWorker(const SolveOptions& options, std::uint64_t seed);

  [[nodiscard]] std::string name() const override { return "ruin"; }
  RoundResult run(const RoundInput& input) override;

 private:
  void begin_round(const RoundInput& input);
  /// One ruin and its recreation.
  void step(const std::function<bool()>& interrupted);
  void ruin();
  void remove_some(std::size_t first, std::size_t count);
  void remove_around(Stage stage, std::size_t count);
  bool recreate(Bytes overflow, Duration extra, const std::function<bool()>& interrupted);

  [[nodiscard]] std::int64_t effort() const { return moves_->state().effort() + kLocalStepEffort * steps_; }

  Random random_;
  ExchangeRate rate_;
  std::optional<PlanMoves> moves_;
  std::int64_t steps_ = 0;
  /// The best plan within the budget that this worker has seen.
  Duration best_ = Duration::max();
  /// In mean durations of an op.
  double temperature_ = 0;
  std::int64_t cooling_effort_;
  std::int64_t cooling_begin_ = 0;
  std::vector<Recompute> plan_;
};

}  // namespace remora
