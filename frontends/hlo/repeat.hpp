// SPDX-License-Identifier: Apache-2.0
//
// A pair of loops in which the carried values of only some iterations are saved, evenly spread: slot 0 has those of the first iteration,
// the last slot those of the last one. An iteration of the backward loop repeats iterations of the forward one, from the last that is
// saved before it:
//
//     n = 12, 3 slots        slot 0: iteration 0    slot 1: iteration 5    slot 2: iteration 11
//     for iteration 8:       at = 5, x = slot 1     while at < 8: (at, x) = (at + 1, layer(x, w[at]))
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "frontends/hlo/copies.hpp"
#include "frontends/hlo/loops.hpp"

namespace remora::hlo {

/// Which iterations have a slot. Slot s has iteration floor(s * steps / segments).
struct Slots {
  /// One less than iterations, and than slots; both at least 1.
  std::int64_t steps = 1;
  std::int64_t segments = 1;

  /// The last slot that saves an iteration up to this one: (iteration * segments + segments - 1) / steps.
  [[nodiscard]] std::int64_t before(std::int64_t iteration) const {
    return (iteration * segments + segments - 1) / steps;
  }
  [[nodiscard]] std::int64_t start(std::int64_t slot) const { return slot * steps / segments; }
  /// Iterations that are repeated, for all iterations of the backward loop together.
  [[nodiscard]] std::int64_t repeated() const {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i <= steps; ++i) sum += i - start(before(i));
    return sum;
  }
};

/// The loop that repeats iterations. Its state: the number of the iteration, the number at which it ends, then leaves of the state of F.
struct RepeatedLoop {
  std::int64_t body = 0;
  std::int64_t condition = 0;
  std::vector<std::size_t> leaves{};
  std::vector<std::string> shapes{};
};

/// Adds body and condition of the loop that gives the carried leaves of an iteration, which come first among its leaves.
/// Throws InputError where iterations of F cannot be repeated.
RepeatedLoop add_repeated_loop(const Module& module, const Dataflow& dataflow, Copies& copies, const LoopPair& pair,
                               const std::vector<std::size_t>& carried);

}  // namespace remora::hlo
