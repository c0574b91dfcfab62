// SPDX-License-Identifier: Apache-2.0
//
// Work of a search, counted instead of timed, so that the same seed does the same on every machine.
//
//     effort   what the searches look at: a place, an event, a reader. Rounds are as long as an effort allows, and
//              workers of different kinds wait for each other no longer than that. A node of the constraint program
//              counts what its propagators look at.
//     work     what --work-limit counts and reports state: a node of the constraint program, or so much effort of a
//              search without nodes
//
// work_of() is the one way from the one to the other.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/types.hpp"

namespace remora {

/// Units of work.
using Work = Quantity<struct WorkTag>;
/// Things looked at.
using Effort = std::int64_t;

/// The effort that counts as a unit of work.
enum class EffortOfWork : Effort {
  local = 1'000,   ///< of searches that look at places of a schedule or an order
  model = 30'000,  ///< of searches that post one constraint program after the other and count no nodes
};

/// CPU time of a unit on average over the workers, of 30 to 160 microseconds. Solvers' steps are counted in it, and
/// policies that are stated in seconds go by it under a work limit.
inline constexpr std::int64_t kNanosecondsOfWork = 60'000;

/// At least one: nothing is free under a work limit.
constexpr Work work_of(Effort effort, EffortOfWork unit = EffortOfWork::local) {
  return Work(1 + effort / static_cast<Effort>(unit));
}

/// The most effort that so much work stands for.
constexpr Effort effort_of(Work work, EffortOfWork unit = EffortOfWork::local) {
  const auto each = static_cast<Effort>(unit);
  return std::min(work.count(), INT64_MAX / each) * each;
}

/// A work limit of the options, where 0 means none.
constexpr Work work_limit(std::int64_t units) {
  return units > 0 ? Work(units) : Work::max();
}

/// The other way round.
constexpr std::int64_t option_of(Work limit) {
  return limit == Work::max() ? 0 : limit.count();
}

/// The sum, or the largest amount.
constexpr Work plus(Work a, Work b) {
  return a > Work::max() - b ? Work::max() : a + b;
}

/// A part of the amount; in double, for amounts near the largest.
constexpr Work part_of(Work work, double part) {
  return Work(static_cast<std::int64_t>(std::min(static_cast<double>(work.count()) * part, 9e18)));
}

}  // namespace remora
