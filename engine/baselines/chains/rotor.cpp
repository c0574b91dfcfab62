// SPDX-License-Identifier: Apache-2.0
#include "engine/baselines/chains/rotor.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/baselines/chains/block_chain.hpp"
#include "engine/baselines/chains/chain.hpp"
#include "model/error.hpp"
#include "model/sequence.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

/// Three of them add up within 64 bits.
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::int64_t kMaxEntries = std::int64_t{1} << 24U;

std::size_t pair_count(int blocks) {
  const auto count = at(blocks);
  return count * (count + 1) / 2;
}

/// Greatest common divisor of all amounts that the recursion subtracts from memory; 0 if all are 0.
std::int64_t divisor_of_amounts(const Chain& chain) {
  std::int64_t divisor = 0;
  for (const ChainBlock& block : chain.blocks) {
    divisor = std::gcd(divisor, block.input.count());
    for (const BlockOption& option : block.options) divisor = std::gcd(divisor, option.saved.count());
  }
  return divisor;
}

/// Greatest common divisor that also counts peaks and gradients.
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
  const auto rows = 2 * static_cast<std::int64_t>(pair_count(block_count_)) * levels_;
  const auto most = std::clamp<std::int64_t>(kMaxEntries / rows - 1, 1, std::max(1, limits_.slots));
  choose_slots(memory, static_cast<int>(most));
  table_.assign(at(rows) * at(slot_count_ + 1), kNever);
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

std::size_t RotorTable::row_start(const Stretch& stretch) const {
  const auto table = at(2 * stretch.level + (stretch.owns_input ? 1 : 0));
  const std::size_t row = pair_count(block_count_) * table + pair_count(stretch.end - 1) + at(stretch.first);
  return row * at(slot_count_ + 1);
}

std::int64_t RotorTable::value(const Problem& problem) const {
  return table_[row_start(problem.stretch) + at(problem.slots)];
}

Bytes RotorTable::gradient(int end) const {
  return end == block_count_ ? chain_.gradient : block(end).gradient;
}

Bytes RotorTable::own_input(const Stretch& stretch) const {
  return stretch.owns_input ? block(stretch.first).input : Bytes(0);
}

RotorTable::Start RotorTable::save(const Stretch& stretch, const BlockOption& option) const {
  const bool is_last = stretch.first + 1 == stretch.end;
  const BlockRun& forward = is_last ? option.alone : option.forward;
  const Bytes input = own_input(stretch);
  const Bytes staying = option.reads_input ? input : Bytes(0);
  const int least = std::max(slots_for_peak(input + gradient(stretch.end) + forward.peak),
                             slots_for_peak(staying + option.backward.peak));
  return {least, slots_for_amount(option.saved + staying), (forward.duration + option.backward.duration).count()};
}

RotorTable::Stretch RotorTable::behind(const Stretch& stretch, const BlockOption& option) const {
  return {stretch.first + 1, stretch.end, stretch.level, !option.reads_output};
}

std::optional<RotorTable::Stretch> RotorTable::again(const Stretch& stretch, int checkpoint) const {
  if (limits_.most_runs == 0) return Stretch{stretch.first, checkpoint, stretch.level, stretch.owns_input};
  if (stretch.level == 0) return std::nullopt;
  return Stretch{stretch.first, checkpoint, stretch.level - 1, stretch.owns_input};
}

template <class Visit>
void RotorTable::for_each_pass(const Stretch& stretch, Visit visit) const {
  const Bytes beside = own_input(stretch) + gradient(stretch.end);
  const BlockRun& first = block(stretch.first).pass;
  Start start{slots_for_peak(beside + first.peak), slots_for_amount(own_input(stretch)), first.duration.count()};
  for (int i = stretch.first + 1; i < stretch.end; ++i) {
    visit(i, start);
    const BlockRun& pass = block(i).pass;
    start.time = std::min(kNever, start.time + pass.duration.count());
    start.least = std::max(start.least, slots_for_peak(beside + block(i).input + pass.peak));
  }
}

