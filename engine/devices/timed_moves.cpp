// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "engine/devices/timed_state.hpp"

namespace remora::devices {
namespace {

/// Each part of the set, the empty one and itself among them.
template <class Visit>
void for_each_part(Places set, Visit visit) {
  for (Places part = 0;; part = (part - set) & set) {
    visit(part);
    if (part == set) return;
  }
}

/// Sets of releases from one question whether it is enough to the next one.
constexpr std::int64_t kBetweenQuestions = 256;

class MoveFinder {
 public:
  using Enough = std::function<bool(std::int64_t)>;
  using Visit = std::function<void(const TimedMove&, TimedState&&)>;

  MoveFinder(const TimedInstance& of, const TimedState& state, const Enough& enough, const Visit& visit)
      : of_(of),
        instance_(of.instance()),
        state_(state),
        enough_(enough),
        visit_(visit),
        anything_held_(state.anything_held(of)) {}

  std::optional<std::int64_t> find() {
    for (const OpId v : of_.graph().runs.ids()) {
      for (const RunCost& run : of_.graph().runs[v]) {
        if (may_run(v, run.device)) add_runs(v, run);
      }
    }
    for (const Link& link : of_.graph().links) {
      for (const TensorId t : of_.graph().places.ids()) {
        if (is_there(t, link.from) && (of_.home() & of_.bit(t, link.to)) == 0) add_copies(t, link);
      }
    }
    return is_over_ ? std::nullopt : std::optional(sets_);
  }

 private:
  /// A step before its start is known.
  struct Draft {
    TimedMove move{};
    DeviceId device{};
    std::size_t stream = 0;
    std::int64_t earliest = 0;
    std::int64_t lasts = 0;
    /// Memory of the step beyond what is resident after the move's releases.
    std::int64_t bytes = 0;
    /// Places that may be released in addition.
    Places offers = 0;
  };

  [[nodiscard]] bool is_there(TensorId t, DeviceId d) const { return (state_.resident & of_.bit(t, d)) != 0; }
  [[nodiscard]] bool is_renewed(const Draft& draft, Places output) const {
    return is_all() || (output & state_.resident & ~draft.move.released) == 0;
  }
  [[nodiscard]] bool is_all() const { return of_.graph().graph.recompute_allocates == Allocation::all; }

  [[nodiscard]] bool may_run(OpId v, DeviceId d) const {
    const Op& op = instance_.op(v);
    const int runs = state_.count(v);
    if (runs >= instance_.most_runs(v)) return false;
    if (!std::ranges::all_of(op.inputs, [&](TensorId t) { return is_there(t, d); })) return false;
    if (runs == 0) {
      if (of_.keeps_order()) return v == state_.stage;
      return std::ranges::all_of(op.after, [&](OpId w) { return state_.count(w) > 0; });
    }
    return !of_.keeps_order() || rank(v, d) > state_.latest;
  }
  [[nodiscard]] std::int32_t rank(OpId v, DeviceId d) const { return v * instance_.device_count() + d; }

  /// The places among these that are not yet available, or still being read: recomputing them may be useful.
  [[nodiscard]] Places late_of(Places made, std::int64_t start) const {
    Places result = 0;
    for_each_place(made & state_.resident, [&](std::size_t place) {
      const bool is_late = std::max(state_.ready[place], state_.read_until[place]) > start || anything_held_;
      if (is_late && state_.free_at[place] != kNoWay) result |= Places{1} << place;
    });
    return result;
  }

  [[nodiscard]] Places resident_after(Places released) const { return state_.resident & ~released; }

