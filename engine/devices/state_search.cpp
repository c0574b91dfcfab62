// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/state_search.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/work.hpp"
#include "engine/devices/timed_state.hpp"

namespace remora::devices {
namespace {

/// So many bytes of states are kept, about.
constexpr std::size_t kMaxBytes = std::size_t{1} << 28U;

/// Sets of releases that are looked at, as much work as a state.
constexpr std::int64_t kSetsOfNode = 16;

/// A bit for each op that has run.
std::uint32_t ops_run(std::uint64_t counts) {
  std::uint32_t ops = 0;
  for (unsigned i = 0; counts >> (4 * i) != 0; ++i) {
    if ((counts >> (4 * i) & 15U) != 0) ops |= 1U << i;
    if (i == 15) break;
  }
  return ops;
}

/// The steps of a sequence of moves, each release with the step that it is dated back to: of those since the last use the one that ends
/// first.
class StepWriter {
 public:
  explicit StepWriter(const TimedInstance& of) : of_(of), uses_(of.place_count()) {}

  void add(const TimedMove& move, const TimedState& after) {
    release(move.released);
    steps_.push_back(move.step);
    ends_.push_back(move.end);
    const DeviceStep& step = move.step;
    if (step.is_copy()) {
      use(of_.bit(step.copied, step.device) | of_.bit(step.copied, step.to), after);
    } else {
      const Op& op = of_.instance().op(step.op);
      Places used = 0;
      for (const TensorId t : op.inputs) used |= of_.bit(t, step.device);
      for (const TensorId t : op.outputs) used |= of_.bit(t, step.device);
      use(used, after);
    }
    put(move.taken, steps_.size() - 1);
    release(move.dropped);
  }

  [[nodiscard]] std::vector<DeviceStep> steps() && { return std::move(steps_); }

 private:
  struct Use {
    std::size_t step = 0;
    /// That step cannot release it without a takeover.
    bool holds = false;
  };

  void use(Places places, const TimedState& after) {
    for_each_place(places, [&](std::size_t place) {
      uses_[place] = {steps_.size() - 1, (after.resident >> place & 1U) != 0 && after.free_at[place] == kNoWay};
    });
  }

  void release(Places places) {
    for_each_place(places, [&](std::size_t place) {
      const Use& last = uses_[place];
      const auto first = ends_.begin() + static_cast<std::ptrdiff_t>(last.step) + (last.holds ? 1 : 0);
      const auto step = static_cast<std::size_t>(std::min_element(first, ends_.end()) - ends_.begin());
      put(Places{1} << place, step);
    });
  }

  void put(Places places, std::size_t step) {
    for_each_place(places, [&](std::size_t place) {
      steps_[step].free.push_back({of_.tensor(place), of_.device(place)});
    });
  }

  const TimedInstance& of_;
  /// By place: the last step that reads or writes what is there.
  std::vector<Use> uses_;
  std::vector<DeviceStep> steps_;
  std::vector<std::int64_t> ends_;
};

}  // namespace

class StateSearch::Engine {
 public:
  Engine(const DeviceGraph& graph, const Problem& problem, std::function<bool()> interrupted)
      : instance_(graph, problem), of_(instance_), interrupted_(std::move(interrupted)) {
    const bool has_room =
        std::ranges::all_of(graph.devices.ids(), [&](DeviceId d) { return instance_.base(d) <= instance_.budget(d); });
    if (has_room) push({}, TimedState(of_), -1);
  }

  const CompleteOutcome& advance(std::int64_t nodes) {
    const std::int64_t end = plus(Work(outcome_.nodes), Work(nodes)).count();
    while (!outcome_.complete && !outcome_.exhausted) {
      if (open_.empty() || open_.top().cost >= below_) {
        outcome_.complete = true;
        break;
      }
      outcome_.least = open_.top().cost;
      if (is_over(end)) break;
      const Open next = open_.top();
      open_.pop();
      if (labels_[at(next.label)].state && !expand(next.label, end)) {
        open_.push(next);
        break;
      }
      outcome_.exhausted = bytes_ >= kMaxBytes;
    }
    return outcome_;
  }

  void require_below(std::int64_t cost) { below_ = std::min(below_, cost); }

 private:
  struct Label {
    TimedMove move{};
    std::int32_t before = -1;
    /// Nothing where another one is as good.
    std::optional<TimedState> state{};
  };
  /// In the order in which states are looked at: cheap ones first, of these such that lack few ops.
  struct Open {
    std::int64_t cost = 0;
    int missing = 0;
    std::int32_t label = 0;

    friend bool operator<(const Open& a, const Open& b) {
      if (a.cost != b.cost) return a.cost > b.cost;
      return a.missing != b.missing ? a.missing > b.missing : a.label > b.label;
    }
  };

  [[nodiscard]] bool is_over(std::int64_t end) const {
    return outcome_.nodes >= end || (interrupted_ && interrupted_());
  }

