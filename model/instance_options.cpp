// SPDX-License-Identifier: Apache-2.0
//
// The part of Instance that knows of options per op.
#include <algorithm>

#include "model/ensure.hpp"
#include "model/error.hpp"
#include "model/instance.hpp"

namespace remora {
const OpOptions* Instance::further(OpId op) const {
  if (!has_options() || option_index_[op] < 0) return nullptr;
  return &(*compute_options_)[static_cast<std::size_t>(option_index_[op])];
}

const ComputeOption& Instance::further(OpId op, Option option) const {
  ensure(option > 0 && offers(op, option), "instance: the op does not offer this option");
  return *further(op)->further[static_cast<std::size_t>(option) - 1];
}

int Instance::option_count(OpId op) const {
  const OpOptions* options = further(op);
  return options == nullptr ? 1 : static_cast<int>(options->further.size()) + 1;
}

bool Instance::offers(OpId op, Option option) const {
  if (option <= 0 || option >= option_count(op)) return option == 0;
  return further(op)->further[static_cast<std::size_t>(option) - 1].has_value();
}

Duration Instance::duration(OpId op, Option option) const {
  return option == 0 ? graph_->ops[op].duration : further(op, option).duration;
}

Bytes Instance::workspace(OpId op, Option option) const {
  return option == 0 ? graph_->ops[op].workspace : further(op, option).workspace;
}

Bytes Instance::size(TensorId tensor, Option option) const {
  if (option == 0) return graph_->tensors[tensor].size;
  const OpId op = producers_[tensor];
  const auto all = outputs(op);
  const auto at = std::find(all.begin(), all.end(), tensor) - all.begin();
  return further(op, option).output_sizes[static_cast<std::size_t>(at)];
}

std::span<const InnerPeak> Instance::inner(OpId op, Option option) const {
  if (option > 0) return further(op, option).inner;
  const OpOptions* options = further(op);
  return options == nullptr ? std::span<const InnerPeak>() : options->inner;
}

bool Instance::has_inner(OpId op) const {
  if (!has_inner_) return false;
  for (Option option = 0; option < option_count(op); ++option) {
    if (offers(op, option) && !inner(op, option).empty()) return true;
  }
  return false;
}

/// The tensor's size by the option of its producer that leaves most.
Bytes Instance::largest(TensorId tensor) const {
  const OpId op = producers_[tensor];
  Bytes result = graph_->tensors[tensor].size;
  if (!op.valid()) return result;
  for (Option option = 1; option < option_count(op); ++option) {
    if (offers(op, option)) result = std::max(result, size(tensor, option));
  }
  return result;
}

/// What the option takes beside all inputs and outputs if everything is released that may be.
Bytes Instance::least_workspace(OpId op, Option option) const {
  const auto peaks = inner(op, option);
  if (peaks.empty()) return workspace(op, option);
  return highest_peak(peaks, [&](TensorId t) { return producers_[t].valid() ? largest(t) : Bytes(0); });
}

std::span<const TensorId> Instance::unread(OpId op, Option option) const {
  if (option > 0) return further(op, option).unread;
  const OpOptions* options = further(op);
  return options == nullptr ? std::span<const TensorId>() : options->unread;
}

std::uint64_t Instance::readers(OpId op, TensorId input) const {
  if (!reads_differ(op)) return ~std::uint64_t{0};
  const auto all = inputs(op);
  const auto at = std::find(all.begin(), all.end(), input) - all.begin();
  return readers_[op][static_cast<std::size_t>(at)];
}

std::span<const OpId> Instance::followers(OpId op) const {
  return has_options() ? followers_[op] : std::span<const OpId>();
}

int Instance::most_computes(OpId op) const {
  const OpOptions* options = further(op);
  return options == nullptr ? kNoMostComputes : options->most_computes;
}

int Instance::computes(OpId op, Option option) const {
  if (option > 0) return further(op, option).computes;
  const OpOptions* options = further(op);
  return options == nullptr ? 1 : options->computes;
}

int Instance::lightest(OpId op) const {
  int result = computes(op, 0);
  for (Option option = 1; option < option_count(op); ++option) {
    if (offers(op, option)) result = std::min(result, computes(op, option));
  }
  return result;
}

Duration Instance::longest(OpId op) const {
  Duration result = graph_->ops[op].duration;
  for (Option option = 1; option < option_count(op); ++option) {
    if (offers(op, option)) result = std::max(result, duration(op, option));
  }
  return result;
}

Bytes Instance::least_footprint(OpId op) const {
  Bytes least = Bytes::max();
  for (Option option = 0; option < option_count(op); ++option) {
    if (!offers(op, option)) continue;
    Bytes footprint = base_memory_;
    for (const TensorId t : inputs(op)) footprint += reads(op, option, t) ? sizes_[t] : Bytes(0);
    for (const TensorId t : outputs(op)) footprint += size(t, option);
    const auto peaks = inner(op, option);
    const auto released = [&](TensorId t) { return producers_[t].valid() ? sizes_[t] : Bytes(0); };
    footprint += peaks.empty() ? workspace(op, option) : highest_peak(peaks, released);
    least = std::min(least, footprint);
  }
  return least;
}

/// After index_ops: lowers the amounts that are asked without an option to the least of all options.
void Instance::index_options() {
  option_index_.assign(static_cast<std::size_t>(op_count()), -1);
  leaders_.assign(static_cast<std::size_t>(op_count()), OpId::none());
  for (std::size_t entry = 0; entry < compute_options_->size(); ++entry) {
    const OpId op = (*compute_options_)[entry].op;
    const bool ascending = entry == 0 || (*compute_options_)[entry - 1].op < op;
    if (op < 0 || op >= op_count() || !ascending) {
      throw InputError("compute_options[" + std::to_string(entry) + "].op", "ops must exist and ascend");
    }
    option_index_[op] = static_cast<std::int32_t>(entry);
    leaders_[op] = (*compute_options_)[entry].follows;
  }
  check_options();
  for (const OpOptions& entry : *compute_options_) {
    has_inner_ = has_inner_ || !entry.inner.empty();
    workspaces_[entry.op] = least_workspace(entry.op, 0);
    for (std::size_t o = 0; o < entry.further.size(); ++o) {
      const auto& option = entry.further[o];
      if (!option) continue;
      has_inner_ = has_inner_ || !option->inner.empty();
      durations_[entry.op] = std::min(durations_[entry.op], option->duration);
      workspaces_[entry.op] = std::min(workspaces_[entry.op], least_workspace(entry.op, static_cast<Option>(o) + 1));
      const auto tensors = outputs(entry.op);
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        sizes_[tensors[i]] = std::min(sizes_[tensors[i]], option->output_sizes[i]);
      }
    }
  }
  index_readers();
  index_followers();
}

