// SPDX-License-Identifier: Apache-2.0
//
// Simulated annealing over orders: the cost is the overflow above a target a little below the best peak, a step moves a
// node, or a node with what it needs or what needs it, mostly across a place of overflow.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/order/order_profile.hpp"
#include "engine/order/order_worker.hpp"
#include "engine/search/local/cooling.hpp"
#include "model/random.hpp"

namespace remora {

class OrderAnnealer : public OrderWorker {
 public:
  struct Settings {
    /// The first temperature, in mean sizes of a node's output.
    double temperature = 1;
    /// How far below the best peak the target is.
    double below = 0.003;
    /// Effort of the first cooling: so many steps per node.
    double steps = 200;
    double growth = 1.5;
    double block_share = 0.1;
    double last_part = 0.02;
    double hot_share = 0.5;
  };
  OrderAnnealer(const Settings& settings, std::uint64_t seed) : settings_(settings), random_(seed) {}

  OrderFind run(const OrderRound& round) override;

 private:
  struct Walk {
    OrderProfile profile;
    Cooling cooling;
    std::vector<int> hot{};
  };

  void begin(const OrderRound& round);
  void aim(Bytes peak);
  void step();
  void step_node(NodeId node, int place);
  void step_block(NodeId node, int place);
  bool accept(Bytes overflow);
  int draw_place();
  int draw_goal(NodeId node);
  std::int64_t effort() const { return walk_->profile.effort() + kStepEffort * steps_; }

  static constexpr std::int64_t kStepEffort = 10;

  Settings settings_;
  Random random_;
  std::optional<Walk> walk_;
  std::int64_t steps_ = 0;
  Bytes best_{};
  double unit_ = 1;
  std::vector<NodeId> nodes_;
  std::vector<NodeId> old_;
  std::vector<bool> in_;
};

}  // namespace remora
