// SPDX-License-Identifier: Apache-2.0
//
// Common parts of local searches over plans: moves, repair, and the price of a byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/base/cooling.hpp"
#include "engine/search/local/plan_evaluator.hpp"
#include "engine/search/worker.hpp"
#include "model/instance.hpp"
#include "model/random.hpp"
#include "model/table.hpp"

namespace remora {

// Moves of the local search: additions and removals, one at a time or as chains, that can be taken back; and who could
// give up memory at an event.
//
// A recompute needs its inputs. Where one is gone by then, it is either retained longer or recomputed as well, in the
// same stage and right before; and so on. On dense graphs no single addition may help where a chain of ten does.

/// Which tensors may be in memory in a stage: a segment tree over stages. A lifespan is kept at O(log stages) nodes,
/// and asking for a stage visits the nodes above it: O(log stages + answers).
class LifespanIndex {
 public:
  explicit LifespanIndex(int stages) : leaves_(stages), nodes_(2 * static_cast<std::size_t>(stages)) {}

  /// Stages first .. last, both included; nothing if first > last. Lifespans of one tensor must not overlap.
  void add(Stage first, Stage last, TensorId tensor) {
    int low = first + leaves_;
    int high = last + 1 + leaves_;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) nodes_[at(low++)].push_back(tensor);
      if (high % 2 == 1) nodes_[at(--high)].push_back(tensor);
    }
  }

  template <class Visit>
  void visit(Stage stage, Visit visit_tensor) const {
    for (int node = stage + leaves_; node > 0; node /= 2) {
      for (const TensorId tensor : nodes_[at(node)]) visit_tensor(tensor);
    }
  }

 private:
  int leaves_;
  std::vector<std::vector<TensorId>> nodes_;
};

struct ChainSettings {
  /// A chain ends when it has so many recomputes.
  int most = 24;
  /// The probability that an input that is gone and could only be retained above the budget is recomputed.
  double recomputed = 1;
};

class PlanMoves {
 public:
  /// The instance must outlive the moves.
  explicit PlanMoves(const Instance& instance, std::span<const Recompute> plan = {});

  [[nodiscard]] const PlanEvaluator& state() const { return state_; }
  [[nodiscard]] const Instance& instance() const { return state_.instance(); }

  /// Makes the plan the given one; can't be taken back.
  void assign(std::span<const Recompute> plan);
  void add(Recompute recompute);
  void remove(Recompute recompute);
  /// Adds the recompute, which can be added, and what feeds it.
  void add_chain(Recompute recompute, const ChainSettings& settings, Random& random);
  /// Removes the recompute and those that served nobody else.
  void remove_chain(Recompute recompute);

  /// How many changes can be taken back.
  [[nodiscard]] std::size_t mark() const { return changes_.size(); }
  /// The recomputes added or removed since the mark, in order.
  void changed_since(std::size_t mark, std::vector<Recompute>& changed) const;
  /// Takes back all changes since the mark.
  void undo_to(std::size_t mark);
  /// Keeps all changes for good.
  void keep() { changes_.clear(); }

  /// The tensors that are retained across the event without being used at it, each once.
  void find_crossing(EventKey event, std::vector<TensorId>& tensors) const;

 private:
  struct Change {
    Recompute recompute{};
    bool added = false;
  };
  /// An input of a recompute, and what its retention ended with before.
  struct Gone {
    TensorId tensor{};
    EventKey until{};
  };
  void index_lifespans(std::span<const Recompute> plan);
  void extend_lifespans(Recompute recompute);

  PlanEvaluator state_;
  LifespanIndex lifespans_;
  /// By tensor: the last stage in the index.
  Table<TensorId, Stage> reach_;
  std::vector<Change> changes_;
  /// Kept for their memory.
  std::vector<Recompute> chain_;
  std::vector<Gone> gone_;
};

// Makes a plan hold its budget again by adding recomputes, the best value first, and takes out what is not needed.
//
// At an event above the budget every tensor that is retained across it without being used there could be given up: its
// producer then runs again, just before the next use or earlier, alone or with a chain that feeds it. Of a sample of
// those the one with the most relief (bytes above the budget, over all events) per unit of time is taken, give or take
// some noise.

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
  /// Removes the recomputes that no event needs, expensive ones first, give or take some noise.
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

// Common parts of the workers of the local search, in any order: the price of memory in time, cooling of annealings,
// and offering a plan to a round.

/// Price of memory in time for an instance, so that the local search needs no units.
struct ExchangeRate {
  /// Bytes times events that all tensors occupy from their compute to their last use, an op on average.
  double area_of_op = 0;
  /// Bytes times events that a unit of time buys, were every tensor recomputed once.
  double area_of_time = 0;
};

ExchangeRate exchange_rate(const Instance& instance);

/// The temperature of an instance's annealing, in bytes times events.
Cooling annealing_cooling(const Instance& instance, const ExchangeRate& rate);

/// The price of a unit of time in a cooling, a part of what it is worth on average; the coolings go through several
/// parts in turn.
double annealing_price(const ExchangeRate& rate, std::size_t cooling);

/// Puts the plan at hand into the result if it is better than the round's incumbent.
void offer(const RoundInput& input, const PlanEvaluator& state, RoundResult& result);

/// The same for a plan within the budget: if it is cheaper than `best`, which then is its cost. What is useless in the
/// plan does not count.
void offer_cheaper(const PlanEvaluator& state, Duration& best, RoundResult& result);

}  // namespace remora
