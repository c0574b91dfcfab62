// SPDX-License-Identifier: Apache-2.0
//
// Windows of the best order around places of its peak, each put into an order that stays below it, by beam search:
// narrow ones almost exactly, wide ones, up to the whole order, with few states.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/order/order_profile.hpp"
#include "engine/order/order_worker.hpp"
#include "model/random.hpp"

namespace remora {

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