  void add_runs(OpId v, const RunCost& run) {
    const Op& op = instance_.op(v);
    const DeviceId d = run.device;
    Draft draft{.device = d, .stream = of_.streams().of_run(run), .lasts = run.duration.count()};
    draft.move.step = {.op = v, .device = d};
    draft.earliest = std::max(state_.idle[draft.stream], state_.last_start[d.index()]);
    for (const TensorId t : op.inputs) {
      draft.earliest = std::max(draft.earliest, state_.ready[instance_.place(t, d)]);
    }
    for (const OpId w : op.after) draft.earliest = std::max(draft.earliest, state_.first_end[w.index()]);
    Places outputs = 0;
    for (const TensorId t : op.outputs) outputs |= of_.bit(t, d);
    const Places late = late_of(outputs, draft.earliest);
    // Pairs by the place of their input; and outputs that may give up what they have.
    Places pairs = 0;
    Places renewable = late;
    for (const InPlace& pair : op.in_place) {
      if (!may_take(pair) || (of_.scarce() & of_.bit(pair.input, d)) == 0) continue;
      pairs |= of_.bit(pair.input, d);
      const Places output = of_.bit(pair.output, d);
      if ((state_.resident & output) != 0 && state_.free_at[instance_.place(pair.output, d)] != kNoWay)
        renewable |= output;
    }
    const bool is_first = state_.count(v) == 0;
    for_each_part(renewable, [&](Places again) {
      for_each_part(pairs, [&](Places taken) {
        Draft chosen = draft;
        chosen.move.released = again;
        const std::optional<Places> takers = take_over(op, taken, chosen);
        if (!takers || (again & ~late & ~*takers) != 0) return;
        const bool is_of_use = is_first || anything_held_ || (outputs & ~resident_after(again)) != 0;
        if (is_of_use) add_run(op, run, outputs, std::move(chosen));
      });
    });
  }

  [[nodiscard]] bool may_take(const InPlace& pair) const { return instance_.producer(pair.input).valid(); }

  /// Outputs take the storage of these inputs; which outputs. Nothing where one still has its own.
  [[nodiscard]] std::optional<Places> take_over(const Op& op, Places taken, Draft& draft) const {
    draft.move.taken = taken;
    Places takers = 0;
    for (const InPlace& pair : op.in_place) {
      if ((taken & of_.bit(pair.input, draft.device)) == 0) continue;
      takers |= of_.bit(pair.output, draft.device);
      draft.earliest = std::max(draft.earliest, state_.read_until[instance_.place(pair.input, draft.device)]);
      draft.bytes -= std::min(instance_.size(pair.output), instance_.size(pair.input)).count();
    }
    if ((takers & resident_after(draft.move.released)) != 0) return std::nullopt;
    return takers;
  }

  void add_run(const Op& op, const RunCost& run, Places outputs, Draft draft) {
    const Places here = resident_after(draft.move.released);
    draft.bytes += run.workspace.count();
    for (const TensorId t : op.outputs) {
      if (is_renewed(draft, of_.bit(t, run.device))) draft.bytes += instance_.size(t).count();
    }
    draft.offers = here & of_.on(run.device);
    if (!is_all()) draft.offers &= ~outputs;
    for (const TensorId t : op.inputs) draft.offers &= ~of_.bit(t, run.device);
    make_room(draft);
  }

  void add_copies(TensorId t, const Link& link) {
    Draft draft{.device = link.to, .stream = of_.streams().of_copy(link.from, link.to)};
    draft.move.step = {.copied = t, .device = link.from, .to = link.to};
    draft.lasts = copy_cost(of_.graph(), t, link.from, link.to)->duration.count();
    draft.bytes = instance_.size(t).count();
    draft.earliest = std::max(
        {state_.ready[instance_.place(t, link.from)], state_.idle[draft.stream], state_.last_start[link.to.index()]});
    const Places target = of_.bit(t, link.to);
    if ((state_.resident & target) != 0) {
      if (late_of(target, draft.earliest) == 0) return;
      draft.move.released = target;
    }
    draft.offers = resident_after(draft.move.released) & of_.on(link.to);
    make_room(draft);
  }

