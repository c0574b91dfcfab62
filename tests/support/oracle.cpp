// SPDX-License-Identifier: Apache-2.0
#include "tests/support/oracle.hpp"

#include <algorithm>
#include <cstdint>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/error.hpp"

namespace remora::test {
namespace {

constexpr std::size_t kMaxOps = 8;
constexpr std::size_t kMaxTensors = 16;
constexpr int kMaxComputes = 3;
constexpr int kMaxOracleModes = 3;
constexpr int kMaxWeight = 5;

struct State {
  /// Staged form: first computes done so far (the next one is op `stage`).
  unsigned stage = 0;
  /// Staged form: one more than the op recomputed last in this stage; 0 if none was.
  unsigned last = 0;
  /// Two bits a tensor: 0 for absent, else one more than the mode that it was computed with.
  unsigned resident = 0;
  /// Two bits an op.
  unsigned counts = 0;
  /// Four bits an op: what its computes weigh, if that is limited.
  unsigned weights = 0;

  struct Key {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      const std::uint64_t mixed = (key.first ^ (key.second * 0xff51afd7ed558ccdU)) * 0x9e3779b97f4a7c15U;
      return mixed ^ (mixed >> 32U);
    }
  };
  [[nodiscard]] Key key() const {
    return {(std::uint64_t{stage} << 56U) | (std::uint64_t{last} << 48U) | (std::uint64_t{counts} << 32U) | resident,
            weights};
  }
  [[nodiscard]] int weight(unsigned op) const { return static_cast<int>((weights >> (4 * op)) & 15U); }
  [[nodiscard]] unsigned count(unsigned op) const { return (counts >> (2 * op)) & 3U; }
  [[nodiscard]] unsigned held(unsigned tensor) const { return (resident >> (2 * tensor)) & 3U; }
  void release(unsigned tensor) { resident &= ~(3U << (2 * tensor)); }
  void hold(unsigned tensor, ModeNumber mode) {
    release(tensor);
    resident |= static_cast<unsigned>(mode + 1) << (2 * tensor);
  }
};

class Oracle {
 public:
  explicit Oracle(const Instance& instance)
      : instance_(instance), graph_(instance.graph()), staged_(instance.problem().order == OrderMode::input) {
    const int max_computes = instance.problem().max_computes;
    ensure(graph_.ops.size() <= kMaxOps && graph_.tensors.size() <= kMaxTensors && max_computes <= kMaxComputes,
           "oracle: the graph is too large");
    produced_.assign(graph_.tensors.size(), false);
    for (std::size_t v = 0; v < graph_.ops.size(); ++v) {
      const Op& op = graph_.ops[v];
      ensure(instance.mode_count(OpId(v)) <= kMaxOracleModes, "oracle: too many modes");
      for (ModeNumber mode = 0; mode < instance.mode_count(OpId(v)); ++mode) {
        if (!instance.offers(OpId(v), mode)) continue;
        ensure(instance.computes(OpId(v), mode) <= kMaxWeight, "oracle: too large a weight");
      }
      for (const TensorId t : op.outputs) produced_[t] = true;
      const int own = std::min(op.recompute ? op.max_computes.value_or(max_computes) : 1, max_computes);
      limits_.push_back(static_cast<unsigned>(own));
    }
  }

  std::optional<Duration> run() {
    State start;
    for (unsigned t = 0; t < graph_.tensors.size(); ++t) {
      if (!produced_[t]) start.hold(t, 0);
    }
    push(0, start);
    while (!queue_.empty()) {
      const auto [cost, state] = queue_.top();
      queue_.pop();
      if (best_.at(state.key()) < cost) continue;
      if (finished(state)) return Duration(cost);
      expand(cost, state);
    }
    return std::nullopt;
  }

 private:
  struct Entry {
    std::int64_t cost;
    State state;
    bool operator<(const Entry& other) const { return cost > other.cost; }
  };

  void push(std::int64_t cost, const State& state) {
    const auto [at, fresh] = best_.try_emplace(state.key(), cost);
    if (!fresh && at->second <= cost) return;
    at->second = cost;
    queue_.push({cost, state});
  }

  [[nodiscard]] bool finished(const State& state) const {
    for (unsigned op = 0; op < graph_.ops.size(); ++op) {
      if (state.count(op) == 0) return false;
    }
    for (unsigned t = 0; t < graph_.tensors.size(); ++t) {
      if (graph_.tensors[t].keep && state.held(t) == 0) return false;
    }
    return true;
  }

  [[nodiscard]] Bytes memory(const State& state) const {
    Bytes total = graph_.fixed_memory;
    for (unsigned t = 0; t < graph_.tensors.size(); ++t) {
      if (state.held(t) == 0) continue;
      total += produced_[t] ? instance_.size(TensorId(std::size_t{t}), static_cast<ModeNumber>(state.held(t)) - 1)
                            : graph_.tensors[t].size;
    }
    return total;
  }

  void expand(std::int64_t cost, const State& state) {
    for (unsigned t = 0; t < graph_.tensors.size(); ++t) {
      if (!produced_[t] || state.held(t) == 0) continue;
      State next = state;
      next.release(t);
      push(cost, next);
    }
    for (unsigned op = 0; op < graph_.ops.size(); ++op) {
      if (!may_come(state, op)) continue;
      for (ModeNumber mode = 0; mode < instance_.mode_count(OpId(std::size_t{op})); ++mode) {
        if (instance_.offers(OpId(std::size_t{op}), mode)) compute(cost, state, op, mode);
      }
    }
  }

