// SPDX-License-Identifier: Apache-2.0
//
// Moves of either kind on a free-order incumbent: recomputes go and come, and then the order has to make up for it.
//
// Within the budget one recompute is taken out. What overflows now the order is asked to mend, each compute a node of
// an OrderProblem; what is left after that is met by another recompute that costs less than what was saved, and so on.
// Above the budget recomputes are put in where the order of the incumbent's own computes does not help.
#pragma once

#include "engine/search/worker.hpp"
#include "model/random.hpp"

namespace remora {

class ReorderWorker : public Worker {
 public:
  explicit ReorderWorker(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] Source source() const override { return Source::reorder; }
  RoundResult run(const RoundInput& input) override;

 private:
  /// The incumbent without one of its recomputes, chosen at random by what they take.
  [[nodiscard]] Solution without_one(const RoundInput& input, const Solution& current);
  /// The solution in a better order; counts the effort.
  [[nodiscard]] Solution reordered(const RoundInput& input, const Solution& solution, Effort& effort);
  /// One more recompute that relieves the fullest step, if there is any that costs less than `below`.
  [[nodiscard]] std::optional<Solution> relieved(const RoundInput& input, const Solution& solution, Duration below);
  /// A lower peak by another order, or by recomputes that relieve the fullest steps and another order.
  [[nodiscard]] std::optional<Solution> lowered(const RoundInput& input, const Solution& current, Effort& effort);
  /// A better solution that begins with one recompute less.
  [[nodiscard]] std::optional<Solution> exchange(const RoundInput& input, const Solution& current, Effort& effort);

  Random random_;
};

}  // namespace remora
