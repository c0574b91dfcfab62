// SPDX-License-Identifier: Apache-2.0
//
// Bounds of a problem before any search: by footprints and by the covering relaxation.
#pragma once

#include <climits>
#include <memory>
#include <optional>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/bound/cover_facts.hpp"
#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// The smallest budget that any schedule, of whatever order, could hold: while an op runs its inputs, outputs and
/// workspace are resident beside fixed memory and the graph's inputs; at the end, so are all tensors that must be kept.
Bytes least_budget(const Instance& instance);

/// Memory that each op needs while it runs, by op, and finally what must be kept after the last op. Nothing for a graph
/// without ops. O(edges).
std::vector<Certificate> footprint_certificates(const Instance& instance);

/// The op of the largest footprint, if that exceeds the budget, or the last op and the tensors that must be kept after
/// it, if those do: an exact proof that no schedule fits within it. Nothing for a graph without ops. O(edges).
std::optional<Certificate> footprint_certificate(const Instance& instance);

/// One mode per op, with the least amounts of all: whatever holds of every schedule of this instance, in which each
/// sequence of ops takes no more time and memory, holds where modes are chosen. An input that some mode leaves unread
/// is no input here. The instance itself if it has no modes, which must outlive the result; null where an op takes so
/// much less than its inputs and outputs that no graph says so.
std::shared_ptr<const Instance> least_of_modes(const Instance& instance);

/// Bounds of a problem without a search.
struct FirstBound {
  /// No schedule holds the budget; where one event alone proves it, the certificate says which.
  bool infeasible = false;
  std::optional<Certificate> certificate{};
  /// Bound on the extra duration; and the part of it that whole numbers alone prove, the rest being CBC's word.
  Duration lower_bound{};
  Duration exact_bound{};
  /// Guidance for the search.
  CoverFacts cover{};
  /// Who solved the integer program, if it was solved.
  IntegerSolver solved_by = IntegerSolver::off;
};

/// By footprints, then by the covering relaxation of the least amounts. The integer program takes a twentieth of the
/// time limit at most.
FirstBound find_first_bound(const Instance& instance, const SolveOptions& options, const Deadline& deadline);

/// No schedule of the staged form holds a smaller budget: by the footprints and the covering relaxation, in exact
/// arithmetic. By bisection, down to this part of the budgets in question; what deadline or steps leave open is not
/// proved infeasible. The instance's own budget does not matter.
Bytes proved_least_budget(const Instance& instance, const Deadline& deadline, double resolution = 0,
                          int most_steps = INT_MAX);

}  // namespace remora