void Instance::index_followers() {
  std::vector<std::vector<OpId>> followers(static_cast<std::size_t>(op_count()));
  for (int v = 0; v < op_count(); ++v) {
    if (leader(OpId(v)).valid()) followers[leaders_[static_cast<std::size_t>(v)]].push_back(OpId(v));
  }
  for (const auto& row : followers) {
    for (const OpId op : row) followers_.push(op);
    followers_.end_row();
  }
}

void Instance::index_readers() {
  for (int v = 0; v < op_count(); ++v) {
    const OpId op(v);
    std::vector<std::uint64_t> readers(inputs(op).size(), ~std::uint64_t{0});
    bool all = true;
    for (Option option = 0; option < option_count(op); ++option) {
      if (!offers(op, option)) continue;
      const auto skipped = unread(op, option);
      for (std::size_t i = 0; i < readers.size(); ++i) {
        if (std::find(skipped.begin(), skipped.end(), inputs(op)[i]) == skipped.end()) continue;
        readers[i] &= ~(std::uint64_t{1} << static_cast<unsigned>(option));
        all = false;
      }
    }
    for (std::size_t i = 0; !all && i < readers.size(); ++i) readers_.push(readers[i]);
    readers_.end_row();
    reads_differ_ = reads_differ_ || !all;
  }
}

}  // namespace remora
