// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "engine/devices/state.hpp"
#include "engine/order/peak_bound.hpp"

namespace remora::devices {
namespace {

/// An arc that cannot be cut, until what all others take together is known.
constexpr std::int64_t kWall = kNoWay;

/// Something that has to be brought to a device if certain ops read it there.
struct Entry {
  /// The producer where its first run is still to come, or none.
  OpId producer{};
  DeviceId to{};
  std::int64_t price = kNoWay;
  /// Ops whose first run is still to come.
  std::vector<OpId> readers{};
  /// It must be there at the end.
  bool kept = false;
};

/// All entries that a state leaves open: what is on a device once it is there counts no further, whatever memory says.
class OpenEntries {
 public:
  OpenEntries(const Instance& instance, const State& state) : instance_(instance), state_(state) {}

  /// Nothing if something that is needed is nowhere and cannot be made again.
  std::optional<std::vector<Entry>> collect() {
    const DeviceGraph& graph = instance_.graph();
    for (const TensorId t : graph.places.ids()) {
      if (!instance_.producer(t).valid()) add_tensor(t);
      if (is_lost(t)) return std::nullopt;
    }
    for (const OpId v : graph.runs.ids()) add_outputs(v);
    return std::move(entries_);
  }

 private:
  [[nodiscard]] bool there(TensorId t, DeviceId d) const { return state_.resident(instance_.place(t, d)); }

  [[nodiscard]] std::vector<OpId> open_readers(TensorId t) const {
    std::vector<OpId> open;
    for (const OpId v : instance_.readers(t)) {
      if (state_.runs(v) == 0) open.push_back(v);
    }
    return open;
  }

  [[nodiscard]] bool is_lost(TensorId t) const {
    const OpId producer = instance_.producer(t);
    if (!producer.valid() || state_.runs(producer) < instance_.most_runs(producer)) return false;
    if (!instance_.graph().graph[t].keep && open_readers(t).empty()) return false;
    const auto devices = instance_.graph().devices.ids();
    return std::none_of(devices.begin(), devices.end(), [&](DeviceId d) { return there(t, d); });
  }

  /// An entry of its own on each device.
  void add_tensor(TensorId t) {
    for (const DeviceId d : instance_.graph().devices.ids()) add_tensor(t, OpId::none(), d);
  }

  void add_tensor(TensorId t, OpId producer, DeviceId d) {
    if (there(t, d)) return;
    Entry entry{producer, d, instance_.copy_price(t, d), open_readers(t), instance_.kept_at(t, d)};
    if (entry.kept || !entry.readers.empty()) entries_.push_back(std::move(entry));
  }

  /// A run brings all outputs at once; without one each has to be copied.
  void add_outputs(OpId v) {
    const bool has_run = state_.runs(v) > 0;
    const OpId open = has_run ? OpId::none() : v;
    const bool again = std::max(1, state_.runs(v)) < instance_.most_runs(v);
    for (const DeviceId d : instance_.graph().devices.ids()) {
      const std::int64_t run = again ? instance_.run_price(v, d) : kNoWay;
      if (run == kNoWay) {
        for (const TensorId t : instance_.op(v).outputs) add_tensor(t, open, d);
        continue;
      }
      Entry entry{open, d, run};
      for (const TensorId t : instance_.op(v).outputs) {
        if (there(t, d)) continue;
        const std::vector<OpId> readers = open_readers(t);
        if (readers.empty() && !instance_.kept_at(t, d)) continue;
        entry.price = std::min(entry.price, instance_.copy_price(t, d));
        entry.readers.insert(entry.readers.end(), readers.begin(), readers.end());
        entry.kept = entry.kept || instance_.kept_at(t, d);
      }
      if (entry.kept || !entry.readers.empty()) entries_.push_back(std::move(entry));
    }
  }

