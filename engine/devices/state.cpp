// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/state.hpp"

#include <algorithm>
#include <utility>

namespace remora::devices {
namespace {

bool takes(const Op& op, std::uint32_t pairs, TensorId t) {
  for (std::size_t i = 0; i < op.in_place.size(); ++i) {
    if ((pairs >> i & 1U) != 0 && op.in_place[i].input == t) return true;
  }
  return false;
}

}  // namespace

State::State(const Instance& instance)
    : resident_(instance.graph().graph.tensors.size() * instance.graph().devices.size(), 0),
      runs_(instance.op_count(), 0) {
  for (const TensorId t : instance.graph().places.ids()) {
    for (const DeviceId d : instance.graph().devices.ids()) {
      if (instance.at_home(t, d)) resident_[instance.place(t, d)] = 1;
    }
  }
  for (const DeviceId d : instance.graph().devices.ids()) memory_.push_back(instance.base(d));
}

bool State::finished(const Instance& instance) const {
  if (next_ < instance.op_count() || releasing()) return false;
  const DeviceGraph& graph = instance.graph();
  return std::all_of(graph.places.ids().begin(), graph.places.ids().end(), [&](TensorId t) {
    if (!graph.graph[t].keep || !instance.producer(t).valid()) return true;
    const auto& home = graph.places[t].home;
    return std::any_of(graph.devices.ids().begin(), graph.devices.ids().end(), [&](DeviceId d) {
      return resident(instance.place(t, d)) && (home.empty() || home.front() == d);
    });
  });
}

/// The memory of a run beyond what is resident, the new outputs included.
Bytes State::beside(const Instance& instance, const Move& run) const {
  const Op& op = instance.op(run.op);
  Bytes bytes = run_cost(instance.graph(), run.op, run.device)->workspace;
  const bool all = instance.graph().graph.recompute_allocates == Allocation::all;
  for (const TensorId t : op.outputs) {
    if (all || !resident(instance.place(t, run.device))) bytes += instance.size(t);
  }
  for (std::size_t i = 0; i < op.in_place.size(); ++i) {
    const InPlace& pair = op.in_place[i];
    if ((run.takes_over >> i & 1U) != 0) bytes -= std::min(instance.size(pair.output), instance.size(pair.input));
  }
  return bytes;
}

/// Finds what may come next.
class State::MoveFinder {
 public:
  MoveFinder(const Instance& instance, const State& state, const Allowed& allowed)
      : instance_(instance), graph_(instance.graph()), state_(state), allowed_(allowed) {}

  std::vector<Move> find() {
    for (const OpId v : graph_.runs.ids()) {
      for (const RunCost& run : graph_.runs[v]) {
        if (concerns(run.device) && may_run(v, run.device)) add_run({.op = v, .device = run.device});
      }
    }
    for (const TensorId t : graph_.places.ids()) {
      if (!is_wanted(t)) continue;
      for (const Link& link : graph_.links) {
        if (!concerns(link.to) || !there(t, link.from) || there(t, link.to)) continue;
        add_copy({.kind = Move::Kind::copy, .tensor = t, .device = link.from, .to = link.to});
      }
    }
    add_releases();
    return std::move(moves_);
  }

 private:
  [[nodiscard]] bool there(TensorId t, DeviceId d) const { return state_.resident(instance_.place(t, d)); }
  [[nodiscard]] bool concerns(DeviceId d) const { return !state_.releasing() || state_.releasing_ == d; }