void RotorTable::fill_all() {
  for (int level = 0; level < levels_; ++level) {
    for (int length = 1; length <= block_count_; ++length) {
      for (int first = 0; first + length <= block_count_; ++first) {
        if (work_ > limits_.work || (limits_.stopped && limits_.stopped())) {
          complete_ = false;
          return;
        }
        fill({first, first + length, level, false});
        fill({first, first + length, level, true});
      }
    }
  }
}

void RotorTable::fill(const Stretch& stretch) {
  fill_saving(stretch);
  fill_passing(stretch);
}

void RotorTable::fill_saving(const Stretch& stretch) {
  std::int64_t* const values = table_.data() + row_start(stretch);
  for (const BlockOption& option : block(stretch.first).options) {
    const Start start = save(stretch, option);
    work_ += slot_count_;
    if (stretch.first + 1 == stretch.end) {
      for (int k = start.least; k <= slot_count_; ++k) values[k] = std::min(values[k], start.time);
      continue;
    }
    const std::int64_t* const rest = table_.data() + row_start(behind(stretch, option));
    for (int k = std::max(start.least, start.taken); k <= slot_count_; ++k) {
      values[k] = std::min(values[k], start.time + rest[k - start.taken]);
    }
  }
}

void RotorTable::fill_passing(const Stretch& stretch) {
  std::int64_t* const values = table_.data() + row_start(stretch);
  for_each_pass(stretch, [&](int i, const Start& start) {
    const std::optional<Stretch> before = again(stretch, i);
    if (!before) return;
    const std::int64_t* const behind = table_.data() + row_start({i, stretch.end, stretch.level, true});
    const std::int64_t* const rerun = table_.data() + row_start(*before);
    for (int k = std::max(start.taken, start.least); k <= slot_count_; ++k) {
      values[k] = std::min(values[k], start.time + behind[k - start.taken] + rerun[k]);
    }
    work_ += slot_count_;
  });
}

std::optional<RotorTable::Problem> RotorTable::whole(Bytes memory) const {
  const std::int64_t beyond = memory.count() - offset_;
  if (!complete_ || beyond < 0) return std::nullopt;
  const auto slots = static_cast<int>(std::min<std::int64_t>(beyond / slot_, slot_count_));
  return Problem{{0, block_count_, levels_ - 1, true}, slots};
}

std::optional<Duration> RotorTable::duration(Bytes memory) const {
  const auto problem = whole(memory);
  if (!problem || value(*problem) >= kNever) return std::nullopt;
  return Duration(value(*problem));
}

std::vector<Bytes> RotorTable::breakpoints() const {
  std::vector<Bytes> points;
  std::optional<Duration> before;
  for (int k = 0; k <= slot_count_; ++k) {
    const Bytes memory(offset_ + k * slot_);
    const auto now = duration(memory);
    if (now && (!before || *now < *before)) points.push_back(memory);
    before = now;
  }
  return points;
}

RotorTable::Choice RotorTable::choose_option(const Problem& problem) const {
  const Stretch& stretch = problem.stretch;
  const auto& options = block(stretch.first).options;
  for (std::size_t o = 0; o < options.size(); ++o) {
    Start start = save(stretch, options[o]);
    if (problem.slots < start.least) continue;
    if (stretch.first + 1 < stretch.end) {
      if (problem.slots < start.taken) continue;
      start.time += value({behind(stretch, options[o]), problem.slots - start.taken});
    }
    if (start.time == value(problem)) return {static_cast<int>(o), -1};
  }
  return {};
}

RotorTable::Choice RotorTable::choose(const Problem& problem) const {
  Choice choice = choose_option(problem);
  if (choice.option >= 0) return choice;
  const Stretch& stretch = problem.stretch;
  for_each_pass(stretch, [&](int i, const Start& start) {
    const std::optional<Stretch> before = again(stretch, i);
    if (!before || problem.slots < std::max(start.least, start.taken)) return;
    const std::int64_t rest = value({{i, stretch.end, stretch.level, true}, problem.slots - start.taken});
    if (start.time + rest + value({*before, problem.slots}) == value(problem)) choice.checkpoint = i;
  });
  ensure(choice.checkpoint >= 0, "RotorTable: no choice gives the optimum");
  return choice;
}

