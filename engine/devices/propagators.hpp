// SPDX-License-Identifier: Apache-2.0
//
// The Gecode space of the exact search over several devices (tree_search.hpp), and its propagators.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gecode/int.hh>

#include "engine/devices/remaining.hpp"

namespace remora::devices {

/// Data shared by all spaces of one search.
struct Context {
  Context(const DeviceGraph& graph, const Problem& problem) : instance(graph, problem) {}

  struct Reached {
    std::int64_t cost = 0;
    /// Limit of the quantity that is not minimised.
    std::int64_t other = 0;
  };

  Instance instance;
  /// Solutions must cost less.
  std::int64_t below = kNoWay;
  std::unordered_map<std::string, std::vector<Reached>> reached{};
  std::size_t key_bytes = 0;

  [[nodiscard]] Reached spent(const State& state) const {
    const Problem& problem = instance.problem();
    const std::int64_t cost = price(problem, state.duration(), state.energy());
    if (problem.objective == Objective::duration) return {cost, problem.energy_limit ? state.energy().count() : 0};
    return {cost, problem.duration_limit ? state.duration().count() : 0};
  }

  /// True if the state has been reached before at no more cost; if not, it is remembered.
  bool was_reached(const State& state) {
    const Reached now = spent(state);
    std::string key = state.key(false);
    if (covers(key, now)) return true;
    if (state.anything_due()) {
      key = state.key(true);
      if (covers(key, now)) return true;
    }
    key_bytes += key.size() + 2 * sizeof(Reached) + 8 * sizeof(void*);
    std::vector<Reached>& entries = reached[std::move(key)];
    std::erase_if(entries, [&](const Reached& entry) { return now.cost <= entry.cost && now.other <= entry.other; });
    entries.push_back(now);
    return false;
  }

 private:
  [[nodiscard]] bool covers(const std::string& key, const Reached& now) const {
    const auto found = reached.find(key);
    return found != reached.end() && std::any_of(found->second.begin(), found->second.end(), [&](const Reached& entry) {
             return entry.cost <= now.cost && entry.other <= now.other;
           });
  }
};

/// The moves so far, the last one first; shared by all spaces that go on from there.
struct MoveList {
  Move move{};
  std::shared_ptr<const MoveList> before{};
};

class Space : public Gecode::Space {
 public:
  explicit Space(Context& context);
  Space(Space& other)
      : Gecode::Space(other), context_(other.context_), state_(other.state_), path_(other.path_), least_(other.least_) {
    devices_.update(*this, other.devices_);
    moves_.update(*this, other.moves_);
  }

  Gecode::Space* copy() override { return new Space(*this); }

  void constrain(const Gecode::Space& best) override {
    const auto& solution = static_cast<const Space&>(best);
    context_->below = std::min(context_->below, context_->spent(solution.state_).cost);
    if (!failed() && !moved()) fail();
  }

  /// Propagators look at the space again.
  [[nodiscard]] bool moved() {
    Gecode::Int::IntView moves(moves_);
    return !Gecode::me_failed(moves.gq(*this, moves.min() + 1));
  }

  [[nodiscard]] Context& context() const { return *context_; }
  [[nodiscard]] State& state() { return state_; }
  [[nodiscard]] const State& state() const { return state_; }
  void add(const Move& move) { path_ = std::make_shared<const MoveList>(MoveList{move, path_}); }
  [[nodiscard]] const MoveList* path() const { return path_.get(); }

  /// Lower bound on the cost of the rest, as far as known.
  [[nodiscard]] std::int64_t least() const { return least_; }
  void raise_least(std::int64_t least) { least_ = least; }

 private:
  Context* context_;
  Gecode::IntVarArray devices_;
  Gecode::IntVar moves_;
  State state_;
  std::shared_ptr<const MoveList> path_;
  std::int64_t least_ = 0;
};

/// Common base of the propagators over the devices of first runs; `Derived` adds propagate().
template <class Derived, class Data>
class FirstRuns : public Gecode::NaryOnePropagator<Gecode::Int::IntView, Gecode::Int::PC_INT_DOM> {
 public:
  static Gecode::ExecStatus post(Gecode::Home home, Gecode::ViewArray<Gecode::Int::IntView>& views,
                                 Gecode::Int::IntView moves, Data data) {
    (void)new (home) Derived(home, views, moves, data);
    return Gecode::ES_OK;
  }
  FirstRuns(Gecode::Home home, Gecode::ViewArray<Gecode::Int::IntView>& views, Gecode::Int::IntView moves, Data of)
      : NaryOnePropagator(home, views, moves), data(of) {}
  FirstRuns(Gecode::Space& home, FirstRuns& other) : NaryOnePropagator(home, other), data(other.data) {}

