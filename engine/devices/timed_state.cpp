// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/timed_state.hpp"

#include <algorithm>

namespace remora::devices {
namespace {

constexpr int kMaxPlaces = 64;
constexpr int kMaxOps = 16;
/// So that four bits have one to spare, which dominates() needs.
constexpr int kMaxRuns = 7;
constexpr std::uint64_t kSpareBits = 0x8888'8888'8888'8888U;

/// Before the time it makes no difference.
bool no_later(std::int64_t a, std::int64_t b, std::int64_t before) {
  return a <= b || a <= before;
}

bool none_later(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b, std::int64_t before) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!no_later(a[i], b[i], before)) return false;
  }
  return true;
}

/// The memory of one state that is still to be returned on a device, compared with another state.
class MemoryDue {
 public:
  MemoryDue(const TimedInstance& of, const TimedState& a, const TimedState& b, DeviceId d)
      : of_(of), a_(a), b_(b), device_(d), places_(of.on(d) & a.resident & ~of.home()) {}

  /// True if `a` never has more of it. Its memory only decreases, except where `b` gets or may release something.
  [[nodiscard]] bool is_no_more() const {
    const std::int64_t now = b_.last_start[device_.index()];
    if (!is_no_more_at(now)) return false;
    for (const TimedReturn& back : b_.returns) {
      if (back.device == device_ && back.time > now && !is_no_more_at(back.time)) return false;
    }
    return !any_place(places_ & b_.resident, [&](std::size_t place) {
      const std::int64_t time = b_.free_at[place];
      return time > now && time < a_.free_at[place] && !is_no_more_at(time);
    });
  }

 private:
  [[nodiscard]] static std::int64_t due(const TimedState& state, DeviceId d, std::int64_t time) {
    std::int64_t bytes = 0;
    for (const TimedReturn& back : state.returns) bytes += back.device == d && back.time > time ? back.bytes : 0;
    return bytes;
  }

  [[nodiscard]] bool is_no_more_at(std::int64_t time) const {
    std::int64_t bytes = due(a_, device_, time) - due(b_, device_, time);
    for_each_place(places_, [&](std::size_t place) {
      const bool in_both = (b_.resident >> place & 1U) != 0;
      if (a_.free_at[place] > time && (!in_both || b_.free_at[place] <= time)) bytes += of_.size(place);
    });
    return bytes <= 0;
  }

  const TimedInstance& of_;
  const TimedState& a_;
  const TimedState& b_;
  DeviceId device_;
  Places places_;
};

}  // namespace

bool TimedInstance::fits(const Instance& instance) {
  const DeviceGraph& graph = instance.graph();
  return instance.op_count() <= kMaxOps && graph.places.size() * graph.devices.size() <= kMaxPlaces &&
         std::ranges::none_of(graph.runs.ids(), [&](OpId v) { return instance.most_runs(v) > kMaxRuns; });
}

TimedInstance::TimedInstance(const Instance& instance)
    : instance_(instance),
      streams_(instance.graph()),
      awaited_(instance.op_count(), false),
      shortest_(instance.op_count(), kNoWay),
      least_energy_(instance.op_count(), kNoWay) {
  const DeviceGraph& graph = instance.graph();
  on_.assign(graph.devices.size(), 0);
  for (const TensorId t : graph.places.ids()) {
    for (const DeviceId d : graph.devices.ids()) {
      sizes_.push_back(instance.size(t).count());
      on_[d.index()] |= bit(t, d);
      if (instance.at_home(t, d)) home_ |= bit(t, d);
      if (is_limited(d) && sizes_.back() > 0 && !instance.at_home(t, d)) scarce_ |= bit(t, d);
    }
  }
  for (const OpId v : graph.runs.ids()) {
    for (const RunCost& run : graph.runs[v]) {
      shortest_[v] = std::min(shortest_[v], run.duration.count());
      least_energy_[v] = std::min(least_energy_[v], run.energy.count());
    }
  }
  bool takes_over = false;
  for (const Op& op : graph.graph.ops) {
    takes_over = takes_over || !op.in_place.empty();
    for (const OpId w : op.after) awaited_[w] = true;
  }
  const Problem& problem = instance.problem();
  counts_energy_ = problem.objective == Objective::energy || problem.energy_limit.has_value();
  // A copy of what nobody reads can still release something else.
  drops_ = !takes_over || graph.links.empty();
}

TimedState::TimedState(const TimedInstance& of)
    : resident(of.home()),
      idle(of.streams().size(), 0),
      last_start(of.graph().devices.size(), 0),
      ready(of.place_count(), 0),
      read_until(of.place_count(), 0),
      free_at(of.place_count(), 0),
      first_end(of.graph().runs.size(), 0) {}

bool TimedState::anything_held(const TimedInstance& of) const {
  return any_place(resident & of.scarce(), [&](std::size_t place) { return free_at[place] == kNoWay; });
}

std::int64_t TimedState::held(const TimedInstance& of, DeviceId d, std::int64_t time) const {
  std::int64_t bytes = of.instance().base(d).count();
  for_each_place(resident & of.on(d) & ~of.home(), [&](std::size_t place) { bytes += of.size(place); });
  for (const TimedReturn& back : returns) bytes += back.device == d && back.time > time ? back.bytes : 0;
  return bytes;
}

bool dominates(const TimedInstance& of, const TimedState& a, const TimedState& b) {
  if ((a.resident & b.resident) != b.resident || a.stage != b.stage || a.latest > b.latest || a.end > b.end) {
    return false;
  }
  if (of.counts_energy() && a.energy > b.energy) return false;
  if ((((b.counts | kSpareBits) - a.counts) & kSpareBits) != kSpareBits) return false;
  const std::int64_t now = *std::min_element(b.last_start.begin(), b.last_start.end());
  for (std::size_t d = 0; d < a.last_start.size(); ++d) {
    if (a.last_start[d] > b.last_start[d]) return false;
  }
  if (!none_later(a.idle, b.idle, now) || !none_later(a.first_end, b.first_end, now)) return false;
  const bool is_later = any_place(b.resident, [&](std::size_t place) {
    return !no_later(a.ready[place], b.ready[place], now) || !no_later(a.read_until[place], b.read_until[place], now);
  });
  if (is_later) return false;
  for (const DeviceId d : of.graph().devices.ids()) {
    if (of.is_limited(d) && !MemoryDue(of, a, b, d).is_no_more()) return false;
  }
  return true;
}

}  // namespace remora::devices
