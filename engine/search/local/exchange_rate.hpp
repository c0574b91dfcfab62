// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/instance.hpp"

namespace remora {

/// What memory and time are worth to each other in an instance, so that the local search needs no units.
struct ExchangeRate {
  /// Bytes times events that all tensors occupy from their compute to their last use, an op on average.
  double area_of_op = 0;
  /// Bytes times events that a unit of time buys, were every tensor recomputed once.
  double area_of_time = 0;
};

ExchangeRate exchange_rate(const Instance& instance);

}  // namespace remora
