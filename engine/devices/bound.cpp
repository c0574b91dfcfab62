// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/bound/cover_mip.hpp"
#include "engine/bound/covering.hpp"
#include "engine/devices/state.hpp"

namespace remora::devices {
namespace {

/// The covering problem of one device (engine/bound/covering.hpp), of what certainly runs there.
class Covering {
 public:
  Covering(const Instance& instance, const State::Allowed& allowed, DeviceId device)
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
    // What it reads is counted with it, and may be held for others.
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

  /// Of the op's first run here, without anything given up. Unlimited devices have none.
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
    // What is copied out once may come in often.
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
  const State::Allowed& allowed_;
  DeviceId device_;
  Table<OpId, bool> certain_;
  CoverProblem problem_;
  /// By event: what gaps over it hold.
  std::vector<Bytes> held_;
};

}  // namespace

Cover cover_of(const Instance& instance, const State::Allowed& allowed) {
  Cover cover;
  if (instance.problem().order == OrderMode::free) return cover;
  for (const DeviceId d : instance.computing()) {
    if (!instance.problem().budget[d]) continue;
    const Covering covering(instance, allowed, d);
    for (const OpId v : instance.graph().runs.ids()) {
      if (!allowed(v, d)) continue;
      const Bytes excess = covering.least_excess(v);
      if (excess > Bytes(0)) cover.crowded.push_back({.op = v, .device = d, .needed = instance.budget(d) + excess});
    }
    CoverBoundResult ascent = covering_bound(covering.problem());
    // What cannot be covered is told above.
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

}  // namespace remora::devices
