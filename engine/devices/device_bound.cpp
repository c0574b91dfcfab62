// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "engine/devices/device_plan.hpp"
#include "engine/order/peak_bound.hpp"

namespace remora {
namespace {

/// An arc that cannot be cut, until what all others take together is known.
constexpr std::int64_t kWall = -1;
constexpr DeviceId kFirst(0);
constexpr DeviceId kSecond(1);

/// The runs of an op that have room.
std::vector<RunCost> possible_runs(const DeviceGraph& graph, const DeviceProblem& problem, OpId op) {
  std::vector<RunCost> runs;
  for (const RunCost& run : graph.runs[op]) {
    if (has_room(graph, problem, op, run)) runs.push_back(run);
  }
  return runs;
}

/// Of two devices.
class AssignmentCut {
 public:
  AssignmentCut(const DeviceGraph& graph, const DeviceProblem& problem) : graph_(graph), problem_(problem) {}

  struct Answer {
    std::int64_t value = 0;
    /// Something can be brought to no device where it is read.
    bool infeasible = false;
    Table<OpId, DeviceId> assignment{};
  };

  /// Nothing where sums might not fit.
  std::optional<Answer> solve() {
    const Table<TensorId, bool> produced = produced_tensors(graph_.graph);
    Table<TensorId, std::vector<OpId>> readers(graph_.graph.tensors.size());
    for (const OpId v : graph_.runs.ids()) {
      vertices_.push_back(cut_.add_vertex());
      for (const TensorId t : graph_.graph[v].inputs) readers[t].push_back(v);
    }
    for (const OpId v : graph_.runs.ids()) {
      std::int64_t on_first = kWall;
      std::int64_t on_second = kWall;
      for (const RunCost& run : possible_runs(graph_, problem_, v)) {
        (run.device == kFirst ? on_first : on_second) = price(problem_, run.duration, run.energy);
      }
      arcs_.push_back({MinimumCut::kSource, vertices_[v], on_second});
      arcs_.push_back({vertices_[v], MinimumCut::kSink, on_first});
      cross(v, readers, kFirst, kSecond);
      cross(v, readers, kSecond, kFirst);
    }
    for (const TensorId t : graph_.places.ids()) {
      if (!produced[t] && graph_.places[t].home.size() == 1) cross_input(t, readers[t]);
    }
    Wide sum = 0;
    Wide walls = 1;
    for (const CutArc& arc : arcs_) (arc.amount == kWall ? walls : sum) += arc.amount == kWall ? 1 : arc.amount;
    // However many walls a cut goes through, it is a number.
    if ((sum + 1) * walls >= MinimumCut::kUncut) return std::nullopt;
    const auto wall = static_cast<std::int64_t>(sum) + 1;
    for (const CutArc& arc : arcs_) cut_.add_arc(arc.from, arc.to, arc.amount == kWall ? wall : arc.amount);
    Answer answer{.value = cut_.solve()};
    answer.infeasible = answer.value >= wall;
    for (const OpId v : graph_.runs.ids()) {
      answer.assignment.push_back(cut_.with_source(vertices_[v]) ? kFirst : kSecond);
    }
    return answer;
  }

 private:
  struct CutArc {
    int from = 0;
    int to = 0;
    std::int64_t amount = 0;
  };

  /// Of two prices, the wall being none.
  static std::int64_t cheaper(std::int64_t a, std::int64_t b) {
    if (a == kWall || b == kWall) return a == kWall ? b : a;
    return std::min(a, b);
  }

  [[nodiscard]] std::int64_t copy_price(TensorId t, DeviceId from, DeviceId to) const {
    const auto copy = copy_cost(graph_, t, from, to);
    return copy ? price(problem_, copy->duration, copy->energy) : kWall;
  }

  /// Pays `amount` if the producer is at `from` and any reader at `to`. (An arc is cut from the source's side.)
  void pay(int producer, const std::vector<int>& readers, DeviceId from, std::int64_t amount) {
    if (readers.empty()) return;
    const int middle = cut_.add_vertex();
    if (from == kFirst) {
      arcs_.push_back({producer, middle, amount});
      for (const int reader : readers) arcs_.push_back({middle, reader, kWall});
    } else {
      for (const int reader : readers) arcs_.push_back({reader, middle, kWall});
      arcs_.push_back({middle, producer, amount});
    }
  }