  const Instance& instance_;
  const State& state_;
  std::vector<Entry> entries_;
};

std::int64_t sum_of(std::int64_t a, std::int64_t b) {
  return a == kNoWay || b == kNoWay ? kNoWay : a + b;
}

/// Each first run on its cheapest device, and the entries that no choice of devices avoids.
RemainingCost cheapest_devices(const Instance& instance, const State& state, const State::Allowed& allowed,
                               const std::vector<Entry>& entries) {
  RemainingCost cost{.assignment = Table<OpId, DeviceId>(instance.op_count())};
  Table<OpId, int> choices(instance.op_count(), 0);
  for (const OpId v : cost.assignment.ids()) {
    if (state.runs(v) > 0) continue;
    std::int64_t least = kNoWay;
    for (const RunCost& run : instance.graph().runs[v]) {
      if (!allowed(v, run.device)) continue;
      ++choices[v];
      const std::int64_t here = instance.run_price(v, run.device);
      if (here >= least) continue;
      least = here;
      cost.assignment[v] = run.device;
    }
    cost.least = sum_of(cost.least, least);
  }
  for (const Entry& entry : entries) {
    const bool certain = entry.kept || std::any_of(entry.readers.begin(), entry.readers.end(), [&](OpId v) {
                           return choices[v] == 1 && cost.assignment[v] == entry.to;
                         });
    const bool elsewhere = !entry.producer.valid() || !allowed(entry.producer, entry.to);
    if (certain && elsewhere) cost.least = sum_of(cost.least, entry.price);
  }
  return cost;
}

/// Of two computing devices.
class AssignmentCut {
 public:
  AssignmentCut(const Instance& instance, const State& state, const State::Allowed& allowed)
      : instance_(instance), state_(state), allowed_(allowed), vertices_(instance.op_count(), 0) {}

  /// Nothing where sums might not fit.
  std::optional<RemainingCost> solve(const std::vector<Entry>& entries) {
    const std::array<DeviceId, 2> devices{instance_.computing()[0], instance_.computing()[1]};
    for (const OpId v : vertices_.ids()) {
      if (state_.runs(v) > 0) continue;
      vertices_[v] = cut_.add_vertex();
      arcs_.push_back({MinimumCut::kSource, vertices_[v], price_on(v, devices[1])});
      arcs_.push_back({vertices_[v], MinimumCut::kSink, price_on(v, devices[0])});
    }
    std::int64_t elsewhere = 0;
    for (const Entry& entry : entries) {
      if (entry.to == devices[0]) add(entry, MinimumCut::kSource, MinimumCut::kSink);
      if (entry.to == devices[1]) add(entry, MinimumCut::kSink, MinimumCut::kSource);
      const bool to_store = entry.to != devices[0] && entry.to != devices[1];
      if (to_store && entry.kept) elsewhere = sum_of(elsewhere, entry.price);
    }
    Wide sum = 0;
    Wide walls = 1;
    for (const CutArc& arc : arcs_) (arc.amount == kWall ? walls : sum) += arc.amount == kWall ? 1 : arc.amount;
    // However many walls a cut goes through, it is a number.
    if ((sum + 1) * walls >= MinimumCut::kUncut) return std::nullopt;
    const auto wall = static_cast<std::int64_t>(sum) + 1;
    for (const CutArc& arc : arcs_) cut_.add_arc(arc.from, arc.to, arc.amount == kWall ? wall : arc.amount);
    const std::int64_t value = cut_.solve();
    RemainingCost cost{.least = value >= wall ? kNoWay : sum_of(value, elsewhere),
                       .assignment = Table<OpId, DeviceId>(instance_.op_count())};
    for (const OpId v : vertices_.ids()) {
      if (vertices_[v] != 0) cost.assignment[v] = cut_.with_source(vertices_[v]) ? devices[0] : devices[1];
    }
    return cost;
  }

 private:
  struct CutArc {
    int from = 0;
    int to = 0;
    std::int64_t amount = 0;
  };

  [[nodiscard]] std::int64_t price_on(OpId v, DeviceId d) const {
    return allowed_(v, d) ? instance_.run_price(v, d) : kWall;
  }

