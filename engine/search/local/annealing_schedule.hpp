// SPDX-License-Identifier: Apache-2.0
//
// How annealings of recomputes cool down and what time costs in them, in whatever order.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "engine/base/cooling.hpp"
#include "engine/search/local/exchange_rate.hpp"
#include "model/instance.hpp"

namespace remora {

/// The temperature of an instance's annealing, in bytes times events.
inline Cooling annealing_cooling(const Instance& instance, const ExchangeRate& rate) {
  // Temperatures are in areas of an op; the first effort is an op's.
  Cooling::Settings settings{.first_temperature = 0.02, .last_part = 1e-3, .first_effort = 30'000, .growth = 1.3};
  settings.first_temperature *= rate.area_of_op;
  settings.first_effort *= std::max(1, instance.op_count());
  return Cooling(settings);
}

/// The price of a unit of time in a cooling, a part of what it is worth on average; the coolings go through these parts
/// in turn.
inline double annealing_price(const ExchangeRate& rate, std::size_t cooling) {
  constexpr std::array kPrices{0.01, 0.003, 0.03, 0.1};
  return kPrices[cooling % kPrices.size()] * rate.area_of_time;
}

}  // namespace remora
