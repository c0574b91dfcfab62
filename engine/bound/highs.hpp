// SPDX-License-Identifier: Apache-2.0
//
// HiGHS (https://highs.dev), a solver of integer programs: loaded when it is first needed, where the machine has it. It proves
// dense graphs where CBC does not end (docs/design/bounds.md).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/api.hpp"

namespace remora {

/// Finds HiGHS: the library that the environment's REMORA_HIGHS names, else one that was offered, else the one that
/// came along with Remora (../lib/remora), else libhighs as the system finds it; REMORA_HIGHS=off leaves it out. The first call decides for the whole process.
struct HighsFound {
  /// "HiGHS 1.11.0"; empty where it is not there.
  std::string name{};
  std::string why_not{};
  /// REMORA_HIGHS names a library that is not there or no good.
  bool is_missed = false;
};
REMORA_API const HighsFound& find_highs();

/// A library to take where REMORA_HIGHS names none. After find_highs() it changes nothing.
REMORA_API void offer_highs(const std::string& library);

/// Minimise costs · x over x in {0, 1}, x[j] = 0 where highest[j] is 0, such that each row is at least `least`; rows as in
/// CoinPackedMatrix: row r has the columns and factors from begins[r] to begins[r + 1] - 1.
struct BinaryProgram {
  std::span<const double> costs;
  std::span<const double> highest;
  std::span<const int> begins;
  std::span<const int> columns;
  std::span<const double> factors;
  std::span<const double> least;
};

struct HighsAnswer {
  /// The solution is the cheapest, or there is none.
  bool complete = false;
  /// HiGHS ended without knowing either: it lost a solution to its tolerances.
  bool is_lost = false;
  /// No solution costs less; negative if nothing is known.
  double bound = -1;
  /// By column; empty if none was found.
  std::vector<double> solution{};
  std::int64_t nodes = 0;
};

/// Solutions that cost more than `most` are not looked for; costs are whole. `interrupted`, which may be empty, is asked
/// by the calling thread every some milliseconds; true ends the call at once. HiGHS itself works in a thread of its own,
/// whose CPU seconds and counted ones count as the caller's (cpu_seconds.hpp, counted_seconds.hpp). It ends when it next
/// asks, at the latest before the process does (lingering.hpp): tenths of a second later, of large programs seconds
/// (docs/design/bounds.md). Of what was ended only a bound is known; where HiGHS is not there, nothing.
///
/// Where `stopped` is given, HiGHS waits for the answer of `interrupted` whenever it has counted a millisecond: a call
/// that it ends, ends at the same step on every machine. `stopped` is asked every some milliseconds, and ends it, too.
HighsAnswer run_highs(const BinaryProgram& program, double most, const std::function<bool()>& interrupted,
                      const std::function<bool()>& stopped = {});

}  // namespace remora
