// SPDX-License-Identifier: Apache-2.0
//
// The largest size of a network that a budget holds at a given overhead: its batch, its depth. A loop over requests, each of
// which ends as soon as it is clear whether its size fits.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/ask/ask.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"
#include "model/types.hpp"

namespace remora {

/// Result for one size.
enum class Fit {
  fits,       ///< a schedule within the budget and the overhead was found
  undecided,  ///< none was found within the limits
  impossible  ///< proved: there is none
};

/// One size and what was found for it.
struct Trial {
  std::int64_t size = 0;
  Fit fit = Fit::undecided;
  Schedule schedule{};
};

struct LargestFit {
  /// The largest size that fits; none if 1 does not.
  std::optional<std::int64_t> largest{};
  /// The smallest size that was tried and does not fit; none if every size up to the limit does.
  std::optional<std::int64_t> next{};
};

/// The largest size from 1 to `most` that fits, given that every size below one that fits does: by doubling, then by
/// bisection. Calls `fit` O(log result) times, never twice for one size. Ends early where `fit` says nothing: what is
/// known so far.
LargestFit find_largest_fit(std::int64_t most, const std::function<std::optional<Fit>(std::int64_t)>& fit);

struct FitRequest {
  /// The problem of every size, but for its graph. The time limit is of all sizes together, the work limit of each.
  Request request{};
  std::int64_t most = 1;
  std::function<std::shared_ptr<const Graph>(std::int64_t size)> graph_of{};
  /// The longest duration that will do, by that of every op once.
  std::function<Duration(Duration baseline)> allowed{};
};

struct FitCallbacks {
  /// Told of every size once it is tried, and of the seconds since the beginning. May be empty.
  std::function<void(const Trial& trial, double seconds)> tried{};
  /// Set to true from anywhere to end with what is known. May be null.
  const std::atomic<bool>* cancel = nullptr;
};

struct FitAnswer {
  LargestFit sizes{};
  /// In the order in which they were tried; their schedules are replayed.
  std::vector<Trial> trials{};

  [[nodiscard]] const Trial& trial_of(std::int64_t size) const;
  /// The next size is one more, and impossible.
  [[nodiscard]] bool is_proved() const;
};

/// Throws InputError as solve() does, and for order auto.
FitAnswer largest_fit(const FitRequest& asked, const FitCallbacks& callbacks = {});

}  // namespace remora
