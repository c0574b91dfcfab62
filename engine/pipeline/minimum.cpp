// SPDX-License-Identifier: Apache-2.0
#include "engine/pipeline/minimum.hpp"

#include <algorithm>
#include <utility>

namespace remora {
namespace {

class MinimumSearch {
 public:
  MinimumSearch(const PipelineTiming& timing, std::size_t device, const ModesLeft& all, std::int64_t budget,
                const Allowance& allowance)
      : timing_(timing),
        all_(all),
        allowance_(allowance),
        variables_(timing.variables_of(device)),
        device_(device),
        budget_(budget),
        left_(all) {}

  DeviceMinimum run() {
    found_.bound = timing_.peak(device_, all_);
    try_one_mode();
    if (!is_done()) open(found_.bound);
    while (!levels_.empty() && !is_done() && !is_over()) step();
    // The smallest unexplored peak; nothing once all is explored.
    std::int64_t unexplored = found_.peak;
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      const std::size_t begun = i + 1 < levels_.size() ? 1 : 0;
      if (levels_[i].size() > begun) unexplored = std::min(unexplored, levels_[i].rbegin()[begun].bound);
    }
    found_.bound = std::max(found_.bound, unexplored);
    return std::move(found_);
  }

 private:
  struct Value {
    std::int64_t bound = 0;
    std::size_t row = 0;
  };
  /// The values of a variable that are left to explore, the lowest bound last. Above another level, the last one is fixed.
  using Level = std::vector<Value>;

  [[nodiscard]] bool is_done() const { return found_.peak <= std::max(budget_, found_.bound); }
  [[nodiscard]] bool is_over() const {
    return allowance_.deadline().reached() || Work(found_.work) >= allowance_.limits().work;
  }

  void fix(std::size_t variable, std::size_t row) { left_[variable] = all_[variable].subspan(row, 1); }
  void release(std::size_t variable) { left_[variable] = all_[variable]; }

  void offer(std::int64_t peak, std::vector<std::size_t> rows) {
    if (!found_.rows.empty() && peak >= found_.peak) return;
    found_.peak = peak;
    found_.rows = std::move(rows);
  }

  /// One mode for all of the device's variables, by its number; the last one where a stage has fewer.
  void try_one_mode() {
    std::size_t most = 0;
    for (const std::size_t variable : variables_) most = std::max(most, all_[variable].size());
    for (std::size_t mode = 0; mode < most && (mode == 0 || !(is_done() || is_over())); ++mode) {
      std::vector<std::size_t> rows;
      rows.reserve(variables_.size());
      for (const std::size_t variable : variables_) {
        rows.push_back(std::min(mode, all_[variable].size() - 1));
        fix(variable, rows.back());
      }
      offer(timing_.peak(device_, left_), std::move(rows));
    }
    for (const std::size_t variable : variables_) release(variable);
  }

  /// Begins a level for the next variable. Values that there is no time to look at keep the bound of the level above.
  void open(std::int64_t above) {
    ++found_.work;
    const std::size_t variable = variables_[levels_.size()];
    Level level;
    for (std::size_t row = 0; row < all_[variable].size(); ++row) {
      fix(variable, row);
      const std::int64_t bound = allowance_.deadline().reached() ? above : timing_.peak(device_, left_);
      if (bound < found_.peak) level.push_back({bound, row});
    }
    release(variable);
    std::ranges::stable_sort(level, std::ranges::greater(), &Value::bound);
    levels_.push_back(std::move(level));
  }

  void step() {
    Level& level = levels_.back();
    const std::size_t variable = variables_[levels_.size() - 1];
    if (level.empty() || level.back().bound >= found_.peak) {
      release(variable);
      levels_.pop_back();
      if (!levels_.empty()) levels_.back().pop_back();
      return;
    }
    fix(variable, level.back().row);
    if (levels_.size() < variables_.size()) return open(level.back().bound);
    std::vector<std::size_t> rows;
    rows.reserve(levels_.size());
    for (const Level& fixed : levels_) rows.push_back(fixed.back().row);
    offer(level.back().bound, std::move(rows));
    level.pop_back();
  }

  const PipelineTiming& timing_;
  const ModesLeft& all_;
  const Allowance& allowance_;
  const std::vector<std::size_t>& variables_;
  std::size_t device_;
  std::int64_t budget_;
  ModesLeft left_;
  std::vector<Level> levels_;
  DeviceMinimum found_;
};

}  // namespace

DeviceMinimum minimum_of(const PipelineTiming& timing, std::size_t device, const ModesLeft& all, std::int64_t budget,
                         const Allowance& allowance) {
  return MinimumSearch(timing, device, all, budget, allowance).run();
}

}  // namespace remora
