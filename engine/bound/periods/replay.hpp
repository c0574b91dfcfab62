// SPDX-License-Identifier: Apache-2.0
//
// How relaxations by periods make plans of solutions, and where those break a budget when they are replayed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "model/types.hpp"

namespace remora {

/// Thresholds for plans from a linear program's solution: a plan takes every decision with at least this value.
inline constexpr std::array kMinParts{0.5, 0.2, 0.8};

/// A step of a replay that takes more than a budget.
struct Excess {
  /// Above the budget.
  Bytes bytes{};
  Stage stage{0};
  /// Op that runs; none for a step without one.
  OpId op{};
  bool is_first = false;
};

/// Adds the worst step of every stretch of steps that take too much. The worst come first. By step: the op that runs, and memory.
inline void add_excesses(std::span<const OpId> ops, std::span<const Bytes> memory, Bytes budget,
                         std::vector<Excess>& found) {
  bool goes_on = false;
  Stage stage{0};
  for (std::size_t step = 0; step < ops.size(); ++step) {
    const bool is_first = ops[step].valid() && Stage{ops[step]} == stage;
    const Excess here{memory[step] - budget, stage, ops[step], is_first};
    if (is_first) ++stage;
    const bool exceeds = here.bytes > Bytes(0);
    if (exceeds && !goes_on) found.push_back(here);
    if (exceeds && here.bytes > found.back().bytes) found.back() = here;
    goes_on = exceeds;
  }
  std::stable_sort(found.begin(), found.end(), [](const Excess& a, const Excess& b) { return a.bytes > b.bytes; });
}

}  // namespace remora