  /// Pays if the producer is on the other side, `from`, and any reader on the entry's, `to`. (An arc is cut from the
  /// source's side.)
  void add(const Entry& entry, int to, int from) {
    const int producer = entry.producer.valid() ? vertices_[entry.producer] : from;
    const int middle = cut_.add_vertex();
    const auto join = [&](int a, int b, std::int64_t amount) {
      if (from == MinimumCut::kSource) {
        arcs_.push_back({a, b, amount});
      } else {
        arcs_.push_back({b, a, amount});
      }
    };
    join(producer, middle, entry.price);
    for (const OpId reader : entry.readers) join(middle, vertices_[reader], kWall);
    if (entry.kept) join(middle, to, kWall);
  }

  const Instance& instance_;
  const State& state_;
  const State::Allowed& allowed_;
  MinimumCut cut_;
  /// 0 for ops that have run.
  Table<OpId, int> vertices_;
  std::vector<CutArc> arcs_;
};

/// On which devices ops have room.
class Rooms {
 public:
  explicit Rooms(const Instance& instance) : instance_(instance), needed_(instance.op_count()) {
    for (const OpId v : needed_.ids()) {
      for (const RunCost& run : instance.graph().runs[v]) needed_[v].push_back(instance.footprint(v, run));
      dear_.emplace_back(needed_[v].size(), false);
    }
  }

  [[nodiscard]] State::Allowed allowed() const {
    return [this](OpId v, DeviceId d) {
      const auto& runs = instance_.graph().runs[v];
      for (std::size_t i = 0; i < runs.size(); ++i) {
        if (runs[i].device == d) return is_open(v, i);
      }
      return false;
    };
  }

  /// Ops that may run on several devices keep those on which a schedule may cost less than `below`, the assignment's among
  /// them. Whether that changed anything.
  bool rule_out_dear(const Table<OpId, DeviceId>& assignment, std::int64_t extra, std::int64_t below,
                     const std::function<bool()>& interrupted) {
    const State start(instance_);
    bool changed = false;
    for (const OpId v : needed_.ids()) {
      const auto& runs = instance_.graph().runs[v];
      for (std::size_t i = 0; i < runs.size() && runs.size() > 1; ++i) {
        if (runs[i].device == assignment[v] || !is_open(v, i)) continue;
        if (interrupted && interrupted()) return changed;
        const auto all = allowed();
        const auto here = [&](OpId op, DeviceId d) { return all(op, d) && (op != v || d == runs[i].device); };
        const std::int64_t least = remaining_cost(instance_, start, here, below).least;
        if (least < below - extra) continue;
        dear_[v][i] = true;
        changed = true;
      }
    }
    return changed;
  }

  /// Whether that is new of any.
  bool rule_out(const Cover& cover) {
    for (const auto& [op, device, needed] : cover.crowded) {
      const auto& runs = instance_.graph().runs[op];
      for (std::size_t i = 0; i < runs.size(); ++i) {
        if (runs[i].device == device) needed_[op][i] = std::max(needed_[op][i], needed);
      }
    }
    return !cover.crowded.empty();
  }

  /// Which op has no room anywhere, and what it needs; empty if none.
  [[nodiscard]] std::string missing() const {
    for (const OpId v : needed_.ids()) {
      const auto& runs = instance_.graph().runs[v];
      std::string why;
      bool anywhere = false;
      for (std::size_t i = 0; i < runs.size(); ++i) {
        const DeviceId d = runs[i].device;
        anywhere = anywhere || is_open(v, i);
        why += (i == 0 ? ": " : ", ") + instance_.graph().devices[d].name + " would hold " +
               std::to_string(needed_[v][i].count()) + " bytes of " + std::to_string(instance_.budget(d).count());
      }
      if (!anywhere) return "the op " + instance_.op(v).name + " has room on no device" + why;
    }
    return "";
  }

 private:
  [[nodiscard]] bool is_open(OpId v, std::size_t run) const {
    return !dear_[v][run] && needed_[v][run] <= instance_.budget(instance_.graph().runs[v][run].device);
  }