  Gecode::Actor* copy(Gecode::Space& home) override { return new (home) Derived(home, static_cast<Derived&>(*this)); }

 protected:
  [[nodiscard]] Allowed allowed() const {
    return [this](OpId v, DeviceId d) { return x[v].in(static_cast<int>(d)); };
  }

  Data data;
};

struct Nothing {};

class AssignmentCost : public FirstRuns<AssignmentCost, Nothing> {
 public:
  using FirstRuns::FirstRuns;

  Gecode::PropCost cost(const Gecode::Space&, const Gecode::ModEventDelta&) const override {
    return Gecode::PropCost::quadratic(Gecode::PropCost::HI, x.size());
  }

  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta&) override {
    auto& space = static_cast<Space&>(home);
    const Context& context = space.context();
    const Instance& instance = context.instance;
    const State& state = space.state();
    const Problem& problem = instance.problem();
    const std::int64_t spent = context.spent(state).cost;
    if (spent >= context.below || breaks_limit(instance, state)) return Gecode::ES_FAILED;
    if (state.releasing()) return Gecode::ES_NOFIX;
    const std::int64_t least = remaining_cost(instance, state, allowed(), context.below - spent).least;
    if (least >= context.below - spent) return Gecode::ES_FAILED;
    const auto& own =
        problem.objective == Objective::duration ? duration_left(problem, state) : energy_left(problem, state);
    if (own && least > *own) return Gecode::ES_FAILED;
    space.raise_least(least);
    return Gecode::ES_NOFIX;
  }

 private:
  static std::optional<std::int64_t> duration_left(const Problem& problem, const State& state) {
    if (!problem.duration_limit) return std::nullopt;
    return (*problem.duration_limit - state.duration()).count();
  }
  static std::optional<std::int64_t> energy_left(const Problem& problem, const State& state) {
    if (!problem.energy_limit) return std::nullopt;
    return (*problem.energy_limit - state.energy()).count();
  }

  /// By the least that first runs alone still take.
  [[nodiscard]] bool breaks_limit(const Instance& instance, const State& state) const {
    const auto duration = duration_left(instance.problem(), state);
    const auto energy = energy_left(instance.problem(), state);
    if (!duration && !energy) return false;
    Duration durations;
    Energy energies;
    for (int v = 0; v < x.size(); ++v) {
      if (state.runs(OpId(v)) > 0) continue;
      Duration shortest = Duration::max();
      Energy least = Energy::max();
      for (const RunCost& run : instance.graph().runs[OpId(v)]) {
        if (!x[v].in(static_cast<int>(run.device))) continue;
        shortest = std::min(shortest, run.duration);
        least = std::min(least, run.energy);
      }
      durations += shortest;
      energies += least;
    }
    return (duration && durations.count() > *duration) || (energy && energies.count() > *energy);
  }
};

/// In input order. At the first run of an op on the device, with the op's own memory: what is there now and is read there
/// later stays, or comes back, by a copy or another run of its producer. That was not counted by remaining_cost, which takes
/// what is there for granted. So the cheapest way to make room adds to it: a fractional knapsack.
class Memory : public FirstRuns<Memory, DeviceId> {
 public:
  using FirstRuns::FirstRuns;

