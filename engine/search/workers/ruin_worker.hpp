// SPDX-License-Identifier: Apache-2.0
//
// Ruin and recreate (Schrimpf et al. 2000) on recompute plans: takes some recomputes out, makes the plan hold the
// budget in another way, and keeps it if it is better, or worse by little and by chance. In phase 1, where plans
// still exceed the budget, what counts is the overflow and, at a low price, time.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/search/local/local_search.hpp"
#include "engine/search/local/plan_moves.hpp"
#include "engine/search/local/repair.hpp"
#include "engine/search/worker.hpp"
#include "model/random.hpp"

namespace remora {

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