std::vector<ChainStep> RotorTable::schedule(Bytes memory) const {
  std::vector<ChainStep> steps;
  if (!duration(memory)) return steps;
  using Kind = ChainStep::Kind;
  // Open tasks, the next one at the back: backward runs, and problems to be divided.
  std::vector<std::variant<Problem, ChainStep>> tasks{*whole(memory)};
  while (!tasks.empty()) {
    const auto task = tasks.back();
    tasks.pop_back();
    if (const ChainStep* const backward = std::get_if<ChainStep>(&task)) {
      steps.push_back(*backward);
      continue;
    }
    const auto& problem = std::get<Problem>(task);
    const Stretch& stretch = problem.stretch;
    const Choice choice = choose(problem);
    if (choice.option >= 0) {
      const BlockOption& option = block(stretch.first).options[at(choice.option)];
      const bool is_last = stretch.first + 1 == stretch.end;
      steps.push_back({is_last ? Kind::alone : Kind::save, stretch.first, choice.option});
      tasks.emplace_back(ChainStep{Kind::backward, stretch.first, choice.option});
      if (!is_last) tasks.emplace_back(Problem{behind(stretch, option), problem.slots - save(stretch, option).taken});
      continue;
    }
    for (int i = stretch.first; i < choice.checkpoint; ++i) {
      steps.push_back({i == stretch.first ? Kind::pass : Kind::pass_on, i, -1});
    }
    tasks.emplace_back(Problem{*again(stretch, choice.checkpoint), problem.slots});
    tasks.emplace_back(Problem{{choice.checkpoint, stretch.end, stretch.level, true},
                               problem.slots - slots_for_amount(own_input(stretch))});
  }
  return steps;
}

namespace {

/// More would leave so few slots (RotorTable) that rounding up costs more than joining blocks does.
constexpr std::size_t kMaxBlocks = 150;
/// Two thirds of them up to the budget.
constexpr int kSlots = 1000;
/// Slots of the table are filled many at a time.
constexpr std::int64_t kSlotsOfEffort = 128;

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
  /// Returns true if the chain has schedules within this memory. Tries first without a limit on how often blocks run;
  /// if that runs some op too often, with the limit.
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
    const auto stopped = [this] { return input_.deadline.reached() || effort_ > input_.most; };
    const std::int64_t most = std::min(input_.most - effort_, INT64_MAX / kSlotsOfEffort) * kSlotsOfEffort;
    const RotorTable table(chain_, memory, {.slots = kSlots, .most_runs = most_runs, .work = most, .stopped = stopped});
    work_ += table.work();
    effort_ += table.work() / kSlotsOfEffort;
    std::vector<Bytes> amounts = table.breakpoints();
    std::reverse(amounts.begin(), amounts.end());
    Walk result{.found = !amounts.empty()};
    for (const Bytes amount : amounts) {
      if (stopped()) break;
      effort_ += effort_of_plan(instance_);
      const RecomputePlan plan = expand(instance_, blocks_, table.schedule(amount));
      if (!is_permitted(instance_, sequence_of(instance_, plan))) {
        result.refused = true;
      } else if (choice_.offer(plan)) {
        break;
      }
    }
    return result;
  }

  /// The smallest limit on runs among the ops that may be recomputed.
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
  Effort effort_ = 0;
};

}  // namespace

MethodResult run_rotor(const MethodInput& input) {
  const auto forward = forward_part(input.instance);
  if (!forward) return {.note = kNoPhases};
  const std::vector<TrainingBlock> found = block_chain(input.instance, *forward);
  if (found.size() < 2) return {.note = "not a chain: no tensor separates its forward ops into blocks"};
  std::vector<TrainingBlock> blocks = coarsened(found, kMaxBlocks);
  std::string note = "blocks: " + std::to_string(found.size());
  if (blocks.size() < found.size()) note += ", joined to " + std::to_string(blocks.size());
  RotorSearch search(input, std::move(blocks));
  search.run();
  return {.sequence = search.choice().best(), .work = search.work(), .note = std::move(note)};
}

}  // namespace remora
