// SPDX-License-Identifier: Apache-2.0
//
// What is demanded of modes, and the part of Instance that knows of them.
#include "model/modes.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "model/error.hpp"
#include "model/instance.hpp"
#include "model/quote.hpp"

namespace remora {
namespace {

/// Without its sign.
Bytes magnitude(Bytes bytes) {
  if (bytes.count() == std::numeric_limits<std::int64_t>::min()) return Bytes::max();
  return bytes < Bytes(0) ? Bytes(0) - bytes : bytes;
}

bool is_among(std::span<const TensorId> list, TensorId tensor) {
  return std::ranges::find(list, tensor) != list.end();
}

int mode_count_of(const Op& op) {
  return op.modes ? static_cast<int>(op.modes->further.size()) + 1 : 1;
}

/// The modes of one op.
class ModeChecker {
 public:
  ModeChecker(const Graph& graph, const Op& op, std::string path)
      : graph_(graph), op_(op), own_(*op.modes), path_(std::move(path)) {}

  void run() const {
    if (own_.further.size() >= kMaxModes) throw InputError(path_ + ".modes", "an op has at most 64 modes");
    check_reads(path_, own_.unread, own_.inner);
    for (std::size_t m = 0; m < own_.further.size(); ++m) {
      if (own_.further[m]) check_mode(*own_.further[m], path_ + ".modes[" + std::to_string(m) + "]");
    }
    check_computes();
    if (own_.follows.valid()) check_leader();
  }

 private:
  void check_mode(const Mode& mode, const std::string& place) const {
    if (mode.output_sizes.size() != op_.outputs.size()) {
      throw InputError(place + ".output_sizes", "needs one size for each output");
    }
    const bool negative = mode.duration < Duration(0) || mode.workspace < Bytes(0) ||
                          std::ranges::any_of(mode.output_sizes, [](Bytes size) { return size < Bytes(0); });
    if (negative) throw InputError(place, "amounts must not be negative");
    check_reads(place, mode.unread, mode.inner);
  }

  void check_reads(const std::string& place, const std::vector<TensorId>& unread,
                   const std::vector<InnerPeak>& inner) const {
    for (const TensorId t : unread) {
      if (!is_among(op_.inputs, t)) throw InputError(place + ".unread", "must be inputs of the op");
    }
    for (const InnerPeak& peak : inner) {
      std::vector<TensorId> freed;
      for (const FreedInput& one : peak.freed) {
        if (!is_among(op_.inputs, one.tensor) || is_among(unread, one.tensor)) {
          throw InputError(place + ".inner", "what is freed must be read by the mode");
        }
        if (is_among(freed, one.tensor)) throw InputError(place + ".inner", "each input is freed once");
        if (one.most < Bytes(0)) throw InputError(place + ".inner", "amounts must not be negative");
        freed.push_back(one.tensor);
      }
    }
  }

  void check_computes() const {
    int lightest = own_.computes;
    for (const auto& mode : own_.further) lightest = mode ? std::min(lightest, mode->computes) : lightest;
    if (lightest < 1) throw InputError(path_ + ".computes", "must be at least 1");
    if (own_.most_computes < lightest) throw InputError(path_ + ".most_computes", "all modes weigh more");
  }

  void check_leader() const {
    const std::string place = path_ + ".follows";
    if (own_.follows.index() >= graph_.ops.size()) throw InputError(place, "the leader must exist");
    const Op& leader = graph_[own_.follows];
    if (mode_count_of(leader) != mode_count_of(op_)) {
      throw InputError(place, "the op has another number of modes than its leader " + quote(leader.name));
    }
    for (int mode = 0; mode < mode_count_of(op_); ++mode) {
      const auto* further = mode > 0 ? &own_.further[at(mode - 1)] : nullptr;
      if (further != nullptr && !*further) continue;
      const std::vector<TensorId>& unread = further != nullptr ? (*further)->unread : own_.unread;
      const bool is_served = std::ranges::any_of(
          op_.inputs, [&](TensorId t) { return is_among(leader.outputs, t) && !is_among(unread, t); });
      if (is_served) continue;
      throw InputError(
          place, "the leader " + quote(leader.name) + " produces nothing that mode " + std::to_string(mode) + " reads");
    }
  }

