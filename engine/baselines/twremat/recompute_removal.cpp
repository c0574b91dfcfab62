// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/twremat/recompute_removal.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace remora {
namespace {

/// A second time finds what the first one's removals made room for; later ones hardly anything.
constexpr int kMostPasses = 4;

/// The deadline is asked once in so many removals.
constexpr int kRemovalsBetweenLooks = 256;

/// One of the excess at least, half of it at most: what is removed changes what the others add.
void remove_cheapest(TrimmedSequence& sequence, OpId op, int excess) {
  std::vector<std::pair<Wide, int>> costs;
  for (const int step : sequence.computes(op).subspan(1)) costs.emplace_back(sequence.added_area(step), step);
  std::sort(costs.begin(), costs.end());
  costs.resize(static_cast<std::size_t>(std::max(1, excess / 2)));
  for (const auto& [area, step] : costs) {
    // One removal may have made another one useless, which is then gone.
    if (sequence.removable(step)) sequence.remove(step);
  }
}

}  // namespace

void remove_beyond_limits(TrimmedSequence& sequence) {
  const Instance& instance = sequence.instance();
  for (int v = instance.op_count() - 1; v >= 0; --v) {
    const OpId op(v);
    const auto excess = [&] { return static_cast<int>(sequence.computes(op).size()) - instance.max_computes(op); };
    while (excess() > 0) remove_cheapest(sequence, op, excess());
  }
}

void remove_unneeded(TrimmedSequence& sequence, const Deadline& deadline) {
  const Instance& instance = sequence.instance();
  std::vector<int> recomputes;
  for (int step = 0; step < sequence.steps(); ++step) {
    if (sequence.removable(step)) recomputes.push_back(step);
  }
  std::stable_sort(recomputes.begin(), recomputes.end(),
                   [&](int a, int b) { return instance.duration(sequence.op(a)) > instance.duration(sequence.op(b)); });
  bool any = true;
  for (int pass = 0; any && pass < kMostPasses; ++pass) {
    any = false;
    int looks = 0;
    for (const int step : recomputes) {
      if (looks++ % kRemovalsBetweenLooks == 0 && deadline.reached()) return;
      if (sequence.removable(step) && sequence.remove_within(step, instance.budget())) any = true;
    }
    std::erase_if(recomputes, [&](int step) { return !sequence.removable(step); });
  }
}

}  // namespace remora
