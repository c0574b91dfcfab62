// SPDX-License-Identifier: Apache-2.0
//
// The literature's methods behind one interface: an Instance in, one sequence of computes out, and what the method can
// say about the optimum. solve() evaluates the sequence, checks it against the instance's limits and writes it down; a
// method need not hold the budget, only say its best.
//
//     none, greedy (Kumar et al. 2019, section 4), sqrt (Chen et al. 2016), twremat (Kumar et al. 2019, algorithm 1),
//     rotor (Beaumont et al. 2019), checkmate and checkmate-lp (Jain et al. 2020)
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "model/instance.hpp"

namespace remora {

struct MethodInput {
  const Instance& instance;
  const SolveOptions& options;
  /// Of the whole solve; methods that take long stop there with what they have.
  const Deadline& deadline;
};

struct MethodResult {
  /// Any order in which every op's inputs are computed earlier, every op at least once; empty if there is none to show.
  /// Which releases go with it is the evaluator's business.
  std::vector<OpId> sequence{};
  /// No schedule of the instance's problem takes less time beyond the baseline; 0 where the method proves nothing.
  Duration lower_bound{};
  /// Units of work done, of the method's own kind.
  std::int64_t work = 0;
  /// What the user should know, in a few words: why there is no schedule, which parameter was taken. May be empty.
  std::string note{};
};

/// The same instance and options give the same sequence, unless a deadline cut it short.
using Method = MethodResult (*)(const MethodInput& input);

/// The method of a strategy; null for strategies that search.
Method method_of(Strategy strategy);

/// Whether the strategy searches, by workers of ours.
inline bool is_search(Strategy strategy) {
  return method_of(strategy) == nullptr;
}

/// Whether the sequence is one of the instance's problem: its order (input or free), `after`, and how often each op may
/// run. Says nothing of memory.
bool is_permitted(const Instance& instance, const std::vector<OpId>& sequence);

}  // namespace remora
