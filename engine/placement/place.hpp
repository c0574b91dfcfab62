// SPDX-License-Identifier: Apache-2.0
//
// Offsets for buffers in one arena, as small as possible, or within a capacity.
//
//     split into parts that share no time
//     for each part
//       heuristics: from below, and one by one in many orders
//       then rounds, each twice as long: a constraint program is asked for a placement within the bound, and where it
//       does not say, for one between the bound and the best arena; and local search on orders, which is all there is
//       for parts of more than some million overlaps
//
// A part that needs no more than another one's bound is left alone. The searches of a round run in parallel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/api.hpp"
#include "model/banks.hpp"
#include "model/placement.hpp"
#include "model/schedule.hpp"

namespace remora {

/// State of a placement. `optimal`: no arena is smaller, or, where a capacity was given, it holds the placement; `infeasible`:
/// it holds none, or fixed buffers share bytes; `unknown`: none within it was found.
using PlacementStatus = Status;

struct PlaceSettings {
  /// Maximum size of the arena; without it, the smallest arena is sought.
  std::optional<Bytes> capacity{};
  /// Units of work; with a limit the same seed gives the same placement whatever the number of threads.
  std::int64_t work_limit = INT64_MAX;
  int threads = 1;
  std::uint64_t seed = 1;
  /// True to run the constraint program, too; otherwise only the heuristics.
  bool exact = true;
  /// Called with every smaller arena and every better bound, from the calling thread. May be empty.
  std::function<void(Bytes arena, Bytes lower_bound)> progress{};
};

struct PlaceResult {
  PlacementStatus status = PlacementStatus::unknown;
  /// One for each buffer; empty if infeasible. Of status unknown, those of the smallest arena found, which is larger than
  /// the capacity.
  std::vector<Bytes> offsets{};
  /// Where there are several memories, the number of each buffer's.
  std::vector<std::size_t> banks{};
  /// To the end of the highest buffer, in whichever memory.
  Bytes arena{};
  /// No arena is smaller; Bytes::max() where fixed buffers share bytes.
  Bytes lower_bound{};
  /// With several memories: the sum of the costs, and a lower bound on it.
  std::int64_t cost = 0;
  std::int64_t least_cost = 0;
  std::int64_t work = 0;
};

/// Throws InputError for buffers that check_buffers rejects. `interrupted` is called from several threads, and ends the
/// search with its best result. Without any limit it may never end. Buffers that never hold memory lie at their fixed
/// offset, or at 0.
REMORA_API PlaceResult place(std::span<const Buffer> buffers, const PlaceSettings& settings,
                             const std::function<bool()>& interrupted);

/// Places buffers in several memories: each in one of its banks, at the smallest sum of costs. If each has a single bank, at no
/// cost, it places bank by bank, as above, within its capacity. `settings.capacity` is ignored here. Throws InputError for
/// what check_bank_problem rejects.
REMORA_API PlaceResult place(const BankProblem& problem, const PlaceSettings& settings,
                             const std::function<bool()>& interrupted);

}  // namespace remora
