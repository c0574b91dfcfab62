// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "engine/search/solution.hpp"
#include "model/instance.hpp"

namespace remora {

struct Adapted {
  /// Within the budget or not.
  Solution solution{};
  /// Units of work done.
  std::int64_t work = 0;
};

/// A plan found under another budget, made to fit this one: recomputes are added until the budget holds, then those
/// that it does not need are taken out. Stops early when `interrupted` says true.
Adapted adapt(const Instance& instance, const Solution& other, std::uint64_t seed,
              const std::function<bool()>& interrupted);

}  // namespace remora
