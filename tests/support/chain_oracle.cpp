// SPDX-License-Identifier: Apache-2.0
#include "tests/support/chain_oracle.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <queue>
#include <utility>

#include "model/error.hpp"

namespace remora::test {
namespace {

constexpr std::size_t kMaxBlocks = 6;

using Kind = ChainStep::Kind;

/// What is in memory between two runs.
struct ChainState {
  /// Backward runs left: that of block `left - 1` is next.
  int left = 0;
  /// The block whose input was just computed and is not kept yet; -1 if none.
  int loose = -1;
  /// Whether x_b is kept for its own sake.
  std::array<bool, kMaxBlocks> kept{};
  /// One more than the option by which block b is saved; 0 if it is not.
  std::array<int, kMaxBlocks> saved{};
  /// Whether it was run alone, without its output.
  std::array<bool, kMaxBlocks> alone{};
  /// Forward runs so far; counted only under a limit.
  std::array<int, kMaxBlocks> runs{};

  friend auto operator<=>(const ChainState&, const ChainState&) = default;
};

const ChainBlock& block_at(const Chain& chain, int b) {
  return chain.blocks[static_cast<std::size_t>(b)];
}

/// Whether x_b is among what the block before saved.
bool is_saved_by_other(const Chain& chain, const ChainState& state, int b) {
  if (b == 0) return false;
  const auto before = static_cast<std::size_t>(b - 1);
  if (state.saved[before] == 0 || state.alone[before]) return false;
  return block_at(chain, b - 1).options[static_cast<std::size_t>(state.saved[before] - 1)].reads_output;
}

bool has_input(const Chain& chain, const ChainState& state, int b) {
  const auto at = static_cast<std::size_t>(b);
  return state.kept[at] || state.loose == b || is_saved_by_other(chain, state, b);
}

/// Inputs and saved data, without gradients. An input that the block before saved counts there.
Bytes stored(const Chain& chain, const ChainState& state) {
  Bytes total;
  for (int b = 0; b < static_cast<int>(chain.blocks.size()); ++b) {
    const auto at = static_cast<std::size_t>(b);
    if (state.kept[at] || state.loose == b) total += block_at(chain, b).input;
    if (state.saved[at] == 0) continue;
    const BlockOption& option = block_at(chain, b).options[static_cast<std::size_t>(state.saved[at] - 1)];
    // Run alone, a block is saved only for the backward run that follows at once, whose peak says it all.
    if (!state.alone[at]) total += option.saved;
  }
  return total;
}

Bytes gradient(const Chain& chain, int left) {
  return left == static_cast<int>(chain.blocks.size()) ? chain.gradient : block_at(chain, left).gradient;
}

struct Moved {
  ChainState state{};
  Duration duration{};
  Bytes peak{};
};

std::optional<Moved> run_backward(const Chain& chain, ChainState state, const ChainStep& step) {
  const auto at = static_cast<std::size_t>(step.block);
  if (step.block + 1 != state.left || state.saved[at] != step.option + 1) return {};
  const BlockOption& option = block_at(chain, step.block).options[static_cast<std::size_t>(step.option)];
  if (option.reads_input && !has_input(chain, state, step.block)) return {};
  const BlockRun& run = option.backward;
  state.saved[at] = 0;
  state.alone[at] = false;
  const Bytes peak = stored(chain, state) + run.peak;
  state.kept[at] = false;
  if (state.loose == step.block) state.loose = -1;
  --state.left;
  return Moved{state, run.duration, peak};
}

std::optional<Moved> run_forward(const Chain& chain, ChainState state, const ChainStep& step) {
  const int b = step.block;
  const auto at = static_cast<std::size_t>(b);
  if (b >= state.left || !has_input(chain, state, b) || state.saved[at] > 0) return {};
  const ChainBlock& block = block_at(chain, b);
  const bool passes = step.kind == Kind::pass || step.kind == Kind::pass_on;
  const bool is_last = b + 1 == state.left;
  // Its output would serve nobody, or is there already.
  if ((step.kind == Kind::alone) != is_last || (!is_last && has_input(chain, state, b + 1))) return {};
  if (step.kind == Kind::pass_on && state.loose != b) return {};
  const BlockOption* option = passes ? nullptr : &block.options[static_cast<std::size_t>(step.option)];
  const BlockRun& run = passes ? block.pass : step.kind == Kind::alone ? option->alone : option->forward;
  const Bytes peak = stored(chain, state) + gradient(chain, state.left) + run.peak;
  // Kept from now on, whichever it was, unless this run drops it.
  if (state.loose >= 0 && step.kind != Kind::pass_on) state.kept[static_cast<std::size_t>(state.loose)] = true;
  state.loose = passes || (step.kind == Kind::save && !option->reads_output) ? b + 1 : -1;
  if (!passes) {
    if (!option->reads_input) state.kept[at] = false;
    state.saved[at] = step.option + 1;
    state.alone[at] = step.kind == Kind::alone;
  }
  ++state.runs[at];
  return Moved{state, run.duration, peak};
}

std::optional<Moved> apply(const Chain& chain, const ChainState& state, const ChainStep& step) {
  return step.kind == Kind::backward ? run_backward(chain, state, step) : run_forward(chain, state, step);
}

/// Whether anything of a block behind b is in memory.
bool keeps_behind(const ChainState& state, int b) {
  for (std::size_t behind = static_cast<std::size_t>(b) + 1; behind < kMaxBlocks; ++behind) {
    if (state.kept[behind] || state.saved[behind] > 0 || state.loose == static_cast<int>(behind)) return true;
  }
  return false;
}

std::vector<ChainStep> all_steps(const Chain& chain) {
  std::vector<ChainStep> steps;
  for (int b = 0; b < static_cast<int>(chain.blocks.size()); ++b) {
    steps.push_back({Kind::pass, b, -1});
    steps.push_back({Kind::pass_on, b, -1});
    for (int o = 0; o < static_cast<int>(block_at(chain, b).options.size()); ++o) {
      for (const Kind kind : {Kind::save, Kind::alone, Kind::backward}) steps.push_back({kind, b, o});
    }
  }
  return steps;
}

ChainState first_state(const Chain& chain) {
  ensure(chain.blocks.size() <= kMaxBlocks, "chain_oracle: the chain is too long");
  ChainState state;
  state.left = static_cast<int>(chain.blocks.size());
  state.kept[0] = true;
  return state;
}

}  // namespace

std::optional<Duration> chain_optimum(const Chain& chain, Bytes memory, const ChainSearch& search) {
  using Entry = std::pair<std::int64_t, ChainState>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  std::map<ChainState, std::int64_t> best;
  const auto steps = all_steps(chain);
  queue.push({0, first_state(chain)});
  if (block_at(chain, 0).input > memory) return std::nullopt;
  while (!queue.empty()) {
    const auto [time, state] = queue.top();
    queue.pop();
    if (state.left == 0) return Duration(time);
    if (const auto known = best.find(state); known != best.end() && known->second < time) continue;
    for (const ChainStep& step : steps) {
      if (search.nested && step.kind != Kind::backward && keeps_behind(state, step.block)) continue;
      auto moved = apply(chain, state, step);
      if (!moved || moved->peak > memory) continue;
      const auto runs = moved->state.runs[static_cast<std::size_t>(step.block)];
      if (search.most_runs > 0 && runs > search.most_runs) continue;
      if (search.most_runs == 0) moved->state.runs = {};
      const std::int64_t arrival = time + moved->duration.count();
      const auto [at, fresh] = best.try_emplace(moved->state, arrival);
      if (!fresh && at->second <= arrival) continue;
      at->second = arrival;
      queue.push({arrival, moved->state});
    }
  }
  return std::nullopt;
}

std::optional<ChainReplay> replay(const Chain& chain, const std::vector<ChainStep>& steps) {
  ChainState state = first_state(chain);
  ChainReplay result{.peak = block_at(chain, 0).input};
  for (const ChainStep& step : steps) {
    const auto moved = apply(chain, state, step);
    if (!moved) return std::nullopt;
    state = moved->state;
    result.duration += moved->duration;
    result.peak = std::max(result.peak, moved->peak);
  }
  if (state.left > 0) return std::nullopt;
  result.most_runs = *std::max_element(state.runs.begin(), state.runs.end());
  return result;
}

}  // namespace remora::test
