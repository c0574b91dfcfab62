// SPDX-License-Identifier: Apache-2.0
//
// Chooses options for the computes of a sequence without changing which computes there are: a multiple-choice knapsack
// at every event.
//
//     price    one price per byte that stays (Lagrange): each choice takes the option of least time + price x bytes;
//              bisection finds the lowest price at which the budget holds
//     relieve  where no price does: the option whose relief at the highest event costs least time, step by step
//     fill     options that take less time, as long as there is room
//     renew    some choices save less, the others fill the room; kept if that is shorter
//
// It is how a composition gets its first schedule and what it falls back on between neighbourhoods of the constraint
// program, which decides everything that this does not: recomputes.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/groups/option_state.hpp"
#include "model/random.hpp"

namespace remora {

class OptionExchange {
 public:
  /// The state must outlive the exchange. `stopped` is asked now and then; true ends what goes on.
  OptionExchange(OptionState& state, Random& random, const std::function<bool()>& stopped)
      : state_(state), random_(random), stopped_(stopped) {}

  /// From any state to one that holds the budget, if it finds one: price, then relieve, then fill.
  void begin();
  /// From a state that holds the budget to shorter ones; ends after so many fruitless attempts.
  void renew(int attempts);

 private:
  [[nodiscard]] bool holds() const { return state_.score().overflow == Bytes(0); }
  void choose_by_price(double price);
  [[nodiscard]] double cost(int choice, Option option, double price) const;
  void bisect_price();
  void relieve();
  bool relieve_once();
  void fill();
  bool fill_choice(int choice);
  void save_less(int choice);
  [[nodiscard]] std::vector<Option> options() const;

  OptionState& state_;
  Random& random_;
  const std::function<bool()>& stopped_;
};

}  // namespace remora
