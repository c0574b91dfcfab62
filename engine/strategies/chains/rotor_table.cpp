// SPDX-License-Identifier: Apache-2.0
#include "engine/strategies/chains/rotor_table.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "model/ensure.hpp"

namespace remora {
namespace {

/// Three of them add up within 64 bits.
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::int64_t kMostEntries = std::int64_t{1} << 24U;

std::size_t pair_count(int blocks) {
  const auto count = static_cast<std::size_t>(blocks);
  return count * (count + 1) / 2;
}

/// What every amount that the recursion subtracts from memory is a multiple of; 0 if all are 0.
std::int64_t divisor_of_amounts(const Chain& chain) {
  std::int64_t divisor = 0;
  for (const ChainBlock& block : chain.blocks) {
    divisor = std::gcd(divisor, block.input.count());
    for (const BlockOption& option : block.options) divisor = std::gcd(divisor, option.saved.count());
  }
  return divisor;
}

/// What peaks and gradients are multiples of too.
std::int64_t divisor_of_everything(const Chain& chain) {
  std::int64_t divisor = std::gcd(divisor_of_amounts(chain), chain.gradient.count());
  const auto add = [&](Bytes amount) { divisor = std::gcd(divisor, amount.count()); };
  for (const ChainBlock& block : chain.blocks) {
    add(block.gradient);
    add(block.pass.peak);
    for (const BlockOption& option : block.options) {
      for (const BlockRun& run : {option.forward, option.alone, option.backward}) add(run.peak);
    }
  }
  return divisor;
}

std::int64_t ceil_divide(std::int64_t amount, std::int64_t by) {
  return amount / by + (amount % by == 0 ? 0 : 1);
}

}  // namespace

RotorTable::RotorTable(Chain chain, Bytes memory, RotorLimits limits)
    : chain_(std::move(chain)), limits_(std::move(limits)), block_count_(static_cast<int>(chain_.blocks.size())) {
  ensure(block_count_ > 0, "RotorTable: a chain without blocks");
  // No block runs more often than there are blocks: each `pass` solves the part that runs again for fewer of them.
  const bool limited = limits_.most_runs > 0 && limits_.most_runs < block_count_;
  levels_ = limited ? limits_.most_runs : 1;
  if (!limited) limits_.most_runs = 0;
  fits_input_ = memory >= chain_.blocks.front().input;
  if (!fits_input_) return;
  const auto rows = static_cast<std::int64_t>(pair_count(block_count_)) * levels_;
  const auto most = std::clamp<std::int64_t>(kMostEntries / rows - 1, 1, std::max(1, limits_.slots));
  choose_slots(memory - chain_.blocks.front().input, static_cast<int>(most));
  table_.assign(static_cast<std::size_t>(rows) * static_cast<std::size_t>(slot_count_ + 1), kNever);
  fill_all();
}

void RotorTable::choose_slots(Bytes memory, int most) {
  exact_ = false;
  slot_ = std::max<std::int64_t>(1, ceil_divide(memory.count(), most));
  // The finer one first: exact for every amount, not only for amounts that whole slots part from `memory`.
  for (const std::int64_t divisor : {divisor_of_everything(chain_), divisor_of_amounts(chain_)}) {
    const std::int64_t slot = std::max<std::int64_t>(1, divisor);
    if (exact_ || memory.count() / slot > most) continue;
    exact_ = true;
    slot_ = slot;
  }
  slot_count_ = static_cast<int>(memory.count() / slot_);
  offset_ = memory.count() % slot_;
}

int RotorTable::slots_for_peak(Bytes peak) const {
  if (peak.count() <= offset_) return 0;
  return static_cast<int>(std::min<std::int64_t>(ceil_divide(peak.count() - offset_, slot_), slot_count_ + 1));
}

int RotorTable::slots_for_amount(Bytes amount) const {
  return static_cast<int>(std::min<std::int64_t>(ceil_divide(amount.count(), slot_), slot_count_ + 1));
}

std::int64_t* RotorTable::row(int level, int first, int end) {
  return const_cast<std::int64_t*>(std::as_const(*this).row(level, first, end));
}

const std::int64_t* RotorTable::row(int level, int first, int end) const {
  const std::size_t index = pair_count(block_count_) * static_cast<std::size_t>(level) + pair_count(end - 1) +
                            static_cast<std::size_t>(first);
  return table_.data() + index * static_cast<std::size_t>(slot_count_ + 1);
}

Bytes RotorTable::gradient(int end) const {
  return end == block_count_ ? chain_.gradient : chain_.blocks[static_cast<std::size_t>(end)].gradient;
}

int RotorTable::need(const BlockOption& option, const BlockRun& forward, int end) const {
  return std::max(slots_for_peak(gradient(end) + forward.peak), slots_for_peak(option.backward.peak));
}

std::optional<int> RotorTable::level_below(int level) const {
  if (limits_.most_runs == 0) return level;
  return level > 0 ? std::optional(level - 1) : std::nullopt;
}

void RotorTable::fill_all() {
  for (int level = 0; level < levels_; ++level) {
    for (int length = 1; length <= block_count_; ++length) {
      for (int first = 0; first + length <= block_count_; ++first) {
        if (limits_.stopped && limits_.stopped()) {
          complete_ = false;
          return;
        }
        fill(level, first, first + length);
      }
    }
  }
}

void RotorTable::fill(int level, int first, int end) {
  std::int64_t* values = row(level, first, end);
  if (first + 1 == end) {
    fill_last(values, first);
    return;
  }
  fill_saving(values, level, first, end);
  fill_passing(values, level, first, end);
}

void RotorTable::fill_last(std::int64_t* values, int first) {
  for (const BlockOption& option : chain_.blocks[static_cast<std::size_t>(first)].options) {
    const std::int64_t time = (option.alone.duration + option.backward.duration).count();
    for (int k = need(option, option.alone, first + 1); k <= slot_count_; ++k) values[k] = std::min(values[k], time);
  }
}

void RotorTable::fill_saving(std::int64_t* values, int level, int first, int end) {
  const std::int64_t* rest = row(level, first + 1, end);
  for (const BlockOption& option : chain_.blocks[static_cast<std::size_t>(first)].options) {
    const std::int64_t time = (option.forward.duration + option.backward.duration).count();
    const int saved = slots_for_amount(option.saved);
    for (int k = std::max(saved, need(option, option.forward, end)); k <= slot_count_; ++k) {
      values[k] = std::min(values[k], time + rest[k - saved]);
    }
    work_ += slot_count_;
  }
}

void RotorTable::fill_passing(std::int64_t* values, int level, int first, int end) {
  const std::optional<int> again = level_below(level);
  if (!again) return;
  const BlockRun& begin = chain_.blocks[static_cast<std::size_t>(first)].pass;
  std::int64_t time = begin.duration.count();
  int least = slots_for_peak(gradient(end) + begin.peak);
  for (int i = first + 1; i < end; ++i) {
    const ChainBlock& block = chain_.blocks[static_cast<std::size_t>(i)];
    const std::int64_t* behind = row(level, i, end);
    const std::int64_t* before = row(*again, first, i);
    const int kept = slots_for_amount(block.input);
    for (int k = std::max(kept, least); k <= slot_count_; ++k) {
      values[k] = std::min(values[k], time + behind[k - kept] + before[k]);
    }
    work_ += slot_count_;
    time = std::min(kNever, time + block.pass.duration.count());
    least = std::max(least, slots_for_peak(gradient(end) + block.input + block.pass.peak));
  }
}

std::optional<RotorTable::Problem> RotorTable::whole(Bytes memory) const {
  if (!complete_ || !fits_input_) return std::nullopt;
  const std::int64_t beside = (memory - chain_.blocks.front().input).count() - offset_;
  if (beside < 0) return std::nullopt;
  return Problem{0, block_count_, static_cast<int>(std::min<std::int64_t>(beside / slot_, slot_count_)), levels_ - 1};
}

std::optional<Duration> RotorTable::duration(Bytes memory) const {
  const auto problem = whole(memory);
  if (!problem) return std::nullopt;
  const std::int64_t value = row(problem->level, 0, block_count_)[problem->slots];
  return value < kNever ? std::optional(Duration(value)) : std::nullopt;
}

std::vector<Bytes> RotorTable::breakpoints() const {
  std::vector<Bytes> points;
  if (!complete_ || !fits_input_) return points;
  const std::int64_t* values = row(levels_ - 1, 0, block_count_);
  for (int k = 0; k <= slot_count_; ++k) {
    const bool falls = values[k] < (k == 0 ? kNever : values[k - 1]);
    if (falls) points.push_back(chain_.blocks.front().input + Bytes(offset_ + k * slot_));
  }
  return points;
}

RotorTable::Choice RotorTable::choose_option(const Problem& problem, std::int64_t value) const {
  const bool is_last = problem.first + 1 == problem.end;
  const auto& options = chain_.blocks[static_cast<std::size_t>(problem.first)].options;
  for (std::size_t o = 0; o < options.size(); ++o) {
    const BlockOption& option = options[o];
    const BlockRun& forward = is_last ? option.alone : option.forward;
    const int saved = is_last ? 0 : slots_for_amount(option.saved);
    if (problem.slots < std::max(saved, need(option, forward, problem.end))) continue;
    std::int64_t time = (forward.duration + option.backward.duration).count();
    if (!is_last) time += row(problem.level, problem.first + 1, problem.end)[problem.slots - saved];
    if (time == value) return {static_cast<int>(o), -1};
  }
  return {};
}

RotorTable::Choice RotorTable::choose(const Problem& problem) const {
  const std::int64_t value = row(problem.level, problem.first, problem.end)[problem.slots];
  const Choice saving = choose_option(problem, value);
  if (saving.option >= 0) return saving;
  const std::optional<int> again = level_below(problem.level);
  const BlockRun& begin = chain_.blocks[static_cast<std::size_t>(problem.first)].pass;
  std::int64_t time = begin.duration.count();
  int least = slots_for_peak(gradient(problem.end) + begin.peak);
  for (int i = problem.first + 1; again && i < problem.end && problem.slots >= least; ++i) {
    const ChainBlock& block = chain_.blocks[static_cast<std::size_t>(i)];
    const int kept = slots_for_amount(block.input);
    if (problem.slots >= kept && time + row(problem.level, i, problem.end)[problem.slots - kept] +
                                         row(*again, problem.first, i)[problem.slots] ==
                                     value) {
      return {-1, i};
    }
    time = std::min(kNever, time + block.pass.duration.count());
    least = std::max(least, slots_for_peak(gradient(problem.end) + block.input + block.pass.peak));
  }
  ensure(false, "RotorTable: no choice gives the optimum");
  return {};
}

std::vector<ChainStep> RotorTable::schedule(Bytes memory) const {
  std::vector<ChainStep> steps;
  if (!duration(memory)) return steps;
  using Kind = ChainStep::Kind;
  /// What is left to do, the next at the back: a problem, or a step where `backward` is set.
  struct Task {
    Problem problem{};
    std::optional<ChainStep> backward{};
  };
  std::vector<Task> tasks{{*whole(memory), {}}};
  while (!tasks.empty()) {
    const auto [problem, backward] = std::move(tasks.back());
    tasks.pop_back();
    if (backward) {
      steps.push_back(*backward);
      continue;
    }
    const Choice choice = choose(problem);
    const ChainBlock& block = chain_.blocks[static_cast<std::size_t>(problem.first)];
    if (choice.option >= 0) {
      const bool is_last = problem.first + 1 == problem.end;
      steps.push_back({is_last ? Kind::alone : Kind::save, problem.first, choice.option});
      tasks.push_back({{}, ChainStep{Kind::backward, problem.first, choice.option}});
      const int saved = slots_for_amount(block.options[static_cast<std::size_t>(choice.option)].saved);
      if (!is_last) tasks.push_back({{problem.first + 1, problem.end, problem.slots - saved, problem.level}, {}});
      continue;
    }
    for (int i = problem.first; i < choice.checkpoint; ++i) {
      steps.push_back({i == problem.first ? Kind::pass : Kind::pass_on, i, -1});
    }
    const int kept = slots_for_amount(chain_.blocks[static_cast<std::size_t>(choice.checkpoint)].input);
    tasks.push_back({{problem.first, choice.checkpoint, problem.slots, *level_below(problem.level)}, {}});
    tasks.push_back({{choice.checkpoint, problem.end, problem.slots - kept, problem.level}, {}});
  }
  return steps;
}

}  // namespace remora