  /// Staged: a stage's recomputes follow the input order, and its first compute ends it. Free: `after` holds.
  [[nodiscard]] bool may_come(const State& state, unsigned op) const {
    if (state.count(op) >= limits_[op]) return false;
    if (staged_) return op == state.stage || (op < state.stage && op >= state.last);
    if (state.count(op) > 0) return true;
    // The graph's order of first computes does not ask what a mode reads.
    const auto inputs = instance_.inputs(OpId(std::size_t{op}));
    const bool supplied = std::all_of(inputs.begin(), inputs.end(), [&](TensorId t) {
      return state.count(static_cast<unsigned>(std::int32_t{instance_.producer(t)})) > 0;
    });
    if (!supplied) return false;
    const auto& after = graph_.ops[op].after;
    return std::all_of(after.begin(), after.end(),
                       [&](OpId earlier) { return state.count(static_cast<unsigned>(std::int32_t{earlier})) > 0; });
  }

  void compute(std::int64_t cost, const State& state, unsigned id, ModeNumber mode) {
    const Op& op = graph_.ops[id];
    const OpId leader = instance_.leader(OpId(std::size_t{id}));
    for (const TensorId t : op.inputs) {
      if (produced_[t] && !instance_.reads(OpId(std::size_t{id}), mode, t)) continue;
      const unsigned held = state.held(static_cast<unsigned>(std::int32_t{t}));
      if (held == 0) return;
      const bool led = leader.valid() && instance_.producer(t) == leader;
      if (led && static_cast<ModeNumber>(held) - 1 != mode) return;
    }
    State next = state;
    for (const TensorId t : op.outputs) next.hold(static_cast<unsigned>(std::int32_t{t}), mode);
    next.counts += 1U << (2 * id);
    const int most = instance_.most_computes(OpId(std::size_t{id}));
    if (const int weight = instance_.computes(OpId(std::size_t{id}), mode); most != kNoMostComputes) {
      if (state.weight(id) + weight > most) return;
      next.weights += static_cast<unsigned>(weight) << (4 * id);
    }
    if (staged_) {
      next.last = id == state.stage ? 0 : id + 1;
      if (id == state.stage) ++next.stage;
    }
    const std::int64_t total = cost + instance_.duration(OpId(std::size_t{id}), mode).count();
    const auto peaks = instance_.inner(OpId(std::size_t{id}), mode);
    if (!instance_.has_modes()) {
      run(total, state, next, op);
    } else if (!peaks.empty()) {
      release_inside(total, next, peaks);
    } else if (memory(next) + instance_.workspace(OpId(std::size_t{id}), mode) <= instance_.budget()) {
      push(total, next);
    }
  }

  /// remora-graph 2: what a run allocates, and each choice of inputs that outputs may take over and the step releases.
  void run(std::int64_t cost, const State& before, const State& computed, const Op& op) {
    const auto index = [](TensorId t) { return static_cast<unsigned>(std::int32_t{t}); };
    Bytes taken = memory(computed) + op.workspace;
    for (const TensorId t : op.outputs) {
      const bool again = graph_.recompute_allocates == Allocation::all && before.held(index(t)) != 0;
      if (again) taken += graph_.tensors[index(t)].size;
    }
    for (unsigned choice = 0; choice < 1U << op.in_place.size(); ++choice) {
      State after = computed;
      Bytes here = taken;
      bool allowed = true;
      for (std::size_t i = 0; i < op.in_place.size(); ++i) {
        if ((choice >> i & 1U) == 0) continue;
        const InPlace& pair = op.in_place[i];
        allowed = allowed && produced_[index(pair.input)];
        after.release(index(pair.input));
        if (before.held(index(pair.output)) != 0) continue;
        here -= std::min(graph_.tensors[index(pair.output)].size, graph_.tensors[index(pair.input)].size);
      }
      if (allowed && here <= instance_.budget()) push(cost, after);
    }
  }

  /// Tries every choice of releases, among what the peaks may free, that the compute makes itself.
  void release_inside(std::int64_t cost, const State& computed, std::span<const InnerPeak> peaks) {
    std::set<unsigned> candidates;
    for (const InnerPeak& peak : peaks) {
      for (const auto& [t, most] : peak.freed) {
        if (produced_[t]) candidates.insert(static_cast<unsigned>(std::int32_t{t}));
      }
    }
    const std::vector<unsigned> freed(candidates.begin(), candidates.end());
    for (unsigned choice = 0; choice < 1U << freed.size(); ++choice) {
      State after = computed;
      for (std::size_t i = 0; i < freed.size(); ++i) {
        if ((choice >> i & 1U) != 0) after.release(freed[i]);
      }
      // At a peak, what it frees is there only if it stays after the compute; all else still is.
      const bool fits = std::all_of(peaks.begin(), peaks.end(), [&](const InnerPeak& peak) {
        Bytes here = memory(computed) + peak.workspace;
        for (const auto& [t, most] : peak.freed) {
          const auto tensor = static_cast<unsigned>(std::int32_t{t});
          if (!produced_[t] || after.held(tensor) != 0) continue;
          here -= std::min(most, instance_.size(t, static_cast<ModeNumber>(computed.held(tensor)) - 1));
        }
        return here <= instance_.budget();
      });
      if (fits) push(cost, after);
    }
  }

  const Instance& instance_;
  const Graph& graph_;
  bool staged_;
  std::vector<bool> produced_;
  std::vector<unsigned> limits_;
  std::priority_queue<Entry> queue_;
  std::unordered_map<State::Key, std::int64_t, State::Hash> best_;
};

}  // namespace

std::optional<Duration> optimum(const Instance& instance) {
  return Oracle(instance).run();
}

}  // namespace remora::test
