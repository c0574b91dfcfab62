// SPDX-License-Identifier: Apache-2.0
//
// The part of Instance that knows of modes: what it demands of them, and what it answers.
#include "model/modes.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include "model/error.hpp"
#include "model/instance.hpp"

namespace remora {
namespace {

std::string place_of(std::size_t entry, std::size_t mode) {
  return "modes[" + std::to_string(entry) + "].further[" + std::to_string(mode) + "]";
}

/// Without its sign.
Bytes magnitude(Bytes bytes) {
  if (bytes.count() == std::numeric_limits<std::int64_t>::min()) return Bytes::max();
  return bytes < Bytes(0) ? Bytes(0) - bytes : bytes;
}

void check_reads(std::span<const TensorId> unread, const Op& op, const std::string& place) {
  const bool inputs = std::all_of(unread.begin(), unread.end(), [&](TensorId t) {
    return std::find(op.inputs.begin(), op.inputs.end(), t) != op.inputs.end();
  });
  if (!inputs) throw InputError(place + ".unread", "must be inputs of the op");
}

void check_mode(const Mode& mode, const Op& op, const std::string& place) {
  if (mode.output_sizes.size() != op.outputs.size()) throw InputError(place, "needs one size for each output");
  const bool negative =
      mode.duration < Duration(0) || mode.workspace < Bytes(0) ||
      std::any_of(mode.output_sizes.begin(), mode.output_sizes.end(), [](Bytes size) { return size < Bytes(0); });
  if (negative) throw InputError(place, "amounts must not be negative");
  check_reads(mode.unread, op, place);
}

/// Adds an amount that is not negative to a sum that must stay within 64 bits.
void accumulate(Wide& sum, std::int64_t amount) {
  sum += amount;
  if (sum > std::numeric_limits<std::int64_t>::max()) throw InputError("modes", "sums exceed 64 bits");
}

}  // namespace

std::vector<Compute> computes_of(std::span<const OpId> sequence) {
  std::vector<Compute> computes;
  computes.reserve(sequence.size());
  for (const OpId op : sequence) computes.push_back({op, 0});
  return computes;
}

Sequence ops_of(std::span<const Compute> sequence) {
  Sequence ops;
  ops.reserve(sequence.size());
  for (const Compute& compute : sequence) ops.push_back(compute.op);
  return ops;
}

const OpModes* Instance::further(OpId op) const {
  if (!has_modes() || mode_index_[op] < 0) return nullptr;
  return &(*modes_)[at(mode_index_[op])];
}

const Mode& Instance::further(OpId op, ModeNumber mode) const {
  ensure(mode > 0 && offers(op, mode), "instance: the op does not offer this mode");
  return *further(op)->further[at(mode - 1)];
}

int Instance::mode_count(OpId op) const {
  const OpModes* modes = further(op);
  return modes == nullptr ? 1 : static_cast<int>(modes->further.size()) + 1;
}

bool Instance::offers(OpId op, ModeNumber mode) const {
  if (mode <= 0 || mode >= mode_count(op)) return mode == 0;
  return further(op)->further[at(mode - 1)].has_value();
}

Duration Instance::duration(OpId op, ModeNumber mode) const {
  return mode == 0 ? (*graph_)[op].duration : further(op, mode).duration;
}

Bytes Instance::workspace(OpId op, ModeNumber mode) const {
  return mode == 0 ? (*graph_)[op].workspace : further(op, mode).workspace;
}

Bytes Instance::size(TensorId tensor, ModeNumber mode) const {
  if (mode == 0) return (*graph_)[tensor].size;
  const OpId op = producers_[tensor];
  const auto all = outputs(op);
  const auto place = std::find(all.begin(), all.end(), tensor) - all.begin();
  return further(op, mode).output_sizes[at(place)];
}

std::span<const InnerPeak> Instance::inner(OpId op, ModeNumber mode) const {
  if (mode > 0) return further(op, mode).inner;
  const OpModes* modes = further(op);
  if (modes != nullptr) return modes->inner;
  return in_place_.empty() ? std::span<const InnerPeak>() : std::span<const InnerPeak>(in_place_[op]);
}

bool Instance::has_inner(OpId op) const {
  if (!has_inner_) return false;
  for (ModeNumber mode = 0; mode < mode_count(op); ++mode) {
    if (offers(op, mode) && !inner(op, mode).empty()) return true;
  }
  return false;
}

/// The tensor's size by the mode of its producer that leaves most.
Bytes Instance::largest(TensorId tensor) const {
  const OpId op = producers_[tensor];
  Bytes result = (*graph_)[tensor].size;
  if (!op.valid()) return result;
  for (ModeNumber mode = 1; mode < mode_count(op); ++mode) {
    if (offers(op, mode)) result = std::max(result, size(tensor, mode));
  }
  return result;
}

/// The mode's memory beyond all inputs and outputs if everything is released that may be.
Bytes Instance::min_workspace(OpId op, ModeNumber mode) const {
  const auto peaks = inner(op, mode);
  if (peaks.empty()) return workspace(op, mode);
  return highest_peak(peaks, [&](TensorId t) { return producers_[t].valid() ? largest(t) : Bytes(0); });
}

std::span<const TensorId> Instance::unread(OpId op, ModeNumber mode) const {
  if (mode > 0) return further(op, mode).unread;
  const OpModes* modes = further(op);
  return modes == nullptr ? std::span<const TensorId>() : modes->unread;
}

std::uint64_t Instance::readers(OpId op, TensorId input) const {
  if (!reads_differ(op)) return ~std::uint64_t{0};
  const auto all = inputs(op);
  const auto place = std::find(all.begin(), all.end(), input) - all.begin();
  return readers_[op][at(place)];
}

std::span<const OpId> Instance::followers(OpId op) const {
  return has_modes() ? followers_[op] : std::span<const OpId>();
}

int Instance::most_computes(OpId op) const {
  const OpModes* modes = further(op);
  return modes == nullptr ? kNoMostComputes : modes->most_computes;
}

int Instance::computes(OpId op, ModeNumber mode) const {
  if (mode > 0) return further(op, mode).computes;
  const OpModes* modes = further(op);
  return modes == nullptr ? 1 : modes->computes;
}

int Instance::lightest(OpId op) const {
  int result = computes(op, 0);
  for (ModeNumber mode = 1; mode < mode_count(op); ++mode) {
    if (offers(op, mode)) result = std::min(result, computes(op, mode));
  }
  return result;
}

Duration Instance::longest(OpId op) const {
  Duration result = (*graph_)[op].duration;
  for (ModeNumber mode = 1; mode < mode_count(op); ++mode) {
    if (offers(op, mode)) result = std::max(result, duration(op, mode));
  }
  return result;
}

Bytes Instance::min_footprint(OpId op) const {
  Bytes least = Bytes::max();
  for (ModeNumber mode = 0; mode < mode_count(op); ++mode) {
    if (!offers(op, mode)) continue;
    Bytes footprint = base_memory_;
    for (const TensorId t : inputs(op)) footprint += reads(op, mode, t) ? sizes_[t] : Bytes(0);
    for (const TensorId t : outputs(op)) footprint += size(t, mode);
    const auto peaks = inner(op, mode);
    const auto released = [&](TensorId t) { return producers_[t].valid() ? sizes_[t] : Bytes(0); };
    footprint += peaks.empty() ? workspace(op, mode) : highest_peak(peaks, released);
    least = std::min(least, footprint);
  }
  return least;
}

/// After index_ops: lowers the amounts that are asked without a mode to the least of all modes.
void Instance::index_modes() {
  mode_index_.assign(op_count(), -1);
  leaders_.assign(op_count(), OpId::none());
  for (std::size_t entry = 0; entry < modes_->size(); ++entry) {
    const OpId op = (*modes_)[entry].op;
    const bool ascending = entry == 0 || (*modes_)[entry - 1].op < op;
    if (op < 0 || op >= op_count() || !ascending) {
      throw InputError("modes[" + std::to_string(entry) + "].op", "ops must exist and ascend");
    }
    mode_index_[op] = static_cast<std::int32_t>(entry);
    leaders_[op] = (*modes_)[entry].follows;
  }
  check_modes();
  // The rest of an input after a takeover may be larger in another mode.
  for (const OpId v : in_place_.ids()) {
    if (!in_place_[v].empty()) workspaces_[v] = min_workspace(v, 0);
  }
  for (const OpModes& entry : *modes_) {
    has_inner_ = has_inner_ || !entry.inner.empty();
    workspaces_[entry.op] = min_workspace(entry.op, 0);
    for (std::size_t o = 0; o < entry.further.size(); ++o) {
      const auto& mode = entry.further[o];
      if (!mode) continue;
      has_inner_ = has_inner_ || !mode->inner.empty();
      durations_[entry.op] = std::min(durations_[entry.op], mode->duration);
      workspaces_[entry.op] = std::min(workspaces_[entry.op], min_workspace(entry.op, static_cast<ModeNumber>(o) + 1));
      const auto tensors = outputs(entry.op);
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        sizes_[tensors[i]] = std::min(sizes_[tensors[i]], mode->output_sizes[i]);
      }
    }
  }
  index_readers();
  index_followers();
}

