// SPDX-License-Identifier: Apache-2.0
//
// Banks for buffers, and addresses within them, at the least cost (model/banks.hpp).
//
//     which bank        a constraint program in Gecode: a variable for each buffer; in every bank and section of time the
//                       sizes within the capacity; the costs below those of the best placement so far
//     which address     once all that may be in a bank is decided, each of its parts (part.hpp) is placed within the
//                       capacity (place.hpp). Buffers that do not fit together are kept, and never meet there again
//                       (a decomposition by logic: Hooker and Ottosson 2003)
//
// The program tries every choice unless it is cut short, and a part is asked for until it is settled or its work is used up;
// so an answer is proved where neither happened. Starts: buffers by what it costs to move them, per byte and time, each in
// the cheapest bank that has room.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/placement/place.hpp"
#include "model/banks.hpp"

namespace remora {

struct PlaceBanksSettings {
  /// Units of work, 0 for no limit; the answer depends on it and on the seed alone.
  std::int64_t work_limit = 0;
  std::uint64_t seed = 1;
  /// Whether the constraint program takes part; without it only the starts.
  bool exact = true;
};

struct PlaceBanksResult {
  /// optimal: no placement costs less. infeasible: proved that there is none. unknown: none was found.
  PlacementStatus status = PlacementStatus::unknown;
  /// Empty where infeasible or unknown.
  BankPlacement placement{};
  std::int64_t cost = 0;
  /// No placement costs less.
  std::int64_t lower_bound = 0;
  std::int64_t work = 0;
};

/// Throws InputError for what check_bank_problem refuses. `interrupted` ends the search with what there is; without any
/// limit it may never end.
PlaceBanksResult place_banks(const BankProblem& problem, const PlaceBanksSettings& settings,
                             const std::function<bool()>& interrupted);

}  // namespace remora
