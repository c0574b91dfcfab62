// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/chains/rotor.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/baselines/chains/block_chain.hpp"
#include "engine/baselines/chains/chain.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// More would leave so few slots (RotorTable) that rounding up costs more than joining blocks does.
constexpr std::size_t kMostBlocks = 150;
/// Two thirds of them up to the budget.
constexpr int kSlots = 1000;

class RotorSearch {
 public:
  RotorSearch(const MethodInput& input, std::vector<TrainingBlock> blocks)
      : input_(input),
        instance_(input.instance),
        blocks_(std::move(blocks)),
        chain_(chain_costs(instance_, blocks_)),
        choice_(instance_) {}

  void run() {
    if (choice_.offer({})) return;
    const Bytes everything = memory_to_save_all(chain_);
    const Bytes within = instance_.budget() - memory_beside_chain(instance_, blocks_.back().forward.end);
    const Bytes beyond = within + Bytes(within.count() / 2);
    // A table that ends not far behind the budget has finer slots; if that is too little for any schedule, the least
    // peak of a larger one is still worth showing.
    if (within > Bytes(0) && beyond < everything && search(beyond)) return;
    search(everything);
  }

  [[nodiscard]] const PlanChoice& choice() const { return choice_; }
  [[nodiscard]] std::int64_t work() const { return work_ + choice_.offers(); }

 private:
  /// Whether the chain has schedules within so much memory. First without a limit on how often blocks run; if that
  /// runs some op too often, with the limit.
  bool search(Bytes memory) {
    const Walk free_walk = walk(memory, 0);
    if (!free_walk.refused) return free_walk.found;
    return walk(memory, least_limit()).found;
  }

  struct Walk {
    /// Some schedule fits.
    bool found = false;
    /// Some schedule, shorter than any that holds the budget, computes an op too often.
    bool refused = false;
  };

  /// Offers the table's schedules, shortest first, until one holds the budget.
  Walk walk(Bytes memory, int most_runs) {
    const auto stopped = [this] { return input_.deadline.reached(); };
    const RotorTable table(chain_, memory, {.slots = kSlots, .most_runs = most_runs, .stopped = stopped});
    work_ += table.work();
    std::vector<Bytes> amounts = table.breakpoints();
    std::reverse(amounts.begin(), amounts.end());
    Walk result{.found = !amounts.empty()};
    for (const Bytes amount : amounts) {
      if (stopped()) break;
      const RecomputePlan plan = expand(instance_, blocks_, table.schedule(amount));
      if (!is_permitted(instance_, sequence_of(instance_, plan))) {
        result.refused = true;
      } else if (choice_.offer(plan)) {
        break;
      }
    }
    return result;
  }

  /// Of the ops that may run again, the least number of computes.
  [[nodiscard]] int least_limit() const {
    int least = instance_.problem().max_computes;
    for (int op = 0; op < blocks_.back().forward.end; ++op) {
      const int most = instance_.max_computes(OpId(op));
      if (most > 1) least = std::min(least, most);
    }
    return least;
  }

  const MethodInput& input_;
  const Instance& instance_;
  std::vector<TrainingBlock> blocks_;
  Chain chain_;
  PlanChoice choice_;
  std::int64_t work_ = 0;
};

}  // namespace

MethodResult run_rotor(const MethodInput& input) {
  const auto forward = forward_part(input.instance);
  if (!forward) return {.note = kNoPhases};
  const std::vector<TrainingBlock> found = block_chain(input.instance, *forward);
  if (found.size() < 2) return {.note = "not a chain: no tensor separates its forward ops into blocks"};
  std::vector<TrainingBlock> blocks = coarsened(found, kMostBlocks);
  std::string note = "blocks: " + std::to_string(found.size());
  if (blocks.size() < found.size()) note += ", joined to " + std::to_string(blocks.size());
  RotorSearch search(input, std::move(blocks));
  search.run();
  return {.sequence = search.choice().best(), .work = search.work(), .note = std::move(note)};
}

}  // namespace remora
