// SPDX-License-Identifier: Apache-2.0
//
// Schedules that are constructed without a search, for the engine's deepening (engine/ask/deepening.cpp): with more
// runs per op than the problem at hand allows. The best of them is the answer until a search finds a better one.
#pragma once

#include <optional>
#include <span>

#include "engine/base/allowance.hpp"
#include "engine/base/callbacks.hpp"
#include "engine/base/options.hpp"
#include "engine/search/solution.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// The maximum number of runs per op in constructed schedules.
inline constexpr int kMaxConstructedComputes = static_cast<int>(kComputesWithin64Bits);

/// The instance, or the same problem with as many runs per op as the start needs, if the start then fits within the
/// budget.
Instance with_computes_of(const Instance& instance, std::span<const Compute> start);

/// True if the first one is a schedule, and the other one is not or takes longer.
bool is_better(const Schedule& one, const Schedule& other);

struct ConstructedSchedule {
  /// Without steps if nothing was found within the budget.
  Schedule schedule{};
  Source source = Source::segments;
};

class Constructed {
 public:
  /// The arguments outlive this. `applies`: false leaves everything out.
  Constructed(const Instance& instance, const SolveOptions& options, const Allowance& allowance, bool applies)
      : instance_(instance), options_(options), allowance_(allowance), applies_(applies) {}

  /// The best one so far.
  [[nodiscard]] const ConstructedSchedule& best() const;
  /// The best one, too, after checkpoints between segments for `next` were constructed and, if there is no schedule at
  /// all (`has_none`), one with any number of runs. Each is constructed once: the former per problem, the latter per
  /// call.
  const ConstructedSchedule& best_for(const Instance& next, bool has_none);
  /// Another problem begins, with other checkpoints.
  void begin_problem() { checkpoints_.reset(); }

 private:
  [[nodiscard]] ConstructedSchedule construct_checkpoints(const Instance& instance, const Deadline& deadline) const;
  [[nodiscard]] ConstructedSchedule construct_any() const;
  [[nodiscard]] ConstructedSchedule described(const Instance& instance, const Solution& found, Source source) const;

  const Instance& instance_;
  const SolveOptions& options_;
  const Allowance& allowance_;
  bool applies_;
  std::optional<ConstructedSchedule> checkpoints_{};
  std::optional<ConstructedSchedule> any_{};
};

}  // namespace remora
