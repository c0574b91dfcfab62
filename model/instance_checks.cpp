// SPDX-License-Identifier: Apache-2.0
//
// What Instance demands of options per op.
#include <algorithm>
#include <limits>
#include <string>

#include "model/error.hpp"
#include "model/instance.hpp"

namespace remora {
namespace {

std::string place_of(std::size_t entry, std::size_t option) {
  return "compute_options[" + std::to_string(entry) + "].further[" + std::to_string(option) + "]";
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

void check_option(const ComputeOption& option, const Op& op, const std::string& place) {
  if (option.output_sizes.size() != op.outputs.size()) throw InputError(place, "needs one size for each output");
  const bool negative =
      option.duration < Duration(0) || option.workspace < Bytes(0) ||
      std::any_of(option.output_sizes.begin(), option.output_sizes.end(), [](Bytes size) { return size < Bytes(0); });
  if (negative) throw InputError(place, "amounts must not be negative");
  check_reads(option.unread, op, place);
}

/// Adds an amount that is not negative to a sum that must stay within 64 bits.
void accumulate(Wide& sum, std::int64_t amount) {
  sum += amount;
  if (sum > std::numeric_limits<std::int64_t>::max()) throw InputError("compute_options", "sums exceed 64 bits");
}

}  // namespace

void Instance::check_options() const {
  Wide bytes = base_memory_.count();
  Wide durations = 0;
  Bytes most_workspace;
  std::vector<Bytes> largest(sizes_);
  for (int v = 0; v < op_count(); ++v)
    most_workspace = std::max(most_workspace, workspaces_[static_cast<std::size_t>(v)]);
  for (std::size_t entry = 0; entry < compute_options_->size(); ++entry) {
    const OpOptions& options = (*compute_options_)[entry];
    const Op& op = graph_->ops[options.op];
    if (options.further.size() >= kMostOptions) {
      throw InputError(place_of(entry, options.further.size() - 1), "an op has at most 64 options");
    }
    for (std::size_t o = 0; o < options.further.size(); ++o) {
      if (!options.further[o]) continue;
      check_option(*options.further[o], op, place_of(entry, o));
      most_workspace = std::max(most_workspace, options.further[o]->workspace);
      for (const InnerPeak& peak : options.further[o]->inner) {
        most_workspace = std::max(most_workspace, magnitude(peak.workspace));
      }
      for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        largest[op.outputs[i]] = std::max(largest[op.outputs[i]], options.further[o]->output_sizes[i]);
      }
    }
    check_reads(options.unread, op, "compute_options[" + std::to_string(entry) + "]");
    for (const InnerPeak& peak : options.inner) {
      most_workspace = std::max(most_workspace, magnitude(peak.workspace));
    }
    check_computes(entry);
    check_inner(entry);
    if (options.follows.valid()) check_leader(entry);
  }
  for (int v = 0; v < op_count(); ++v) accumulate(durations, longest(OpId(v)).count());
  if (durations * kComputesWithin64Bits > std::numeric_limits<std::int64_t>::max()) {
    throw InputError("compute_options", "sums exceed 64 bits");
  }
  for (std::size_t t = 0; t < largest.size(); ++t) {
    if (producers_[t].valid()) accumulate(bytes, largest[t].count());
  }
  accumulate(bytes, most_workspace.count());
}

void Instance::check_inner(std::size_t entry) const {
  const OpId op = (*compute_options_)[entry].op;
  const std::string place = "compute_options[" + std::to_string(entry) + "].inner";
  const auto& all = graph_->ops[op].inputs;
  const auto contains = [](std::span<const TensorId> tensors, TensorId t) {
    return std::find(tensors.begin(), tensors.end(), t) != tensors.end();
  };
  for (Option option = 0; option < option_count(op); ++option) {
    if (!offers(op, option)) continue;
    for (const InnerPeak& peak : inner(op, option)) {
      for (std::size_t i = 0; i < peak.freed.size(); ++i) {
        const TensorId t = peak.freed[i];
        if (!contains(all, t) || contains(unread(op, option), t)) {
          throw InputError(place, "what is freed must be read by the option");
        }
        if (contains(std::span(peak.freed).first(i), t)) throw InputError(place, "each input is freed once");
      }
    }
  }
}

void Instance::check_computes(std::size_t entry) const {
  const OpId op = (*compute_options_)[entry].op;
  const std::string place = "compute_options[" + std::to_string(entry) + "]";
  if (lightest(op) < 1) throw InputError(place + ".computes", "must be at least 1");
  if (most_computes(op) < lightest(op)) throw InputError(place + ".most_computes", "all options weigh more");
}

void Instance::check_leader(std::size_t entry) const {
  const OpId op = (*compute_options_)[entry].op;
  const OpId leader = (*compute_options_)[entry].follows;
  const std::string place = "compute_options[" + std::to_string(entry) + "].follows";
  if (leader < 0 || leader >= op_count()) throw InputError(place, "the leader must exist");
  if (option_count(leader) != option_count(op)) throw InputError(place, "the leader has other options");
  const auto read = inputs(op);
  for (Option option = 0; option < option_count(op); ++option) {
    if (!offers(op, option)) continue;
    const auto skipped = unread(op, option);
    const bool served = std::any_of(read.begin(), read.end(), [&](TensorId t) {
      return producers_[t] == leader && std::find(skipped.begin(), skipped.end(), t) == skipped.end();
    });
    if (!served) throw InputError(place, "the leader produces nothing that the op reads");
  }
}

}  // namespace remora
