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

#include <functional>

#include "engine/placement/place.hpp"
#include "model/banks.hpp"

namespace remora {

/// Uses only the work limit, the seed, and `exact` of the settings: without `exact` only the starts. optimal: no
/// placement costs less;
/// infeasible: proved that there is none; unknown: none was found, and the result holds none. Throws InputError for what
/// check_bank_problem refuses. `interrupted` ends the search with what there is; without any limit it may never end.
PlaceResult place_banks(const BankProblem& problem, const PlaceSettings& settings,
                        const std::function<bool()>& interrupted);

}  // namespace remora