  const Graph& graph_;
  const Op& op_;
  const OpModes& own_;
  std::string path_;
};

}  // namespace

void check_modes(const Graph& graph, const Op& op, const std::string& place) {
  if (op.modes) ModeChecker(graph, op, place).run();
}

bool has_modes(const Graph& graph) {
  return std::ranges::any_of(graph.ops, [](const Op& op) { return op.modes.has_value(); });
}

std::optional<Mode> find_mode(const Graph& graph, OpId op, ModeNumber mode) {
  const Op& own = graph[op];
  if (mode < 0 || mode >= mode_count_of(own)) return std::nullopt;
  if (mode > 0) return own.modes->further[at(mode - 1)];
  Mode result{.duration = own.duration, .workspace = own.workspace};
  for (const TensorId t : own.outputs) result.output_sizes.push_back(graph[t].size);
  if (!own.modes) return result;
  result.unread = own.modes->unread;
  result.computes = own.modes->computes;
  result.inner = own.modes->inner;
  return result;
}

void expect_one_mode(const Graph& graph, const std::string& user) {
  const auto found = std::ranges::find_if(graph.ops, [](const Op& op) { return op.modes.has_value(); });
  if (found == graph.ops.end()) return;
  throw InputError("ops[" + std::to_string(found - graph.ops.begin()) + "]",
                   "the op " + quote(found->name) + " has several modes, and " + user + " takes one per op");
}

Duration longest_duration(const Op& op) {
  Duration longest = op.duration;
  if (!op.modes) return longest;
  for (const auto& mode : op.modes->further) longest = mode ? std::max(longest, mode->duration) : longest;
  return longest;
}

Bytes largest_size(const Op& op, std::size_t output, Bytes own) {
  if (!op.modes) return own;
  for (const auto& mode : op.modes->further) own = mode ? std::max(own, mode->output_sizes[output]) : own;
  return own;
}

Bytes largest_workspace(const Op& op) {
  Bytes largest = op.workspace;
  if (!op.modes) return largest;
  const auto add = [&](const std::vector<InnerPeak>& inner) {
    for (const InnerPeak& peak : inner) largest = std::max(largest, magnitude(peak.workspace));
  };
  add(op.modes->inner);
  for (const auto& mode : op.modes->further) {
    if (!mode) continue;
    largest = std::max(largest, mode->workspace);
    add(mode->inner);
  }
  return largest;
}

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

void run_by(const Instance& instance, const Mode& mode, OpId op, Graph& graph) {
  Op& own = graph[op];
  own.duration = mode.duration;
  own.workspace = mode.workspace;
  for (std::size_t i = 0; i < own.outputs.size(); ++i) graph[own.outputs[i]].size = mode.output_sizes[i];
  for (const TensorId t : mode.unread) {
    std::erase(own.inputs, t);
    if (instance.producer(t).valid()) own.after.push_back(instance.producer(t));
  }
  own.in_place.clear();
  own.modes.reset();
}

const OpModes* Instance::further(OpId op) const {
  if (!has_modes_ || !(*graph_)[op].modes) return nullptr;
  return &*(*graph_)[op].modes;
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

Bytes Instance::largest(TensorId tensor) const {
  const Op& op = (*graph_)[producers_[tensor]];
  const auto place = std::ranges::find(op.outputs, tensor) - op.outputs.begin();
  return largest_size(op, at(place), (*graph_)[tensor].size);
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
  return has_modes_ ? followers_[op] : std::span<const OpId>();
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
  leaders_.assign(op_count(), OpId::none());
  // The rest of an input after a takeover may be larger in another mode.
  for (const OpId v : in_place_.ids()) {
    if (!in_place_[v].empty()) workspaces_[v] = min_workspace(v, 0);
  }
  for (const OpId op : ops()) {
    const OpModes* own = further(op);
    if (own == nullptr) continue;
    leaders_[op] = own->follows;
    has_inner_ = has_inner_ || !own->inner.empty();
    workspaces_[op] = min_workspace(op, 0);
    for (ModeNumber m = 1; m < mode_count(op); ++m) {
      if (!offers(op, m)) continue;
      const Mode& mode = further(op, m);
      has_inner_ = has_inner_ || !mode.inner.empty();
      durations_[op] = std::min(durations_[op], mode.duration);
      workspaces_[op] = std::min(workspaces_[op], min_workspace(op, m));
      const auto tensors = outputs(op);
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        sizes_[tensors[i]] = std::min(sizes_[tensors[i]], mode.output_sizes[i]);
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

}  // namespace remora
