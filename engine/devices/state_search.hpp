// SPDX-License-Identifier: Apache-2.0
//
// The complete search where steps run beside each other (lanes), of small problems: over what is the case after some steps, and when
// (timed_state.hpp), rather than over sequences of steps.
//
// The state with the least bound (timed_bound.cpp) is the next one to go on from. A state beside which another one has all no later
// and no more expensive is left out (dominance, as in label-setting shortest paths with resources: Desrochers, Soumis 1988). So the first
// state in which all is done is the optimum, what the next one costs at least is a bound meanwhile, and where none is left there is no
// schedule.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/devices/tree_search.hpp"

namespace remora::devices {

/// A search that can be stopped and taken up again; for one thread at a time.
class StateSearch {
 public:
  /// Up to 16 ops with 7 runs each, and 64 places.
  static bool fits(const DeviceGraph& graph, const Problem& problem);

  /// Graph and problem must outlive the search, and fit. `interrupted` is asked every few states, and may be empty.
  StateSearch(const DeviceGraph& graph, const Problem& problem, std::function<bool()> interrupted);
  StateSearch(const StateSearch&) = delete;
  StateSearch& operator=(const StateSearch&) = delete;
  ~StateSearch();

  /// Searches on for about so many nodes: states that it comes to. The outcome counts from the beginning.
  const CompleteOutcome& advance(std::int64_t nodes);
  /// From now on only schedules that cost less are wanted; a bound above the present one is ignored.
  void require_below(std::int64_t cost);

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace remora::devices
