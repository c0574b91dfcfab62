// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "model/cp/solve_retention.hpp"
#include "model/instance.hpp"

namespace remora::test {

inline constexpr unsigned kInferences = 6;

/// The inferences as bits, from the least significant one in the order of the struct.
cp::Inferences inferences_from_bits(unsigned bits);

/// Such bits: all inferences mostly, else any of them.
unsigned random_switches(std::mt19937& random);

/// The whole problem, solved by the complete search from the input order.
cp::SearchOutcome solve_whole(const Instance& instance, const cp::Inferences& inferences = {},
                              const cp::SearchSettings& settings = {});

/// Budgets worth trying: from one below the smallest footprint to the no-recompute peak.
std::vector<Bytes> budgets(const Instance& instance);

/// What speaks against the outcome's sequence: it breaks the budget, the limits or the order mode (by verify, where the
/// ops have no modes, and by the evaluator), or does not cost what the search says. Empty if nothing does.
std::string faults(const Instance& instance, const cp::SearchOutcome& outcome);

/// Which problems to draw.
struct ProblemKind {
  OrderMode order = OrderMode::input;
  bool with_modes = false;
  int least_ops = 2;
  int most_ops = 6;
  int most_computes = 3;
  /// Graphs of version 2: `in_place` and `recompute_allocates`.
  bool in_place = false;
};

struct OracleTally {
  int cases = 0;
  int feasible = 0;
  int recomputing = 0;
  /// The first disagreement, with what it takes to see it again; empty if there was none.
  std::string failure{};
};

/// Draws one graph and compares the complete search with the oracle at every budget. Seeds differ, results do not
/// depend on anything else.
void check_random_graph(std::uint32_t seed, const ProblemKind& kind, OracleTally& tally);

}  // namespace remora::test
