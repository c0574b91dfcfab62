// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/bound.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/bound/cover_mip.hpp"
#include "engine/bound/covering.hpp"
#include "engine/devices/remaining.hpp"

namespace remora::devices {

namespace {

/// The bound that memory adds, in input order: the covering relaxation (engine/bound/covering.hpp) on each device.
struct Cover {
  /// An op whose first run has no room on the device: so many bytes must be there, whatever is given up.
  struct Crowded {
    OpId op{};
    DeviceId device{};
    Bytes needed{};
  };
  std::vector<Crowded> crowded{};
  /// In the objective's unit: no schedule costs less than remaining_cost and this.
  std::int64_t extra = 0;
};

/// The covering problem of one device (engine/bound/covering.hpp), of what certainly runs there.
class Covering {
 public:
  Covering(const Instance& instance, const Allowed& allowed, DeviceId device)
      : instance_(instance), graph_(instance.graph()), allowed_(allowed), device_(device) {
    for (const OpId v : graph_.runs.ids()) certain_.push_back(is_certain(v));
    collect();
  }

  [[nodiscard]] const CoverProblem& problem() const { return problem_; }

  /// The bytes that must be on the device if the op's first run is there, whatever is given up, less the budget.
  [[nodiscard]] Bytes least_excess(OpId event) const {
    Bytes least = excess(event);
    for (const CoverItem& item : problem_.items) least -= item.gain(Stage{event});
    if (certain_[event]) return least;
    // Its inputs are counted with it, and may be resident for others.
    for (const TensorId t : instance_.op(event).inputs) {
      const std::vector<OpId> uses = certain_uses(t);
      if (!uses.empty() && uses.front() < event && uses.back() > event) least -= instance_.size(t);
    }
    return least;
  }

 private:
  [[nodiscard]] bool is_certain(OpId v) const {
    const auto& runs = graph_.runs[v];
    return allowed_(v, device_) && std::none_of(runs.begin(), runs.end(), [&](const RunCost& run) {
             return run.device != device_ && allowed_(v, run.device);
           });
  }

  /// Certain to be on the device at the first run of each of these; the end is one past the last op.
  [[nodiscard]] std::vector<OpId> certain_uses(TensorId t) const {
    std::vector<OpId> uses;
    if (instance_.at_home(t, device_)) return uses;
    const OpId producer = instance_.producer(t);
    if (producer.valid() && certain_[producer]) uses.push_back(producer);
    for (const OpId reader : instance_.readers(t)) {
      if (certain_[reader]) uses.push_back(reader);
    }
    if (instance_.kept_at(t, device_)) uses.emplace_back(instance_.op_count());
    return uses;
  }

  void collect() {
    held_.assign(at(instance_.op_count()) + 1, Bytes(0));
    // Inputs of the graph one by one, then what each op writes.
    for (const TensorId t : graph_.places.ids()) {
      if (!instance_.producer(t).valid()) add_items(OpId::none(), {t});
    }
    for (const OpId v : graph_.runs.ids()) {
      const auto& outputs = instance_.op(v).outputs;
      if (again(v) != kNoWay) {
        add_items(v, outputs);
      } else {
        for (const TensorId t : outputs) add_items(v, {t});
      }
    }
    Bytes here;
    for (Bytes& bytes : held_) bytes = here += bytes;
    for (const OpId v : graph_.runs.ids()) {
      problem_.excess.push_back(certain_[v] ? std::max(Bytes(0), excess(v)) : Bytes(0));
    }
    problem_.all_recomputes = Duration(kSaturated);
  }

  /// The excess at the op's first run here if nothing is given up. Unlimited devices have none.
  [[nodiscard]] Bytes excess(OpId v) const {
    const RunCost* const run = run_cost(graph_, v, device_);
    if (run == nullptr || !instance_.problem().budget[device_]) return Bytes(0);
    return instance_.footprint(v, *run) + held_[v.index()] - instance_.budget(device_);
  }

  [[nodiscard]] std::int64_t again(OpId v) const {
    return instance_.most_runs(v) > 1 ? instance_.run_price(v, device_) : kNoWay;
  }

