// SPDX-License-Identifier: Apache-2.0
//
// The largest batch that a budget holds at a given overhead: `remora sweep MODEL --batch-size DIM --budget B`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "engine/base/options.hpp"
#include "frontends/cli/reading/arguments.hpp"
#include "model/instance.hpp"

namespace remora::cli {

/// What one batch size came to.
enum class Fit {
  fits,       ///< a schedule within the budget and the overhead was found
  undecided,  ///< none was found within the limits
  impossible  ///< proved: there is none
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

/// The command's work: prints a line a size, writes the answer as JSON and the largest batch's schedule. Returns the
/// exit code. `more_computes`: more an op than the problem's where they make a batch fit. Throws UsageError and InputError.
int find_batch_size(const Arguments& arguments, const SolveOptions& options, const Problem& problem,
                    bool more_computes);

}  // namespace remora::cli