  /// Each set of releases without any of which the step starts later.
  void make_room(Draft& draft) {
    if (!of_.is_limited(draft.device)) {
      add(draft, draft.earliest);
      return;
    }
    draft.offers &= of_.scarce();
    for_each_place(draft.offers, [&](std::size_t place) {
      if (state_.free_at[place] == kNoWay) draft.offers &= ~(Places{1} << place);
    });
    release_more(draft, draft.offers, start(draft));
  }

  /// The draft's releases, which start it then, and more of what is on offer.
  void release_more(Draft& draft, Places offers, std::optional<std::int64_t> starts) {
    if (++sets_ % kBetweenQuestions == 0) is_over_ = is_over_ || enough_(sets_);
    if (is_over_) return;
    if (starts && is_least(draft, *starts)) add(draft, *starts);
    if (starts == draft.earliest || start_with(draft, offers) == starts) return;
    while (offers != 0) {
      const Places next = offers & (~offers + 1);
      offers ^= next;
      draft.move.released |= next;
      release_more(draft, offers, start(draft));
      draft.move.released ^= next;
    }
  }

  [[nodiscard]] std::optional<std::int64_t> start_with(Draft& draft, Places more) const {
    draft.move.released ^= more;
    const std::optional<std::int64_t> starts = start(draft);
    draft.move.released ^= more;
    return starts;
  }

  /// True if the step starts later without any one of the offered releases.
  [[nodiscard]] bool is_least(Draft& draft, std::int64_t starts) const {
    for (Places left = draft.move.released & draft.offers; left != 0; left &= left - 1) {
      const std::optional<std::int64_t> without = start_with(draft, left & (~left + 1));
      if (without && *without <= starts) return false;
    }
    return true;
  }

  /// With the releases; nothing if there is never room.
  [[nodiscard]] std::optional<std::int64_t> start(const Draft& draft) const {
    const std::int64_t room = instance_.budget(draft.device).count() - draft.bytes;
    const Places here = draft.move.released & of_.on(draft.device);
    const auto held = [&](std::int64_t time) {
      std::int64_t bytes = state_.held(of_, draft.device, time);
      for_each_place(here, [&](std::size_t place) { bytes -= state_.free_at[place] > time ? 0 : of_.size(place); });
      return bytes;
    };
    if (held(draft.earliest) <= room) return draft.earliest;
    std::optional<std::int64_t> first;
    const auto look_at = [&](std::int64_t time) {
      if (time > draft.earliest && (!first || time < *first) && held(time) <= room) first = time;
    };
    for (const TimedReturn& back : state_.returns) {
      if (back.device == draft.device) look_at(back.time);
    }
    for_each_place(here, [&](std::size_t place) { look_at(state_.free_at[place]); });
    return first;
  }

  void give_back(TimedState& state, DeviceId d, std::int64_t time, std::int64_t bytes) const {
    if (bytes > 0 && of_.is_limited(d)) state.returns.push_back({d, time, bytes});
  }

  void release(TimedState& state, Places places) const {
    for_each_place(places, [&](std::size_t place) {
      give_back(state, of_.device(place), state.free_at[place], of_.size(place));
      forget(state, place);
    });
  }
  static void forget(TimedState& state, std::size_t place) {
    state.resident &= ~(Places{1} << place);
    state.ready[place] = state.read_until[place] = state.free_at[place] = 0;
  }

  static void read(TimedState& state, std::size_t place, std::int64_t end) {
    state.free_at[place] = state.read_until[place] = std::max(state.read_until[place], end);
  }
  void make(TimedState& state, std::size_t place, std::int64_t end) const {
    if ((state.resident >> place & 1U) != 0) {
      give_back(state, of_.device(place), std::max(state.read_until[place], end), of_.size(place));
    }
    state.resident |= Places{1} << place;
    state.ready[place] = state.read_until[place] = state.free_at[place] = end;
  }