  /// After AssignmentCost, whose bound it adds to.
  Gecode::PropCost cost(const Gecode::Space&, const Gecode::ModEventDelta&) const override {
    return Gecode::PropCost::cubic(Gecode::PropCost::HI, x.size());
  }

  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta&) override {
    auto& space = static_cast<Space&>(home);
    const Context& context = space.context();
    const Instance& instance = context.instance;
    const State& state = space.state();
    if (!instance.problem().budget[data] || instance.problem().order == OrderMode::free) return Gecode::ES_NOFIX;
    const std::int64_t slack = sum_below(context.below, context.spent(state).cost + space.least());
    const std::vector<Held> held = held_by(instance, state);
    const int end = std::min<int>(x.size(), state.next() + kEventsAhead);
    for (int event = state.next(); event < end; ++event) {
      if (!x[event].in(static_cast<int>(data)) || relief(instance, held, OpId(event)) < slack) continue;
      GECODE_ME_CHECK(x[event].nq(home, static_cast<int>(data)));
    }
    return Gecode::ES_NOFIX;
  }

 private:
  /// First runs ahead that are looked at.
  static constexpr int kEventsAhead = 16;

  /// Tensors on the device, the minimum price of evicting each, and the last first run that certainly reads it there.
  struct Held {
    TensorId tensor{};
    std::int64_t price = kNoWay;
    OpId last_certain{};
  };

  static std::int64_t sum_below(std::int64_t below, std::int64_t spent) {
    return below == kNoWay ? kNoWay : below - spent;
  }

  [[nodiscard]] std::vector<Held> held_by(const Instance& instance, const State& state) const {
    std::vector<Held> result;
    const DeviceGraph& graph = instance.graph();
    for (const TensorId t : graph.places.ids()) {
      if (!state.resident(instance.place(t, data)) || instance.at_home(t, data)) continue;
      Held held{.tensor = t};
      for (const OpId reader : instance.readers(t)) {
        if (state.runs(reader) == 0 && x[reader].assigned() && x[reader].val() == data) held.last_certain = reader;
      }
      if (instance.kept_at(t, data)) held.last_certain = OpId(x.size());
      if (!held.last_certain.valid()) continue;
      held.price = price_of_return(instance, state, t);
      result.push_back(held);
    }
    return result;
  }

  /// None for what remaining_cost may have counted with another output of the same op.
  [[nodiscard]] std::int64_t price_of_return(const Instance& instance, const State& state, TensorId t) const {
    const OpId producer = instance.producer(t);
    const bool again = producer.valid() && state.runs(producer) < instance.most_runs(producer) &&
                       instance.run_price(producer, data) != kNoWay;
    const bool may_return = elsewhere(instance, state, t) || instance.leaves(t, data);
    const std::int64_t copy = may_return ? instance.copy_price(t, data) : kNoWay;
    if (!again) return copy;
    const bool alone = instance.op(producer).outputs.size() == 1;
    return alone ? std::min(copy, instance.run_price(producer, data)) : 0;
  }

  [[nodiscard]] bool elsewhere(const Instance& instance, const State& state, TensorId t) const {
    const OpId producer = instance.producer(t);
    if (!producer.valid() || state.runs(producer) < instance.most_runs(producer)) return true;
    const auto devices = instance.graph().devices.ids();
    return std::any_of(devices.begin(), devices.end(),
                       [&](DeviceId d) { return d != data && state.resident(instance.place(t, d)); });
  }

  /// The least price of room for the op's first run here; kNoWay if there is none to be had.
  [[nodiscard]] std::int64_t relief(const Instance& instance, const std::vector<Held>& all, OpId event) const {
    const Op& op = instance.op(event);
    Bytes needed = instance.footprint(event, *run_cost(instance.graph(), event, data)) - instance.budget(data);
    std::vector<const Held*> offers;
    for (const Held& held : all) {
      if (held.last_certain <= event || reads(op, held.tensor)) continue;
      needed += instance.size(held.tensor);
      if (held.price != kNoWay) offers.push_back(&held);
    }
    const auto cheaper = [&](const Held* a, const Held* b) {
      return Wide{a->price} * instance.size(b->tensor).count() < Wide{b->price} * instance.size(a->tensor).count();
    };
    std::sort(offers.begin(), offers.end(), cheaper);
    std::int64_t price = 0;
    for (const Held* held : offers) {
      if (needed <= Bytes(0)) return price;
      const Bytes size = instance.size(held->tensor);
      if (size == Bytes(0)) continue;
      const Wide part = Wide{held->price} * std::min(size, needed).count();
      price += static_cast<std::int64_t>((part + size.count() - 1) / size.count());
      needed -= size;
    }
    return needed <= Bytes(0) ? price : kNoWay;
  }
};

}  // namespace remora::devices
