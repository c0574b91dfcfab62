// SPDX-License-Identifier: Apache-2.0
//
// State after some steps that run concurrently, with times (model/devices/schedule.hpp has the rules).
//
//     compute    |  A  |   C   |        after A, g, C:  compute is idle at 6, gather at 4; a can be read from 2 on, and is read until 6
//     gather     |   g    |             on a's release its memory comes back at 6, whenever that release is decided on
//
// A release is decided on late and dated back: memory that is given up for a step comes back at the time at which the tensor's last
// use so far has ended, as if the step of that use had released it. So nothing is given up that may still be of use, and what a
// schedule has released in time is there in time. One thing stands in the way: where a run releases an input whose storage an output
// may take over, it does take it over, and waits for the input's other readers. Who does not want that lets a later step release the
// input (`kNoWay` as its time until there is one).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/devices/problem.hpp"

namespace remora::devices {

/// A bit for each place (Instance::place).
using Places = std::uint64_t;

/// True if any of them is such, by its number.
template <class Predicate>
bool any_place(Places places, Predicate is_such) {
  for (; places != 0; places &= places - 1) {
    if (is_such(static_cast<std::size_t>(std::countr_zero(places)))) return true;
  }
  return false;
}

template <class Visit>
void for_each_place(Places places, Visit visit) {
  for (; places != 0; places &= places - 1) visit(static_cast<std::size_t>(std::countr_zero(places)));
}

/// Figures of an instance that states go by. The instance outlives it.
class TimedInstance {
 public:
  /// True if a state has room for all places, ops and computes.
  static bool fits(const Instance& instance);

  explicit TimedInstance(const Instance& instance);

  [[nodiscard]] const Instance& instance() const { return instance_; }
  [[nodiscard]] const DeviceGraph& graph() const { return instance_.graph(); }
  [[nodiscard]] Places bit(TensorId t, DeviceId d) const { return Places{1} << instance_.place(t, d); }
  /// Where the place is, and what.
  [[nodiscard]] DeviceId device(std::size_t place) const { return DeviceId(place % instance_.graph().devices.size()); }
  [[nodiscard]] TensorId tensor(std::size_t place) const { return TensorId(place / instance_.graph().devices.size()); }
  [[nodiscard]] std::int64_t size(std::size_t place) const { return sizes_[place]; }
  [[nodiscard]] std::size_t place_count() const { return sizes_.size(); }
  /// Tensors at home are never released.
  [[nodiscard]] Places home() const { return home_; }
  [[nodiscard]] Places on(DeviceId d) const { return on_[d.index()]; }
  /// Places that take memory for which there is a limit, and may be given up.
  [[nodiscard]] Places scarce() const { return scarce_; }
  [[nodiscard]] bool is_limited(DeviceId d) const { return instance_.problem().budget[d].has_value(); }
  [[nodiscard]] const StreamNumbers& streams() const { return streams_; }
  /// True if energy matters beside time.
  [[nodiscard]] bool counts_energy() const { return counts_energy_; }
  [[nodiscard]] bool keeps_order() const { return instance_.problem().order == OrderMode::input; }
  /// Shortest duration and lowest energy of an op's ways to run.
  [[nodiscard]] std::int64_t shortest(OpId v) const { return shortest_[v]; }
  [[nodiscard]] std::int64_t least_energy(OpId v) const { return least_energy_[v]; }
  /// True if an op comes `after` it.
  [[nodiscard]] bool is_awaited(OpId v) const { return awaited_[v]; }
  /// True if what nobody can read any more is released at once.
  [[nodiscard]] bool drops() const { return drops_; }

 private:
  const Instance& instance_;
  StreamNumbers streams_;
  std::vector<std::int64_t> sizes_;
  std::vector<Places> on_;
  Places home_ = 0;
  Places scarce_ = 0;
  Table<OpId, bool> awaited_;
  Table<OpId, std::int64_t> shortest_;
  Table<OpId, std::int64_t> least_energy_;
  bool counts_energy_ = false;
  bool drops_ = false;
};

/// Memory of a device that comes back at a time.
struct TimedReturn {
  DeviceId device{};
  std::int64_t time = 0;
  std::int64_t bytes = 0;