  [[nodiscard]] bool may_run(OpId v, DeviceId d) const {
    const Op& op = instance_.op(v);
    const int runs = state_.runs(v);
    if (runs >= instance_.most_runs(v)) return false;
    if (!std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorId t) { return there(t, d); })) return false;
    if (runs == 0) {
      if (instance_.problem().order == OrderMode::input && v != state_.next_) return false;
      return allowed_(v, d) &&
             std::all_of(op.after.begin(), op.after.end(), [&](OpId earlier) { return state_.runs(earlier) > 0; });
    }
    if (instance_.problem().order == OrderMode::input && rank(v, d) <= state_.latest_) return false;
    return !std::all_of(op.outputs.begin(), op.outputs.end(), [&](TensorId t) { return there(t, d); });
  }

  [[nodiscard]] std::int32_t rank(OpId v, DeviceId d) const { return v * instance_.device_count() + d; }

  /// True if some op may still read it.
  [[nodiscard]] bool is_wanted(TensorId t) const {
    if (graph_.graph[t].keep) return true;
    const auto& readers = instance_.readers(t);
    return std::any_of(readers.begin(), readers.end(), [&](OpId v) { return state_.runs(v) < instance_.most_runs(v); });
  }

  /// Fits, and would not without each of the releases made for it.
  [[nodiscard]] bool suits(DeviceId d, Bytes bytes) const {
    const Bytes room = instance_.budget(d) - state_.memory(d);
    return bytes <= room && (!state_.releasing() || bytes > room - state_.smallest_);
  }
  [[nodiscard]] bool fits(DeviceId d, Bytes bytes) const { return bytes <= instance_.budget(d) - state_.memory(d); }

  void add_run(Move run) {
    const Op& op = instance_.op(run.op);
    std::uint32_t possible = 0;
    for (std::size_t i = 0; i < op.in_place.size(); ++i) {
      const InPlace& pair = op.in_place[i];
      if (instance_.producer(pair.input).valid() && !there(pair.output, run.device)) possible |= 1U << i;
    }
    // Every set of pairs of which no part is enough.
    std::vector<std::uint32_t> enough;
    for (std::uint32_t pairs = 0;; pairs = (pairs - possible) & possible) {
      const bool more = std::any_of(enough.begin(), enough.end(), [&](std::uint32_t e) { return (e & pairs) == e; });
      run.takes_over = pairs;
      const Bytes bytes = more ? Bytes(0) : state_.beside(instance_, run);
      if (!more && fits(run.device, bytes)) {
        enough.push_back(pairs);
        if (suits(run.device, bytes)) moves_.push_back(run);
      }
      if (pairs == 0 && enough.empty()) wanting_.push_back({run, bytes});
      if (pairs == possible) break;
    }
  }

  void add_copy(const Move& copy) {
    const Bytes bytes = instance_.size(copy.tensor);
    if (suits(copy.to, bytes)) moves_.push_back(copy);
    if (!fits(copy.to, bytes)) wanting_.push_back({copy, bytes});
  }

  /// Adds the releases that could make room for a step that does not fit.
  void add_releases() {
    for (const DeviceId d : graph_.devices.ids()) {
      if (!concerns(d)) continue;
      for (const TensorId t : graph_.places.ids()) {
        if (!there(t, d) || instance_.at_home(t, d) || instance_.size(t) == Bytes(0)) continue;
        if (state_.releasing() && t <= state_.released_) continue;
        const bool useful = std::any_of(wanting_.begin(), wanting_.end(),
                                        [&](const Wanting& wanting) { return gives_way(wanting, t, d); });
        if (useful) moves_.push_back({.kind = Move::Kind::release, .tensor = t, .device = d});
      }
    }
  }

  struct Wanting {
    Move move{};
    Bytes bytes{};
  };

  [[nodiscard]] bool gives_way(const Wanting& wanting, TensorId t, DeviceId d) const {
    const Move& move = wanting.move;
    if (move.kind == Move::Kind::copy) return move.to == d;
    return move.device == d && !reads(instance_.op(move.op), t);
  }

  const Instance& instance_;
  const DeviceGraph& graph_;
  const State& state_;
  const Allowed& allowed_;
  std::vector<Move> moves_;
  std::vector<Wanting> wanting_;
};

std::vector<Move> State::moves(const Instance& instance, const Allowed& allowed) const {
  return MoveFinder(instance, *this, allowed).find();
}

bool State::apply(const Instance& instance, const Move& move) {
  if (move.kind == Move::Kind::release) return release(instance, move);
  releasing_ = DeviceId::none();
  released_ = TensorId::none();
  if (move.kind == Move::Kind::run) return run(instance, move);
  copy(instance, move);
  return true;
}

