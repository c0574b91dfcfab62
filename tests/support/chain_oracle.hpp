// SPDX-License-Identifier: Apache-2.0
//
// The truth about small chains, by brute force, and a replay of their schedules.
//
// Both know runs and what must be in memory for them, and nothing of the dynamic program. The search is a shortest path
// over states: which inputs are kept, by which option every block is saved, which backward run comes next, and which
// output was just computed. What was kept, or used by any run but the one that drops it, stays until the backward run
// of its block, or the forward run that makes it superfluous: the persistent schedules.
#pragma once

#include <optional>
#include <vector>

#include "engine/baselines/chains/chain.hpp"
#include "model/types.hpp"

namespace remora::test {

/// Which schedules of a chain are looked at.
struct ChainSearch {
  /// How often each block may run forward, 0 for no limit.
  int most_runs = 0;
  /// Only those where a block runs forward while nothing is kept of the blocks behind it.
  bool nested = false;
};

/// The least time of a persistent schedule of the chain within so much memory; nothing if there is none. For up to 6
/// blocks of up to 3 options.
std::optional<Duration> chain_optimum(const Chain& chain, Bytes memory, const ChainSearch& search = {});

/// What a schedule of a chain costs.
struct ChainReplay {
  Duration duration{};
  Bytes peak{};
  int most_runs = 0;
};

/// Nothing if some run lacks what it reads, or the backward runs are not all there.
std::optional<ChainReplay> replay(const Chain& chain, const std::vector<ChainStep>& steps);

}  // namespace remora::test