  void add(const Draft& draft, std::int64_t starts) {
    TimedMove move = draft.move;
    TimedState next = state_;
    move.end = starts + draft.lasts;
    release(next, move.released);
    next.idle[draft.stream] = move.end;
    next.last_start[draft.device.index()] = starts;
    next.end = std::max(next.end, move.end);
    // Whatever the step does not touch can be released by it.
    for_each_place(next.resident & ~of_.home(), [&](std::size_t place) {
      std::int64_t& free_at = next.free_at[place];
      free_at = std::min(free_at, std::max(next.read_until[place], move.end));
    });
    if (move.step.is_copy()) {
      next.energy += copy_cost(of_.graph(), move.step.copied, move.step.device, move.step.to)->energy.count();
      read(next, instance_.place(move.step.copied, move.step.device), move.end);
      make(next, instance_.place(move.step.copied, move.step.to), move.end);
    } else {
      compute(next, draft, move.end);
    }
    if (of_.drops()) move.dropped = unread(next);
    release(next, move.dropped);
    std::erase_if(next.returns,
                  [&](const TimedReturn& back) { return back.time <= next.last_start[back.device.index()]; });
    std::ranges::sort(next.returns);
    visit_(move, std::move(next));
  }

  void compute(TimedState& next, const Draft& draft, std::int64_t end) const {
    const OpId v = draft.move.step.op;
    const DeviceId d = draft.device;
    const Op& op = instance_.op(v);
    const RunCost& run = *run_cost(of_.graph(), v, d);
    next.energy += run.energy.count();
    give_back(next, d, end, run.workspace.count());
    for (const TensorId t : op.inputs) read(next, instance_.place(t, d), end);
    for (const InPlace& pair : op.in_place) {
      const bool takes = (resident_after(draft.move.released) & of_.bit(pair.output, d)) == 0;
      if (takes && may_take(pair)) next.free_at[instance_.place(pair.input, d)] = kNoWay;
    }
    for (const TensorId t : op.outputs) {
      const std::size_t output = instance_.place(t, d);
      if (is_renewed(draft, of_.bit(t, d))) {
        make(next, output, end);
      } else {
        // Released by an earlier step it would be made here.
        next.free_at[output] = std::max(next.read_until[output], end);
      }
    }
    for (const InPlace& pair : op.in_place) {
      if ((draft.move.taken & of_.bit(pair.input, d)) == 0) continue;
      const std::size_t input = instance_.place(pair.input, d);
      give_back(
          next, d, end,
          (instance_.size(pair.input) - std::min(instance_.size(pair.output), instance_.size(pair.input))).count());
      forget(next, input);
    }
    const bool is_first = state_.count(v) == 0;
    next.counts += std::uint64_t{1} << (4 * v.index());
    if (is_first && of_.is_awaited(v)) next.first_end[v.index()] = end;
    if (!of_.keeps_order()) return;
    next.stage += is_first ? 1 : 0;
    next.latest = is_first ? -1 : rank(v, d);
  }

  /// Places that no step can read any more, and that need not be kept.
  [[nodiscard]] Places unread(const TimedState& state) const {
    Places places = 0;
    for_each_place(state.resident & ~of_.home(), [&](std::size_t place) {
      const TensorId t = of_.tensor(place);
      if (of_.graph().graph[t].keep || state.free_at[place] == kNoWay) return;
      const auto may_read = [&](OpId v) { return state.count(v) < instance_.most_runs(v); };
      if (std::ranges::none_of(instance_.readers(t), may_read)) places |= Places{1} << place;
    });
    return places;
  }

  const TimedInstance& of_;
  const Instance& instance_;
  const TimedState& state_;
  const Enough& enough_;
  const Visit& visit_;
  bool anything_held_;
  std::int64_t sets_ = 0;
  bool is_over_ = false;
};

}  // namespace

std::optional<std::int64_t> for_each_move(const TimedInstance& of, const TimedState& state,
                                          const std::function<bool(std::int64_t)>& enough,
                                          const std::function<void(const TimedMove&, TimedState&&)>& visit) {
  return MoveFinder(of, state, enough, visit).find();
}

}  // namespace remora::devices