  /// False where that ended too early: what follows the state is looked at again.
  bool expand(std::int32_t label, std::int64_t end) {
    // A copy: what follows a state may be the reason to leave it out.
    const TimedState state = *labels_[at(label)].state;
    std::int64_t counted = 0;
    const auto count = [&](std::int64_t sets) {
      outcome_.nodes += (sets - std::exchange(counted, sets)) / kSetsOfNode;
    };
    const auto enough = [&](std::int64_t sets) {
      count(sets);
      return is_over(end);
    };
    ++outcome_.nodes;
    const auto sets = for_each_move(of_, state, enough, [&](const TimedMove& move, TimedState&& after) {
      ++outcome_.nodes;
      push(move, std::move(after), label);
    });
    if (sets) count(*sets);
    return sets.has_value();
  }

  /// In the objective's unit; nothing where a limit is broken.
  [[nodiscard]] std::optional<std::int64_t> least_cost(const TimedState& state) const {
    const TimedBound bound = bound_after(of_, state);
    const Problem& problem = instance_.problem();
    if (bound.duration == kNoWay) return std::nullopt;
    if (problem.duration_limit && bound.duration > problem.duration_limit->count()) return std::nullopt;
    if (problem.energy_limit && bound.energy > problem.energy_limit->count()) return std::nullopt;
    return problem.objective == Objective::duration ? bound.duration : bound.energy;
  }

  [[nodiscard]] bool is_done(const TimedState& state) const {
    const DeviceGraph& graph = of_.graph();
    return std::popcount(ops_run(state.counts)) == instance_.op_count() &&
           std::ranges::all_of(graph.places.ids(), [&](TensorId t) {
             if (!graph.graph[t].keep || !instance_.producer(t).valid()) return true;
             const auto& home = graph.places[t].home;
             return std::ranges::any_of(graph.devices.ids(), [&](DeviceId d) {
               return (state.resident & of_.bit(t, d)) != 0 && (home.empty() || home.front() == d);
             });
           });
  }

  void push(const TimedMove& move, TimedState state, std::int32_t before) {
    const std::optional<std::int64_t> cost = least_cost(state);
    if (!cost || *cost >= below_) return;
    const std::uint32_t ops = ops_run(state.counts);
    std::vector<std::int32_t>& alike = by_ops_[ops];
    for (const std::int32_t other : alike) {
      if (dominates(of_, *labels_[at(other)].state, state)) return;
    }
    std::erase_if(alike, [&](std::int32_t other) {
      Label& label = labels_[at(other)];
      if (!dominates(of_, state, *label.state)) return false;
      bytes_ -= size_of(*label.state);
      label.state.reset();
      return true;
    });
    const auto number = static_cast<std::int32_t>(labels_.size());
    const bool done = is_done(state);
    bytes_ += sizeof(Label) + sizeof(Open) + size_of(state);
    labels_.push_back({move, before, std::move(state)});
    if (done) {
      take(number, *cost);
      return;
    }
    alike.push_back(number);
    open_.push({*cost, instance_.op_count() - std::popcount(ops), number});
  }

  [[nodiscard]] static std::size_t size_of(const TimedState& state) {
    const std::size_t times =
        state.idle.size() + state.last_start.size() + 3 * state.ready.size() + state.first_end.size();
    return times * sizeof(std::int64_t) + state.returns.size() * sizeof(TimedReturn);
  }

  /// A schedule that costs so much, the least so far.
  void take(std::int32_t label, std::int64_t cost) {
    below_ = outcome_.cost = cost;
    std::vector<std::int32_t> path;
    for (; label >= 0; label = labels_[at(label)].before) path.push_back(label);
    TimedState before(of_);
    StepWriter writer(of_);
    for (std::size_t i = path.size() - 1; i-- > 0;) {
      // States that were left out are made again.
      std::optional<TimedState> after;
      const TimedMove& move = labels_[at(path[i])].move;
      const auto never = [](std::int64_t /*sets*/) { return false; };
      for_each_move(of_, before, never, [&](const TimedMove& other, TimedState&& then) {
        if (other == move) after = std::move(then);
      });
      writer.add(move, *after);
      before = *std::move(after);
    }
    outcome_.steps = std::move(writer).steps();
  }

  Instance instance_;
  TimedInstance of_;
  std::function<bool()> interrupted_;
  std::vector<Label> labels_;
  /// The undominated states, by the ops that have run.
  std::unordered_map<std::uint32_t, std::vector<std::int32_t>> by_ops_;
  std::priority_queue<Open> open_;
  std::size_t bytes_ = 0;
  std::int64_t below_ = kNoWay;
  CompleteOutcome outcome_;
};

bool StateSearch::fits(const DeviceGraph& graph, const Problem& problem) {
  return TimedInstance::fits(Instance(graph, problem));
}

StateSearch::StateSearch(const DeviceGraph& graph, const Problem& problem, std::function<bool()> interrupted)
    : engine_(std::make_unique<Engine>(graph, problem, std::move(interrupted))) {}
StateSearch::~StateSearch() = default;

const CompleteOutcome& StateSearch::advance(std::int64_t nodes) {
  return engine_->advance(nodes);
}

void StateSearch::require_below(std::int64_t cost) {
  engine_->require_below(cost);
}

}  // namespace remora::devices