void Instance::index_followers() {
  Table<OpId, std::vector<OpId>> followers(op_count());
  for (const OpId op : ops()) {
    if (leader(op).valid()) followers[leaders_[op]].push_back(op);
  }
  for (const auto& row : followers) {
    for (const OpId op : row) followers_.push(op);
    followers_.end_row();
  }
}

void Instance::index_readers() {
  for (const OpId op : ops()) {
    std::vector<std::uint64_t> readers(inputs(op).size(), ~std::uint64_t{0});
    bool all = true;
    for (ModeNumber mode = 0; mode < mode_count(op); ++mode) {
      if (!offers(op, mode)) continue;
      const auto skipped = unread(op, mode);
      for (std::size_t i = 0; i < readers.size(); ++i) {
        if (std::find(skipped.begin(), skipped.end(), inputs(op)[i]) == skipped.end()) continue;
        readers[i] &= ~(std::uint64_t{1} << static_cast<unsigned>(mode));
        all = false;
      }
    }
    for (std::size_t i = 0; !all && i < readers.size(); ++i) readers_.push(readers[i]);
    readers_.end_row();
    reads_differ_ = reads_differ_ || !all;
  }
}

void Instance::check_modes() const {
  Wide bytes = base_memory_.count();
  Wide durations = 0;
  Bytes most_workspace;
  Table<TensorId, Bytes> largest = sizes_;
  for (const Bytes workspace : workspaces_) most_workspace = std::max(most_workspace, workspace);
  for (std::size_t entry = 0; entry < modes_->size(); ++entry) {
    const OpModes& modes = (*modes_)[entry];
    const Op& op = (*graph_)[modes.op];
    if (modes.further.size() >= kMaxModes) {
      throw InputError(place_of(entry, modes.further.size() - 1), "an op has at most 64 modes");
    }
    for (std::size_t o = 0; o < modes.further.size(); ++o) {
      if (!modes.further[o]) continue;
      check_mode(*modes.further[o], op, place_of(entry, o));
      most_workspace = std::max(most_workspace, modes.further[o]->workspace);
      for (const InnerPeak& peak : modes.further[o]->inner) {
        most_workspace = std::max(most_workspace, magnitude(peak.workspace));
      }
      for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        largest[op.outputs[i]] = std::max(largest[op.outputs[i]], modes.further[o]->output_sizes[i]);
      }
    }
    check_reads(modes.unread, op, "modes[" + std::to_string(entry) + "]");
    for (const InnerPeak& peak : modes.inner) {
      most_workspace = std::max(most_workspace, magnitude(peak.workspace));
    }
    check_computes(entry);
    check_inner(entry);
    if (modes.follows.valid()) check_leader(entry);
  }
  for (const OpId op : ops()) accumulate(durations, longest(op).count());
  if (durations * kComputesWithin64Bits > std::numeric_limits<std::int64_t>::max()) {
    throw InputError("modes", "sums exceed 64 bits");
  }
  for (const TensorId t : largest.ids()) {
    if (producers_[t].valid()) accumulate(bytes, largest[t].count());
  }
  accumulate(bytes, most_workspace.count());
}

