// SPDX-License-Identifier: Apache-2.0
//
// Chooses modes for the computes of a sequence without changing which computes there are: a multiple-choice knapsack
// at every event.
//
//     price    one price per byte that stays (Lagrange): each choice takes the mode of least time + price x bytes;
//              bisection finds the lowest price at which the budget holds
//     relieve  where no price does: the mode whose relief at the highest event costs least time, step by step
//     fill     modes that take less time, as long as there is room
//     renew    some choices save less, the others fill the room; kept if that is shorter
//
// It is how a composition gets its first schedule and what it falls back on between neighbourhoods of the constraint
// program, which decides everything that this does not: recomputes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/instance.hpp"
#include "model/modes.hpp"
#include "model/random.hpp"

namespace remora {

/// A sequence of computes under change of modes: what the exchanges of a composition move about in.
///
/// Bytes above the budget, summed over events, and time.
struct ModeScore {
  Bytes overflow{};
  Duration duration{};
};

class ModeState {
 public:
  ModeState(const Instance& instance, std::vector<Compute> sequence);

  [[nodiscard]] const std::vector<Compute>& sequence() const { return sequence_; }
  [[nodiscard]] const ModeScore& score() const { return score_; }
  /// Choices are computes whose mode can be chosen: those of leaders and of ops that follow nobody.
  [[nodiscard]] int choice_count() const { return static_cast<int>(choices_.size()); }
  [[nodiscard]] ModeNumber mode(int choice) const;
  [[nodiscard]] int mode_count(int choice) const;
  /// True if the computes of the choice, followers included, all have the mode, and each alone keeps its op's limit.
  [[nodiscard]] bool offers(int choice, ModeNumber mode) const;
  /// The time of these computes by the mode.
  [[nodiscard]] Duration duration(int choice, ModeNumber mode) const;
  /// Bytes that stay on the mode's behalf: outputs, and inputs that followers read.
  [[nodiscard]] Bytes staying(int choice, ModeNumber mode) const;

  /// The score with another mode at a choice, followers included; nothing if it is the present one or if that is no
  /// valid sequence.
  [[nodiscard]] std::optional<ModeScore> probe(int choice, ModeNumber mode);
  void set(int choice, ModeNumber mode);
  /// One mode a choice; the sequence must be valid with them.
  void set_all(const std::vector<ModeNumber>& modes);
  /// Steps looked at so far.
  [[nodiscard]] std::int64_t looks() const { return looks_; }

 private:
  void assign(int choice, ModeNumber mode);
  [[nodiscard]] ModeScore evaluate_now();

  const Instance& instance_;
  std::vector<Compute> sequence_;
  std::vector<int> choices_;
  /// By choice: the steps that take its mode over.
  std::vector<std::vector<int>> followers_;
  ModeScore score_;
  std::int64_t looks_ = 0;
};

class ModeExchange {
 public:
  /// The state must outlive the exchange. `stopped` is asked now and then; true ends what goes on.
  ModeExchange(ModeState& state, Random& random, const std::function<bool()>& stopped)
      : state_(state), random_(random), stopped_(stopped) {}

  /// From any state to one that holds the budget, if it finds one: price, then relieve, then fill.
  void begin();
  /// From a state that holds the budget to shorter ones; ends after so many fruitless attempts.
  void renew(int attempts);

 private:
  [[nodiscard]] bool holds() const { return state_.score().overflow == Bytes(0); }
  void choose_by_price(double price);
  [[nodiscard]] double cost(int choice, ModeNumber mode, double price) const;
  void bisect_price();
  void relieve();
  bool relieve_once();
  void fill();
  bool fill_choice(int choice);
  void save_less(int choice);
  [[nodiscard]] std::vector<ModeNumber> modes() const;

  ModeState& state_;
  Random& random_;
  const std::function<bool()>& stopped_;
};

}  // namespace remora
