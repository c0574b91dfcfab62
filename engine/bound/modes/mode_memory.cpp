// SPDX-License-Identifier: Apache-2.0
//
// The memory rows of the mode relaxation.
#include <algorithm>
#include <cstddef>

#include "engine/bound/modes/mode_program.hpp"

namespace remora {
namespace {

/// Sums of a row stay within 64 bits where all amounts together stay within this.
constexpr Wide kMaxBytes = Wide{1} << 60;
/// Terms of all memory rows together: they take some hundred megabytes.
constexpr std::size_t kMaxTerms = 8'000'000;

Bytes largest_workspace(const Instance& instance, OpId op, ModeNumber mode) {
  const auto peaks = instance.inner(op, mode);
  if (peaks.empty()) return instance.workspace(op, mode);
  return highest_peak(peaks, [](TensorId) { return Bytes(0); });
}

}  // namespace

bool ModeProgram::applies(const Instance& instance) {
  if (instance.problem().order != OrderMode::input) return false;
  Wide sum = Wide{instance.budget().count()} + instance.base_memory().count();
  for (const OpId op : instance.ops()) {
    Bytes most(0);
    for (ModeNumber mode = 0; mode < instance.mode_count(op); ++mode) {
      if (!instance.offers(op, mode)) continue;
      Bytes own = std::max(Bytes(0), largest_workspace(instance, op, mode));
      for (const TensorId t : instance.outputs(op)) own += instance.size(t, mode);
      most = std::max(most, own);
    }
    sum += most.count();
  }
  return sum < kMaxBytes;
}

/// The last op whose first compute may find the tensor resident.
int ModeProgram::last_use(TensorId tensor) const {
  const auto users = instance_.users(tensor);
  if (instance_.keep(tensor)) return instance_.op_count() - 1;
  return users.empty() ? instance_.producer(tensor) : users.back();
}

/// The first computes that may exceed the budget, whatever the modes; where rows would have too many terms, the one of each stretch
/// that may need most.
std::vector<bool> ModeProgram::counted_events() const {
  const std::size_t count = at(instance_.op_count());
  std::vector<Bytes> change(count + 1);
  std::size_t terms = 0;
  for (const TensorId t : instance_.tensors()) {
    const OpId producer = instance_.producer(t);
    if (!producer.valid()) continue;
    change[at(producer)] += instance_.largest(t);
    change[at(last_use(t)) + 1] -= instance_.largest(t);
    terms += at(last_use(t) - producer + 1) * at(instance_.mode_count(producer));
  }
  const std::size_t stretch = 1 + terms / kMaxTerms;
  std::vector<bool> counted(count, false);
  Bytes resident = instance_.base_memory();
  Bytes highest(0);
  std::size_t best = count;
  for (const OpId k : instance_.ops()) {
    if (at(k) % stretch == 0) {
      highest = instance_.budget();
      best = count;
    }
    resident += change[at(k)];
    Bytes workspace(0);
    for (const ModeNumber mode : modes(k)) workspace = std::max(workspace, largest_workspace(instance_, k, mode));
    if (resident + workspace <= highest) continue;
    highest = resident + workspace;
    if (best < count) counted[best] = false;
    best = at(k);
    counted[best] = true;
  }
  return counted;
}

void ModeProgram::add_memory(OpId k, std::span<const TensorId> resident, RowSum& sum) {
  std::size_t peaks = 1;
  for (const ModeNumber mode : modes(k)) peaks = std::max(peaks, instance_.inner(k, mode).size());
  for (std::size_t i = 0; i < peaks; ++i) {
    sum.add(instance_.base_memory().count());
    for (const TensorId t : resident) add_bytes(t, k, sum);
    add_workspace(k, i, sum);
    ProgramRow row = sum.take_row(instance_.budget().count());
    std::int64_t lowest = 0;
    for (const ProgramTerm& term : row.terms) lowest += std::min<std::int64_t>(0, term.factor);
    if (lowest < row.least) memory_.push_back(std::move(row));
  }
}

/// Adds the tensor's resident bytes at k's first run: no more than in any schedule.
void ModeProgram::add_bytes(TensorId tensor, OpId k, RowSum& sum) const {
  const OpId producer = instance_.producer(tensor);
  if (producer == k)
    return add_by_mode(
        k, [&](ModeNumber m) { return instance_.size(tensor, m).count(); }, sum);
  const auto users = instance_.users(tensor);
  if (std::ranges::binary_search(users, k) && always_reads(k, tensor)) return add_served(tensor, k, k, sum);
  if (const int reader = certain_reader(tensor, k); reader >= 0) return add_served(tensor, k, reader, sum);
  // Whoever may read it: the one that does by most of its modes.
  int best = -1;
  std::size_t best_count = 0;
  for (const OpId user : users) {
    if (user < k) continue;
    const auto count =
        at(std::ranges::count_if(modes(user), [&](ModeNumber m) { return instance_.reads(user, m, tensor); }));
    if (count > best_count) {
      best = user;
      best_count = count;
    }
  }
  if (best >= 0) add_served(tensor, k, best, sum);
}

/// The same, of a tensor that `reader`, k itself or later, reads by some of its modes or by all; the end of the sequence reads it.
void ModeProgram::add_served(TensorId tensor, OpId k, int reader, RowSum& sum) const {
  const OpId producer = instance_.producer(tensor);
  const bool is_end = reader == instance_.op_count();
  const OpId user = is_end ? OpId::none() : OpId(reader);
  // Its mode says by which one its input was made.
  const bool is_told = !is_end && (instance_.leader(user) == producer ||
                                   (choice_of_[user] > 0 && choice_of_[user] == choice_of_[producer]));
  if (is_told) {
    add_by_mode(
        user, [&](ModeNumber m) { return instance_.reads(user, m, tensor) ? instance_.size(tensor, m).count() : 0; },
        sum);
    return take_off(producer, k, reader, instance_.largest(tensor), Bytes(0), sum);
  }
  if (is_end || always_reads(user, tensor)) {
    add_by_mode(
        producer, [&](ModeNumber m) { return instance_.size(tensor, m).count(); }, sum);
    return take_off(producer, k, reader, instance_.largest(tensor), instance_.largest(tensor) - instance_.size(tensor),
                    sum);
  }
  const std::int64_t least = instance_.size(tensor).count();
  add_by_mode(
      user, [&](ModeNumber m) { return instance_.reads(user, m, tensor) ? least : 0; }, sum);
  take_off(producer, k, reader, instance_.size(tensor), Bytes(0), sum);
}

void ModeProgram::take_off(OpId op, OpId k, int reader, Bytes bytes, Bytes other, RowSum& sum) const {
  const Stretches& stretches = stretches_[op];
  for (std::size_t j = 0; j < stretches.ends.size(); ++j) {
    if (j > 0 && stretches.ends[j - 1] >= reader) break;
    const Bytes here = stretches.ends[j] > k ? bytes : other;
    sum.add(stretches.column + static_cast<int>(j), -here.count());
  }
}

/// Adds the memory of k's mode beyond all inputs and outputs at its i-th inner peak.
void ModeProgram::add_workspace(OpId k, std::size_t peak, RowSum& sum) const {
  std::vector<std::int64_t> amounts(at(instance_.mode_count(k)), 0);
  for (const ModeNumber mode : modes(k)) {
    const auto peaks = instance_.inner(k, mode);
    if (peaks.empty()) {
      amounts[at(mode)] = instance_.workspace(k, mode).count();
      continue;
    }
    const InnerPeak& here = peaks[std::min(peak, peaks.size() - 1)];
    amounts[at(mode)] = here.workspace.count();
    for (const FreedInput& freed : here.freed) add_released(freed, k, mode, amounts, sum);
  }
  add_by_mode(
      k, [&](ModeNumber m) { return amounts[at(m)]; }, sum);
}

/// Takes off what may be released of an input before a peak of the mode: what somebody reads later only where it is recomputed
/// for that.
void ModeProgram::add_released(const FreedInput& freed, OpId k, ModeNumber mode, std::vector<std::int64_t>& amounts,
                               RowSum& sum) const {
  const OpId producer = instance_.producer(freed.tensor);
  if (!producer.valid()) return;
  const bool is_told = instance_.leader(k) == producer;
  const Bytes bytes =
      std::min(freed.most, is_told ? instance_.size(freed.tensor, mode) : instance_.largest(freed.tensor));
  const int reader = certain_reader(freed.tensor, k);
  if (reader < 0) {
    amounts[at(mode)] -= bytes.count();
  } else {
    take_off(producer, k, reader, bytes, Bytes(0), sum);
  }
}

int ModeProgram::certain_reader(TensorId tensor, OpId k) const {
  for (const OpId user : instance_.users(tensor)) {
    if (user > k && always_reads(user, tensor)) return user;
  }
  return instance_.keep(tensor) ? instance_.op_count() : -1;
}

std::span<const ModeNumber> ModeProgram::modes(OpId op) const {
  return choices_[at(choice_of_[op])].modes;
}

bool ModeProgram::always_reads(OpId op, TensorId tensor) const {
  return std::ranges::all_of(modes(op), [&](ModeNumber m) { return instance_.reads(op, m, tensor); });
}

}  // namespace remora