void Instance::check_inner(std::size_t entry) const {
  const OpId op = (*modes_)[entry].op;
  const std::string place = "modes[" + std::to_string(entry) + "].inner";
  const auto sorted = [](std::span<const TensorId> tensors) {
    std::vector<TensorId> result(tensors.begin(), tensors.end());
    std::ranges::sort(result);
    return result;
  };
  const std::vector<TensorId> all = sorted((*graph_)[op].inputs);
  for (ModeNumber mode = 0; mode < mode_count(op); ++mode) {
    if (!offers(op, mode) || inner(op, mode).empty()) continue;
    std::vector<TensorId> read;
    std::ranges::set_difference(all, sorted(unread(op, mode)), std::back_inserter(read));
    for (const InnerPeak& peak : inner(op, mode)) {
      std::vector<TensorId> freed;
      for (const FreedInput& one : peak.freed) freed.push_back(one.tensor);
      std::ranges::sort(freed);
      const bool twice = std::ranges::adjacent_find(freed) != freed.end();
      std::erase_if(freed, [&](TensorId t) { return std::ranges::binary_search(read, t); });
      if (!freed.empty()) throw InputError(place, "what is freed must be read by the mode");
      if (twice) throw InputError(place, "each input is freed once");
    }
  }
}

void Instance::check_computes(std::size_t entry) const {
  const OpId op = (*modes_)[entry].op;
  const std::string place = "modes[" + std::to_string(entry) + "]";
  if (lightest(op) < 1) throw InputError(place + ".computes", "must be at least 1");
  if (most_computes(op) < lightest(op)) throw InputError(place + ".most_computes", "all modes weigh more");
}

void Instance::check_leader(std::size_t entry) const {
  const OpId op = (*modes_)[entry].op;
  const OpId leader = (*modes_)[entry].follows;
  const std::string place = "modes[" + std::to_string(entry) + "].follows";
  if (leader < 0 || leader >= op_count()) throw InputError(place, "the leader must exist");
  if (mode_count(leader) != mode_count(op)) throw InputError(place, "the leader has other modes");
  const auto read = inputs(op);
  for (ModeNumber mode = 0; mode < mode_count(op); ++mode) {
    if (!offers(op, mode)) continue;
    const auto skipped = unread(op, mode);
    const bool served = std::any_of(read.begin(), read.end(), [&](TensorId t) {
      return producers_[t] == leader && std::find(skipped.begin(), skipped.end(), t) == skipped.end();
    });
    if (!served) throw InputError(place, "the leader produces nothing that the op reads");
  }
}

}  // namespace remora
