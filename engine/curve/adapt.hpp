// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "engine/search/solution.hpp"
#include "model/instance.hpp"
#include "model/recompute_plan.hpp"

namespace remora {

struct Adapted {
  /// Within the budget or not.
  Solution solution{};
  /// Units of work done.
  std::int64_t work = 0;
};

/// A plan, of another budget perhaps, made to fit this one: recomputes are added until the budget holds, then those
/// that it does not need are taken out. Stops early after about `most_work` units of work, or when `interrupted` says
/// true.
Adapted adapt(const Instance& instance, const RecomputePlan& plan, std::uint64_t seed, std::int64_t most_work,
              const std::function<bool()>& interrupted);

}  // namespace remora