  friend auto operator<=>(const TimedReturn&, const TimedReturn&) = default;
};

struct TimedState {
  explicit TimedState(const TimedInstance& of);

  [[nodiscard]] int count(OpId v) const { return static_cast<int>(counts >> (4 * v.index()) & 15U); }
  /// Something is resident that no step so far can release without a takeover.
  [[nodiscard]] bool anything_held(const TimedInstance& of) const;
  /// Bytes on the device once all releases up to the time have happened.
  [[nodiscard]] std::int64_t held(const TimedInstance& of, DeviceId d, std::int64_t time) const;

  Places resident = 0;
  /// Runs, four bits an op.
  std::uint64_t counts = 0;
  /// In input order: first runs so far, and the latest recompute of the stage by op and device (-1 for none).
  std::int32_t stage = 0;
  std::int32_t latest = -1;
  /// When the last step has ended, and the energy of all.
  std::int64_t end = 0;
  std::int64_t energy = 0;
  /// By stream: when it has ended its last step. By device: when the last step that takes memory there has started.
  std::vector<std::int64_t> idle;
  std::vector<std::int64_t> last_start;
  /// By place that is resident: from when on it can be read; until when it is read; and when its memory comes back on a release.
  std::vector<std::int64_t> ready;
  std::vector<std::int64_t> read_until;
  std::vector<std::int64_t> free_at;
  /// By op that others come after.
  std::vector<std::int64_t> first_end;
  /// Releases after the device's last start; sorted.
  std::vector<TimedReturn> returns{};
};

/// True if all that can follow the second state can follow the first one, no later and for no more: the same ops have run, none
/// oftener; what is resident in `b` is so in `a`, and nothing is free later; and at no time does more memory have to come back, if `a`
/// releases all that `b` has not or may release. O(places * what comes back).
bool dominates(const TimedInstance& of, const TimedState& a, const TimedState& b);

// Which steps can come next, and what is the case after them (timed_moves.cpp).

/// A step, and which releases were decided on for it.
struct TimedMove {
  DeviceStep step{};
  std::int64_t end = 0;
  /// Given up for it, dated back; taken over by it; and given up after it, since nobody can read it any more.
  Places released = 0;
  Places taken = 0;
  Places dropped = 0;

  friend bool operator==(const TimedMove&, const TimedMove&) = default;
};

/// All moves of a state, each with the state after it. Of releases for a step those sets without any of which it starts later, so that
/// it waits for memory or makes room. A run again of what is all there is left out. That loses no schedule for which another one is not
/// as good (timed_state.hpp). What a sequence of moves takes, its replay takes or less.
///
/// `enough` is asked now and then, with the number of sets of releases looked at so far (which may be exponential in what is resident); once it
/// says so, no more is visited. The number of these sets; nothing if it was enough.
std::optional<std::int64_t> for_each_move(const TimedInstance& of, const TimedState& state,
                                          const std::function<bool(std::int64_t)>& enough,
                                          const std::function<void(const TimedMove&, TimedState&&)>& visit);

// Bounds on everything that follows a state, regardless of memory (timed_bound.cpp).

struct TimedBound {
  /// When all can have ended at the earliest, and what it takes in energy; kNoWay where something cannot be done.
  std::int64_t duration = 0;
  std::int64_t energy = 0;
};

/// Two bounds of the duration.
///
///   path   when what is to be read can be there at the earliest: it is, or is copied, or is made (again)
///   lanes  runs that are certain to come (first runs, and runs again of what is nowhere and is read by one of these, or kept) do so one
///          after the other on each lane. Of those that start no earlier than h and are followed by t more at least, the lane
///          is not done before h + their durations + t (Carlier 1982)
TimedBound bound_after(const TimedInstance& of, const TimedState& state);

}  // namespace remora::devices
