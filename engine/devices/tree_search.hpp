// SPDX-License-Identifier: Apache-2.0
//
// The exact search over several devices: Gecode's branch and bound over a constraint program, complete.
//
//   variables     F_v, the device of an op's first run: the devices on which it has room (an op's modes)
//   propagators   AssignmentCost    what has been spent and what the rest costs at least (remaining_cost) is below the best
//                                   known, and within the limits on duration and energy
//                 Memory      one a device: what must stay there, or come back at a price, leaves room for each
//                                   op's first run, or the op is not run there
//   branching     the next move (state.hpp): a run, a copy, a release
//   equal states  a state that was reached before at no more cost is not searched again (subproblem equivalence: Chu, de la
//                 Banda, Stuckey 2010). So the search ends however many copies there may be, those that cost nothing included.
//
// Schedules are built from the front. XEngine's program (Schuler et al. 2022, eq. 1 to 20) has a matrix of runs and one of what is
// kept, by stage and device, and drops what was copied after its one use; here a copy stays as long as there is room.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/devices/problem.hpp"

namespace remora::devices {

/// Results of a complete search so far.
struct CompleteOutcome {
  /// The best schedule found, with its releases; of the moves' form. Nothing if none was found.
  std::optional<std::vector<DeviceStep>> steps{};
  /// Bound on the objective.
  std::int64_t cost = 0;
  /// For a search that takes the most promising state first: no schedule costs less than this or what was required.
  std::int64_t least = 0;
  /// All was searched: the steps are optimal, or without any there are none below what was required.
  bool complete = false;
  /// More states were met than are kept: the search will not go on.
  bool exhausted = false;
  std::int64_t nodes = 0;
};

/// A search that can be stopped and taken up again. The whole of Gecode stays behind this header; for one thread at a time.
class TreeSearch {
 public:
  /// Graph and problem must outlive the search. `interrupted` is asked at every node, and may be empty.
  TreeSearch(const DeviceGraph& graph, const Problem& problem, std::function<bool()> interrupted);
  TreeSearch(const TreeSearch&) = delete;
  TreeSearch& operator=(const TreeSearch&) = delete;
  ~TreeSearch();

  /// Searches on for at most so many nodes. The outcome counts from the beginning.
  const CompleteOutcome& advance(std::int64_t nodes);
  /// From now on only schedules that cost less are wanted; a bound above the present one is ignored.
  void require_below(std::int64_t cost);

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace remora::devices
