// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/modes/mode_program.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "model/evaluate.hpp"
#include "model/sequence.hpp"

namespace remora {
namespace {

/// A row of a linear program counts as violated from this part of the budget on.
constexpr double kMinModeViolation = 1e-7;
constexpr double kWhole = 0.5;

}  // namespace

ModeProgram::ModeProgram(const Instance& instance, const std::function<bool()>& interrupted)
    : instance_(instance), choice_of_(instance.op_count(), 0), stretches_(instance.op_count()) {
  find_choices();
  if (has_no_choice_) return;
  number_choices();
  number_stretches();
  add_limits();
  add_links();
  std::vector<TensorId> resident;
  RowSum sum(program_.columns());
  const std::vector<bool> counted = counted_events();
  for (const OpId k : instance.ops()) {
    if (interrupted && interrupted()) break;
    std::erase_if(resident, [&](TensorId t) { return last_use(t) < k; });
    for (const TensorId t : instance.outputs(k)) resident.push_back(t);
    if (counted[at(k)]) add_memory(k, resident, sum);
  }
  taken_.assign(memory_.size(), false);
}

// Columns.

void ModeProgram::find_choices() {
  choices_.push_back({.modes = {0}, .columns = {-1}});
  for (const OpId op : instance_.ops()) {
    const int count = instance_.mode_count(op);
    if (count == 1) continue;
    const OpId leader = instance_.leader(op);
    const bool is_tied = leader.valid() && instance_.max_computes(leader) == 1;
    if (!is_tied) {
      choices_.push_back({.modes = std::vector<ModeNumber>(at(count)), .columns = std::vector<int>(at(count), -1)});
      std::iota(choices_.back().modes.begin(), choices_.back().modes.end(), 0);
    }
    choice_of_[op] = is_tied ? choice_of_[leader] : static_cast<int>(choices_.size()) - 1;
    Choice& choice = choices_[at(choice_of_[op])];
    choice.ops.push_back(op);
    std::erase_if(choice.modes, [&](ModeNumber mode) {
      return !instance_.offers(op, mode) || (leader.valid() && !instance_.offers(leader, mode)) ||
             instance_.computes(op, mode) > instance_.most_computes(op);
    });
    has_no_choice_ = has_no_choice_ || choice.modes.empty();
  }
}

void ModeProgram::number_choices() {
  for (Choice& choice : choices_) {
    const auto cost = [&](ModeNumber mode) {
      Duration sum;
      for (const OpId op : choice.ops) sum += instance_.duration(op, mode) - instance_.duration(op);
      return sum;
    };
    choice.base = *std::ranges::min_element(choice.modes, {}, cost);
    constant_ += cost(choice.base);
    std::vector<int> group;
    for (const ModeNumber mode : choice.modes) {
      if (mode == choice.base) continue;
      group.push_back(choice.columns[at(mode)] = program_.add_column((cost(mode) - cost(choice.base)).count()));
    }
    if (!group.empty()) groups_.push_back(std::move(group));
  }
}

void ModeProgram::number_stretches() {
  for (const OpId op : instance_.ops()) {
    if (instance_.max_computes(op) == 1) continue;
    Stretches& stretches = stretches_[op];
    for (const TensorId t : instance_.outputs(op)) {
      for (const OpId user : instance_.users(t)) stretches.ends.push_back(user);
      if (instance_.keep(t)) stretches.ends.push_back(instance_.op_count());
    }
    std::sort(stretches.ends.begin(), stretches.ends.end());
    stretches.ends.erase(std::unique(stretches.ends.begin(), stretches.ends.end()), stretches.ends.end());
    stretches.column = program_.columns();
    for (std::size_t j = 0; j < stretches.ends.size(); ++j) program_.add_column(instance_.duration(op).count());
  }
}

// Rows.

void ModeProgram::add_limits() {
  const auto at_most = [&](std::int64_t most, auto&& columns) {
    ProgramRow row{.least = -most};
    for (const int column : columns) row.terms.push_back({column, -1});
    if (static_cast<std::int64_t>(row.terms.size()) > most) program_.rows.push_back(std::move(row));
  };
  for (const std::vector<int>& group : groups_) at_most(1, group);
  for (const OpId op : instance_.ops()) {
    std::vector<int> columns(stretches_[op].ends.size());
    std::iota(columns.begin(), columns.end(), stretches_[op].column);
    at_most(instance_.max_computes(op) - 1, columns);
  }
}

void ModeProgram::add_links() {
  RowSum sum(program_.columns());
  for (const OpId op : instance_.ops()) {
    const OpId leader = instance_.leader(op);
    if (choice_of_[op] == 0 || !leader.valid() || choice_of_[op] == choice_of_[leader]) continue;
    for (const ModeNumber mode : modes(op)) {
      add_by_mode(
          op, [&](ModeNumber m) { return m == mode ? 1 : 0; }, sum);
      add_by_mode(
          leader, [&](ModeNumber m) { return m == mode ? -1 : 0; }, sum);
      const Stretches& stretches = stretches_[leader];
      for (std::size_t j = 0; j < stretches.ends.size() && stretches.ends[j] <= op; ++j)
        sum.add(stretches.column + static_cast<int>(j), -1);
      program_.rows.push_back(sum.take_row(0));
    }
  }
}

int ModeProgram::take_violated(std::vector<double> solution, std::size_t most, bool is_whole) {
  if (is_whole) std::ranges::transform(solution, solution.begin(), [](double value) { return std::round(value); });
  const double least = is_whole ? 0 : kMinModeViolation * static_cast<double>(instance_.budget().count());
  std::vector<std::pair<double, std::size_t>> found;
  for (std::size_t r = 0; r < memory_.size(); ++r) {
    if (taken_[r]) continue;
    auto missing = static_cast<double>(memory_[r].least);
    for (const ProgramTerm& term : memory_[r].terms)
      missing -= static_cast<double>(term.factor) * solution[at(term.column)];
    if (missing > least) found.emplace_back(-missing, r);
  }
  std::sort(found.begin(), found.end());
  found.resize(std::min(found.size(), most));
  for (const auto& [missing, r] : found) {
    taken_[r] = true;
    program_.rows.push_back(memory_[r]);
  }
  return static_cast<int>(found.size());
}

// Schedules.

std::vector<Compute> ModeProgram::sequence(std::span<const double> solution) const {
  Table<OpId, ModeNumber> chosen(instance_.op_count(), 0);
  RecomputePlan plan;
  for (const OpId op : instance_.ops()) {
    const Choice& choice = choices_[at(choice_of_[op])];
    chosen[op] = choice.base;
    double largest = kWhole;
    for (const ModeNumber mode : choice.modes) {
      const int column = choice.columns[at(mode)];
      if (column < 0 || solution[at(column)] < largest) continue;
      largest = solution[at(column)];
      chosen[op] = mode;
    }
    const Stretches& stretches = stretches_[op];
    for (std::size_t j = 0; j < stretches.ends.size(); ++j) {
      if (solution[at(stretches.column) + j] >= kWhole) plan.push_back({Stage{stretches.ends[j]}, op});
    }
  }
  std::sort(plan.begin(), plan.end());
  std::vector<Compute> computes = computes_of(sequence_of(instance_, within_limits(instance_, std::move(plan))));
  // A recompute takes the mode of the follower that it is for.
  Table<OpId, ModeNumber> latest(instance_.op_count(), -1);
  Stage stage{0};
  for (Compute& compute : computes) {
    const OpId leader = instance_.leader(compute.op);
    compute.mode = leader.valid() ? latest[leader] : chosen[compute.op];
    const bool is_first = Stage{compute.op} == stage;
    if (!is_first && !leader.valid() && stage < instance_.op_count() &&
        instance_.leader(OpId(std::int32_t{stage})) == compute.op) {
      compute.mode = chosen[OpId(std::int32_t{stage})];
    }
    if (is_first) ++stage;
    latest[compute.op] = compute.mode;
  }
  return modes_hold(instance_, computes) ? computes : std::vector<Compute>{};
}

}  // namespace remora