  /// Overlapping gaps of these tensors, which one run brings back, as one item; a gap that nothing brings back is held.
  void add_items(OpId producer, const std::vector<TensorId>& tensors) {
    std::vector<Gap> gaps;
    std::int64_t in = kNoWay;
    std::int64_t out = kNoWay;
    for (const TensorId t : tensors) {
      const std::vector<OpId> uses = certain_uses(t);
      for (std::size_t i = 1; i < uses.size(); ++i) {
        if (uses[i] - uses[i - 1] > 1) gaps.push_back({Stage{uses[i - 1]} + 1, Stage{uses[i]} - 1, instance_.size(t)});
      }
      const std::int64_t leaving = price_of_leaving(t);
      if (leaving == kNoWay) continue;
      in = std::min(in, instance_.copy_price(t, device_));
      out = std::min(out, leaving);
    }
    if (gaps.empty()) return;
    for (const Gap& gap : gaps) {
      held_[at(gap.first)] += gap.size;
      held_[at(gap.last) + 1] -= gap.size;
    }
    std::sort(gaps.begin(), gaps.end(), [](const Gap& a, const Gap& b) { return a.first < b.first; });
    std::vector<CoverItem> items;
    for (const Gap& gap : gaps) {
      if (items.empty() || gap.first > last_of(items.back())) items.push_back({.op = producer});
      items.back().gaps.push_back(gap);
    }
    // A tensor that is copied out once may be copied in often.
    const auto count = static_cast<std::int64_t>(items.size());
    const std::int64_t paged = in == kNoWay || out == kNoWay ? kNoWay : in + out / count;
    const std::int64_t price = std::min(paged, producer.valid() ? again(producer) : kNoWay);
    if (price == kNoWay) return;
    for (CoverItem& item : items) {
      item.cost = Duration(price);
      // Copies are not limited.
      item.most_given_up = instance_.op_count() + 1;
      problem_.items.push_back(std::move(item));
    }
  }

  static Stage last_of(const CoverItem& item) {
    Stage last{-1};
    for (const Gap& gap : item.gaps) last = std::max(last, gap.last);
    return last;
  }

  /// The least that bringing the tensor anywhere else costs beyond what remaining_cost may count: nothing where it may be
  /// read, made or kept elsewhere or is at home there; kNoWay where it cannot leave.
  [[nodiscard]] std::int64_t price_of_leaving(TensorId t) const {
    std::int64_t least = kNoWay;
    for (const DeviceId e : graph_.devices.ids()) {
      if (e == device_) continue;
      if (instance_.at_home(t, e)) return 0;
      const OpId producer = instance_.producer(t);
      if (producer.valid() && run_cost(graph_, producer, e) != nullptr) return 0;
      const auto copy = copy_cost(graph_, t, device_, e);
      if (!copy) continue;
      const auto& computing = instance_.computing();
      const bool counted =
          std::find(computing.begin(), computing.end(), e) != computing.end() || instance_.kept_at(t, e);
      least = std::min(least, counted ? 0 : price(instance_.problem(), copy->duration, copy->energy));
    }
    return least;
  }

  const Instance& instance_;
  const DeviceGraph& graph_;
  const Allowed& allowed_;
  DeviceId device_;
  Table<OpId, bool> certain_;
  CoverProblem problem_;
  /// By event: what gaps over it hold.
  std::vector<Bytes> held_;
};

/// The events are the first runs that certainly are on the device, the gaps those between two of them that read a tensor. To give a
/// gap up costs another run of the producer or a copy in, whichever is cheaper; and a share of one copy out, where the tensor is
/// nowhere else by itself. remaining_cost has none of these: it pays for what comes to a device once.
///
///     runs on the device   A      B      C      D        a: made by A, read by C and D
///     a there              ####################          given up over B: back before C, for a price
///
/// The devices add up. Exact integers: dual ascent, and the duals of a linear program where there is CBC.
Cover cover_of(const Instance& instance, const Allowed& allowed, const std::function<bool()>& interrupted = {}) {
  Cover cover;
  if (instance.problem().order == OrderMode::free) return cover;
  for (const DeviceId d : instance.computing()) {
    if (!instance.problem().budget[d]) continue;
    if (interrupted && interrupted()) break;
    const Covering covering(instance, allowed, d);
    for (const OpId v : instance.graph().runs.ids()) {
      if (!allowed(v, d)) continue;
      const Bytes excess = covering.least_excess(v);
      if (excess > Bytes(0)) cover.crowded.push_back({.op = v, .device = d, .needed = instance.budget(d) + excess});
    }
    CoverBoundResult ascent = covering_bound(covering.problem());
    // Events that cannot be covered are reported above.
    if (ascent.infeasible) continue;
    std::int64_t extra = ascent.extra.count();
    if (extra > 0 && cover_mip_available()) {
      const CoverMipResult mip = solve_cover_mip(covering.problem(), {.nodes = 0});
      extra = std::max(extra, mip.priced.bound.count());
    }
    cover.extra += extra;
  }
  return cover;
}

/// On which devices ops have room.
class Rooms {
 public:
  explicit Rooms(const Instance& instance) : instance_(instance), needed_(instance.op_count()) {
    for (const OpId v : needed_.ids()) {
      for (const RunCost& run : instance.graph().runs[v]) needed_[v].push_back(instance.footprint(v, run));
      dear_.emplace_back(needed_[v].size(), false);
    }
  }

