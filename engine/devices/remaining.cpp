// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/remaining.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

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
RemainingCost cheapest_devices(const Instance& instance, const State& state, const Allowed& allowed,
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

/// The minimum cut between two computing devices.
class AssignmentCut {
 public:
  AssignmentCut(const Instance& instance, const State& state, const Allowed& allowed)
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
  const Allowed& allowed_;
  MinimumCut cut_;
  /// 0 for ops that have run.
  Table<OpId, int> vertices_;
  std::vector<CutArc> arcs_;
};

}  // namespace

RemainingCost remaining_cost(const Instance& instance, const State& state, const Allowed& allowed,
                             std::int64_t enough) {
  const auto entries = OpenEntries(instance, state).collect();
  if (!entries) return {.least = kNoWay};
  RemainingCost cost = cheapest_devices(instance, state, allowed, *entries);
  if (cost.least >= enough || instance.computing().size() != 2) return cost;
  std::optional<RemainingCost> cut = AssignmentCut(instance, state, allowed).solve(*entries);
  return cut && cut->least >= cost.least ? *std::move(cut) : cost;
}

}  // namespace remora::devices