  const Instance& instance_;
  /// By op and its runs: what the device must hold while the op runs there.
  Table<OpId, std::vector<Bytes>> needed_;
  /// By op and its runs: no schedule that is cheap enough has it there. A device may have no limit, so that no amount says so.
  Table<OpId, std::vector<bool>> dear_;
};

/// Why what is always on a device does not fit; empty if it does.
std::string fixed_excess(const DeviceGraph& graph, const Problem& problem) {
  Table<DeviceId, Bytes> needed = base_memory(graph);
  const Table<TensorId, bool> produced = produced_tensors(graph.graph);
  for (const TensorId t : graph.places.ids()) {
    const auto& home = graph.places[t].home;
    if (produced[t] && graph.graph[t].keep && !home.empty()) needed[home.front()] += graph.graph[t].size;
  }
  for (const DeviceId d : graph.devices.ids()) {
    if (!problem.budget[d] || needed[d] <= *problem.budget[d]) continue;
    return "device " + graph.devices[d].name + " needs " + std::to_string(needed[d].count()) +
           " bytes for what is always there or must be kept there";
  }
  return "";
}

}  // namespace

int most_runs(const DeviceGraph& graph, const Problem& problem, OpId op) {
  const Op& of = graph.graph[op];
  return of.recompute ? std::min(of.max_computes.value_or(problem.max_computes), problem.max_computes) : 1;
}

Table<DeviceId, Bytes> base_memory(const DeviceGraph& graph) {
  Table<DeviceId, Bytes> base;
  for (const Device& device : graph.devices) base.push_back(device.fixed_memory);
  const Table<TensorId, bool> produced = produced_tensors(graph.graph);
  for (const TensorId t : graph.places.ids()) {
    if (produced[t]) continue;
    for (const DeviceId d : graph.places[t].home) base[d] += graph.graph[t].size;
  }
  return base;
}

RemainingCost remaining_cost(const Instance& instance, const State& state, const State::Allowed& allowed,
                             std::int64_t enough) {
  const auto entries = OpenEntries(instance, state).collect();
  if (!entries) return {.least = kNoWay};
  RemainingCost cost = cheapest_devices(instance, state, allowed, *entries);
  if (cost.least >= enough || instance.computing().size() != 2) return cost;
  std::optional<RemainingCost> cut = AssignmentCut(instance, state, allowed).solve(*entries);
  return cut && cut->least >= cost.least ? *std::move(cut) : cost;
}

Bound bound_of(const DeviceGraph& graph, const Problem& problem) {
  Bound bound{.infeasible = fixed_excess(graph, problem)};
  if (!bound.infeasible.empty()) return bound;
  const Instance instance(graph, problem);
  Rooms rooms(instance);
  Cover cover;
  do {
    bound.infeasible = rooms.missing();
    if (!bound.infeasible.empty()) return bound;
    cover = cover_of(instance, rooms.allowed());
  } while (rooms.rule_out(cover));
  RemainingCost cost = remaining_cost(instance, State(instance), rooms.allowed());
  if (cost.least == kNoWay) {
    bound.infeasible = "something can be brought to no device where it is read or kept";
    return bound;
  }
  bound.least = cost.least + cover.extra;
  bound.assignment = std::move(cost.assignment);
  return bound;
}

std::int64_t bound_below(const DeviceGraph& graph, const Problem& problem, std::int64_t below,
                         const std::function<bool()>& interrupted) {
  const Instance instance(graph, problem);
  if (instance.computing().size() < 2 || problem.order == OrderMode::free) return 0;
  Rooms rooms(instance);
  const State start(instance);
  RemainingCost cost;
  std::int64_t extra = 0;
  std::int64_t least = 0;
  do {
    Cover cover = cover_of(instance, rooms.allowed());
    while (rooms.rule_out(cover)) cover = cover_of(instance, rooms.allowed());
    extra = std::max(extra, cover.extra);
    cost = remaining_cost(instance, start, rooms.allowed());
    least = std::max(least, cost.least >= below - extra ? below : cost.least + extra);
  } while (least < below && rooms.rule_out_dear(cost.assignment, extra, below, interrupted));
  return least;
}

}  // namespace remora::devices