  [[nodiscard]] Allowed allowed() const {
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

  /// Returns true if any of them is new.
  bool rule_out(const Cover& cover) {
    for (const auto& [op, device, needed] : cover.crowded) {
      const auto& runs = instance_.graph().runs[op];
      for (std::size_t i = 0; i < runs.size(); ++i) {
        if (runs[i].device == device) needed_[op][i] = std::max(needed_[op][i], needed);
      }
    }
    return !cover.crowded.empty();
  }

  /// Which op has no room anywhere, and what it needs; no cause if none.
  [[nodiscard]] Refusal missing() const {
    for (const OpId v : needed_.ids()) {
      const auto& runs = instance_.graph().runs[v];
      Refusal refusal{.cause = Refusal::Cause::op, .op = v};
      for (std::size_t i = 0; i < runs.size() && !is_open(v, i); ++i) {
        const DeviceId d = runs[i].device;
        refusal.shortages.push_back({d, needed_[v][i], instance_.budget(d)});
        // Other tensors must be resident then.
        if (instance_.has_room(v, runs[i])) refusal.cause = Refusal::Cause::event;
      }
      if (refusal.shortages.size() == runs.size()) return refusal;
    }
    return {};
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

/// Why what is always on a device does not fit; no cause if it does.
Refusal fixed_excess(const DeviceGraph& graph, const Problem& problem) {
  Table<DeviceId, Bytes> needed = base_memory(graph);
  const Table<TensorId, bool> produced = produced_tensors(graph.graph);
  for (const TensorId t : graph.places.ids()) {
    const auto& home = graph.places[t].home;
    if (produced[t] && graph.graph[t].keep && !home.empty()) needed[home.front()] += graph.graph[t].size;
  }
  for (const DeviceId d : graph.devices.ids()) {
    if (!problem.budget[d] || needed[d] <= *problem.budget[d]) continue;
    return {.cause = Refusal::Cause::kept, .shortages = {{d, needed[d], *problem.budget[d]}}};
  }
  return {};
}

}  // namespace

Bound bound_of(const DeviceGraph& graph, const Problem& problem, const std::function<bool()>& interrupted) {
  Bound bound{.refusal = fixed_excess(graph, problem)};
  if (bound.is_infeasible()) return bound;
  const Instance instance(graph, problem);
  Rooms rooms(instance);
  Cover cover;
  do {
    bound.refusal = rooms.missing();
    if (bound.is_infeasible()) return bound;
    cover = cover_of(instance, rooms.allowed(), interrupted);
  } while (rooms.rule_out(cover));
  // Whatever is known without a cut is enough where there is no time for one.
  const std::int64_t enough = interrupted && interrupted() ? 0 : kNoWay;
  RemainingCost cost = remaining_cost(instance, State(instance), rooms.allowed(), enough);
  if (cost.least == kNoWay) {
    bound.refusal.cause = Refusal::Cause::no_way;
    return bound;
  }
  bound.least = cost.least + cover.extra;
  bound.assignment = std::move(cost.assignment);
  return bound;
}

std::string note_of(const DeviceGraph& graph, const Refusal& refusal) {
  if (refusal.cause == Refusal::Cause::no_way) return "something can be brought to no device where it is read or kept";
  if (refusal.shortages.empty()) return "every sequence of runs and copies was searched";
  const bool is_op = refusal.op.valid();
  std::string note = is_op ? "the op " + graph.graph[refusal.op].name + " has room on no device: " : "";
  for (const auto& [device, needed, budget] : refusal.shortages) {
    if (device != refusal.shortages.front().device) note += ", ";
    note += graph.devices[device].name + " needs at least " + std::to_string(needed.count()) +
            " bytes (a lower bound)" + (is_op ? "" : " for what is always resident or must be kept there") +
            " and has " + std::to_string(budget.count());
  }
  return note;
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
