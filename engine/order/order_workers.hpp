// SPDX-License-Identifier: Apache-2.0
//
// Rounds of the search for an order, and their workers: annealers, and windows put in order anew.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/base/cooling.hpp"
#include "engine/order/order_problem.hpp"
#include "engine/order/order_profile.hpp"
#include "model/random.hpp"

namespace remora {

// The seam between the rounds of the search for an order and what happens in them: see engine/search/worker.hpp, which
// is the same for recompute plans. What a worker does depends only on its seed and on the orders it was given.

struct OrderRound {
  const OrderProblem& problem;
  /// The best order so far.
  const std::vector<NodeId>& order;
  Bytes peak{};
  /// No need to go below.
  Bytes enough{};
  /// True when the round should end at once. Called from several threads.
  const std::function<bool()>& interrupted;
  /// Places and readers to look at, about.
  std::int64_t effort = 0;
};

struct OrderFind {
  /// Better than the round's, or empty.
  std::vector<NodeId> order{};
  Bytes peak{};
  /// Number of places visited.
  std::int64_t effort = 0;
};

class OrderWorker {
 public:
  OrderWorker() = default;
  OrderWorker(const OrderWorker&) = delete;
  OrderWorker& operator=(const OrderWorker&) = delete;
  virtual ~OrderWorker() = default;

  /// The problem is the same in every round and outlives the worker.
  virtual OrderFind run(const OrderRound& round) = 0;
};

// Simulated annealing over orders: the cost is the overflow above a target below the best peak, a step moves a node to
// another place, mostly a node near a place of overflow, and now and then takes along what it depends on.
//
//     a b c D e F g        F is to come first; of what is between, D is among its predecessors: D F a b c e g
//
// A target just below the best peak finds what a few moves can do; one far below pulls the whole order, as graphs with
// long independent branches need. The coolings go through several targets in turn.

class OrderAnnealer : public OrderWorker {
 public:
  struct Settings {
    /// The first temperature, in mean sizes of a buffer.
    double temperature = 0.5;
    /// Effort of the first cooling, per node.
    double effort = 10'000;
    /// Where in the row of targets the first cooling is.
    std::size_t first_target = 0;
    /// True if a cooling begins with the best order so far rather than with what the one before has left.
    bool from_best = false;
  };

  OrderAnnealer(const Settings& settings, std::uint64_t seed) : settings_(settings), random_(seed) {}

  OrderFind run(const OrderRound& round) override;

 private:
  /// State that depends on the problem; begins with the first round.
  struct Walk {
    OrderProfile profile;
    Cooling cooling;
    /// The places of overflow, now and then brought up to date.
    std::vector<int> hot{};
    Table<NodeId, bool> taken{};
  };

  void begin(const OrderRound& round);
  void begin_cooling(const OrderRound& round, const OrderFind& find);
  void aim();
  void step();
  void move_node(NodeId node, int place);
  void move_block(NodeId node, int place);
  [[nodiscard]] bool better_peak() const;
  [[nodiscard]] bool accepts(Bytes more);
  [[nodiscard]] int draw_place();
  [[nodiscard]] std::int64_t effort() const { return walk_->profile.effort() + step_effort_; }

  Settings settings_;
  Random random_;
  std::optional<Walk> walk_;
  Bytes best_{};
  std::size_t coolings_ = 0;
  std::int64_t steps_ = 0;
  /// Work of drawing steps; the profile counts its own.
  std::int64_t step_effort_ = 0;
  std::int64_t next_look_ = 0;
  std::vector<NodeId> old_;
  std::vector<NodeId> nodes_;
};

// Windows of the best order around places of its peak, each put into an order that stays below it, by beam search:
// narrow ones almost exactly, wide ones, up to the whole order, with few states.

class WindowWorker : public OrderWorker {
 public:
  explicit WindowWorker(std::uint64_t seed) : random_(seed) {}

  OrderFind run(const OrderRound& round) override;

 private:
  /// A place of overflow, at random.
  [[nodiscard]] int draw_place();
  [[nodiscard]] int draw_size();
  void improve(const OrderRound& round);

  Random random_;
  std::optional<OrderProfile> profile_;
  std::int64_t effort_ = 0;
};

}  // namespace remora
