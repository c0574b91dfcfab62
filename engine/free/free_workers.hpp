// SPDX-License-Identifier: Apache-2.0
//
// The workers of the free order: simulated annealing over order and recomputes at once, and moves of either kind in turn.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/order/order_problem.hpp"
#include "engine/order/order_profile.hpp"
#include "engine/search/local/local_search.hpp"
#include "engine/search/worker.hpp"
#include "model/random.hpp"

namespace remora {

// Simulated annealing over order and recomputes at once, the free order's counterpart of annealing_worker.hpp.
//
// The state is a sequence of computes, the cost what overflows the budget, summed over steps, plus what recomputes take
// at a price. Most steps move one compute (order_profile.hpp, cheap); now and then a recompute goes, comes, or both,
// which makes a problem with other nodes and is expensive, so that it comes once in about as many steps as there are nodes.

class JointAnnealingWorker : public Worker {
 public:
  explicit JointAnnealingWorker(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] Source source() const override { return Source::joint; }
  RoundResult run(const RoundInput& input) override;

 private:
  /// A sequence, as the problem of its computes' order.
  struct Walk {
    OrderProblem problem;
    OrderProfile profile;
    Duration extra{};

    Walk(const Instance& instance, std::span<const OpId> sequence);
    [[nodiscard]] Sequence sequence() const { return problem.sequence_of(profile.order()); }
  };

  void begin(const RoundInput& input);
  void begin_cooling(const RoundInput& input);
  void step(const RoundInput& input);
  void move_node();
  void change(const RoundInput& input);
  /// The walk's sequence without one of its recomputes; false if there is none.
  bool drop(const Instance& instance, Sequence& sequence);
  /// With a recompute that relieves a full step, and some of what it reads recomputed before it; false if there is
  /// none.
  bool add(const Instance& instance, Sequence& sequence);
  [[nodiscard]] int draw_place();
  [[nodiscard]] bool accepts(double more);
  [[nodiscard]] double price() const;
  [[nodiscard]] double cost(const Walk& walk) const;
  [[nodiscard]] Effort effort() const { return effort_ + walk_->profile.effort(); }
  void offer_cheaper(const RoundInput& input, Duration& best, RoundResult& result);

  Random random_;
  std::unique_ptr<Walk> walk_;
  ExchangeRate rate_{};
  std::optional<Cooling> cooling_;
  std::size_t coolings_ = 0;
  std::int64_t steps_ = 0;
  /// Beside what the walk's profile counts.
  std::int64_t effort_ = 0;
  /// Places above the budget, now and then brought up to date.
  std::vector<int> hot_;
};

// Moves of either kind on a free-order incumbent: recomputes go and come, and then the order has to make up for it.
//
// Within the budget one recompute is taken out. What overflows now the order is asked to mend, each compute a node of
// an OrderProblem; what is left after that is met by another recompute that costs less than what was saved, and so on.
// Above the budget recomputes are put in where the order of the incumbent's own computes does not help.

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