  void cross(OpId v, const Table<TensorId, std::vector<OpId>>& readers, DeviceId from, DeviceId to) {
    std::int64_t amount = kWall;
    std::vector<int> reading;
    for (const TensorId t : graph_.graph[v].outputs) {
      amount = cheaper(amount, copy_price(t, from, to));
      for (const OpId reader : readers[t]) reading.push_back(vertices_[reader]);
      const auto& home = graph_.places[t].home;
      const bool kept_there = graph_.graph[t].keep && !home.empty() && home.front() == to;
      if (kept_there) reading.push_back(to == kFirst ? MinimumCut::kSource : MinimumCut::kSink);
    }
    const RunCost* const run = run_cost(graph_, v, to);
    if (run != nullptr && most_runs(graph_, problem_, v) > 1) {
      amount = cheaper(amount, price(problem_, run->duration, run->energy));
    }
    pay(vertices_[v], reading, from, amount);
  }

  void cross_input(TensorId t, const std::vector<OpId>& readers) {
    const DeviceId home = graph_.places[t].home.front();
    std::vector<int> reading;
    reading.reserve(readers.size());
    for (const OpId reader : readers) reading.push_back(vertices_[reader]);
    const DeviceId other = home == kFirst ? kSecond : kFirst;
    pay(home == kFirst ? MinimumCut::kSource : MinimumCut::kSink, reading, home, copy_price(t, home, other));
  }

  const DeviceGraph& graph_;
  const DeviceProblem& problem_;
  MinimumCut cut_;
  Table<OpId, int> vertices_;
  std::vector<CutArc> arcs_;
};

/// Why what is always on a device does not fit; empty if it does.
std::string fixed_excess(const DeviceGraph& graph, const DeviceProblem& problem) {
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

int most_runs(const DeviceGraph& graph, const DeviceProblem& problem, OpId op) {
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

bool has_room(const DeviceGraph& graph, const DeviceProblem& problem, OpId op, const RunCost& run) {
  if (!problem.budget[run.device]) return true;
  const Table<TensorId, bool> produced = produced_tensors(graph.graph);
  Bytes needed = base_memory(graph)[run.device] + run.workspace;
  std::vector<TensorId> inputs = graph.graph[op].inputs;
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  for (const TensorId t : inputs) {
    const auto& home = graph.places[t].home;
    const bool counted = !produced[t] && std::find(home.begin(), home.end(), run.device) != home.end();
    if (!counted) needed += graph.graph[t].size;
  }
  for (const TensorId t : graph.graph[op].outputs) needed += graph.graph[t].size;
  for (const InPlace& pair : graph.graph[op].in_place) {
    if (produced[pair.input]) needed -= std::min(graph.graph[pair.output].size, graph.graph[pair.input].size);
  }
  return needed <= *problem.budget[run.device];
}

DeviceBound device_bound(const DeviceGraph& graph, const DeviceProblem& problem) {
  DeviceBound bound{.infeasible = fixed_excess(graph, problem)};
  for (const OpId v : graph.runs.ids()) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    DeviceId cheapest;
    for (const RunCost& run : possible_runs(graph, problem, v)) {
      const std::int64_t here = price(problem, run.duration, run.energy);
      if (here >= least) continue;
      least = here;
      cheapest = run.device;
    }
    if (!cheapest.valid() && bound.infeasible.empty()) {
      bound.infeasible = "the op " + graph.graph[v].name + " has room on no device";
    }
    if (!bound.infeasible.empty()) return bound;
    bound.least += least;
    bound.assignment.push_back(cheapest);
  }
  if (graph.devices.size() != 2) return bound;
  auto cut = AssignmentCut(graph, problem).solve();
  if (!cut) return bound;
  if (cut->infeasible) {
    bound.infeasible = "something can be brought to no device where it is read or kept";
    return bound;
  }
  bound.least = std::max(bound.least, cut->value);
  bound.assignment = std::move(cut->assignment);
  return bound;
}

}  // namespace remora