bool State::run(const Instance& instance, const Move& move) {
  const Op& op = instance.op(move.op);
  const DeviceId d = move.device;
  const RunCost& cost = *run_cost(instance.graph(), move.op, d);
  std::erase_if(due_, [&](const Due& due) {
    if (due.tensor.valid()) {
      return (due.device == d && reads(op, due.tensor)) || (due.from == d && takes(op, move.takes_over, due.tensor));
    }
    if (due.device != d) return false;
    const Op& again = instance.op(due.op);
    return std::any_of(again.outputs.begin(), again.outputs.end(), [&](TensorId t) { return reads(op, t); }) ||
           std::any_of(again.inputs.begin(), again.inputs.end(),
                       [&](TensorId t) { return takes(op, move.takes_over, t); });
  });
  if (!due_.empty()) return false;
  bool renewed = false;
  for (const TensorId t : op.outputs) {
    std::uint8_t& here = resident_[instance.place(t, d)];
    renewed = renewed || here != 0;
    if (here == 0) memory_[d] += instance.size(t);
    here = 1;
  }
  for (std::size_t i = 0; i < op.in_place.size(); ++i) {
    if ((move.takes_over >> i & 1U) != 0) drop(instance, op.in_place[i].input, d);
  }
  duration_ += cost.duration;
  energy_ += cost.energy;
  const bool again = runs_[move.op]++ > 0;
  if (instance.problem().order == OrderMode::input) {
    latest_ = again ? move.op * instance.device_count() + d : -1;
  } else if (again) {
    // Put off, it would find all of this resident, too; not so a workspace or an older copy beside it.
    const bool beside =
        cost.workspace > Bytes(0) || (renewed && instance.graph().graph.recompute_allocates == Allocation::all);
    if (!beside && move.takes_over == 0) due_.push_back({.op = move.op, .device = d});
  }
  while (next_ < instance.op_count() && runs_[next_] > 0) next_ = OpId(next_ + 1);
  return true;
}

void State::copy(const Instance& instance, const Move& move) {
  const CopyCost cost = *copy_cost(instance.graph(), move.tensor, move.device, move.to);
  std::erase_if(due_, [&](const Due& due) {
    if (due.device != move.device) return false;
    return due.tensor.valid() ? due.tensor == move.tensor : writes(instance.op(due.op), move.tensor);
  });
  due_.push_back({.tensor = move.tensor, .from = move.device, .device = move.to});
  std::sort(due_.begin(), due_.end());
  resident_[instance.place(move.tensor, move.to)] = 1;
  memory_[move.to] += instance.size(move.tensor);
  duration_ += cost.duration;
  energy_ += cost.energy;
}

bool State::release(const Instance& instance, const Move& move) {
  const TensorId t = move.tensor;
  const DeviceId d = move.device;
  std::erase_if(due_, [&](const Due& due) {
    return due.tensor.valid() ? due.tensor == t && due.from == d : due.device == d && reads(instance.op(due.op), t);
  });
  // Brought, and of no use.
  const bool in_vain = std::any_of(due_.begin(), due_.end(), [&](const Due& due) {
    return due.tensor.valid() && due.tensor == t && due.device == d;
  });
  if (in_vain) return false;
  drop(instance, t, d);
  smallest_ = releasing() ? std::min(smallest_, instance.size(t)) : instance.size(t);
  releasing_ = d;
  released_ = t;
  return true;
}

void State::drop(const Instance& instance, TensorId t, DeviceId d) {
  resident_[instance.place(t, d)] = 0;
  memory_[d] -= instance.size(t);
}

std::string State::key(bool with_due) const {
  std::string key;
  key.reserve(resident_.size() / 8 + runs_.size() + 8);
  std::uint8_t byte = 0;
  for (std::size_t i = 0; i < resident_.size(); ++i) {
    byte = static_cast<std::uint8_t>(byte << 1U | resident_[i]);
    if (i % 8 == 7 || i + 1 == resident_.size()) key.push_back(static_cast<char>(std::exchange(byte, 0)));
  }
  for (const std::uint8_t count : runs_) key.push_back(static_cast<char>(count));
  const auto add = [&](std::int32_t number) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      key.push_back(static_cast<char>(static_cast<std::uint32_t>(number) >> shift & 255U));
    }
  };
  add(latest_);
  for (std::size_t i = 0; with_due && i < due_.size(); ++i) {
    add(due_[i].tensor);
    add(due_[i].op);
    add(due_[i].from);
    add(due_[i].device);
  }
  return key;
}

}  // namespace remora::devices
