// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <tuple>

#include "model/devices/device_schedule.hpp"

namespace remora {
namespace {

constexpr std::size_t kErrorsShown = 20;

class DeviceReplay {
 public:
  DeviceReplay(const DeviceGraph& graph, const DeviceSchedule& schedule)
      : graph_(graph),
        schedule_(schedule),
        produced_(produced_tensors(graph.graph)),
        memory_(graph.devices.size()),
        computed_(graph.graph.ops.size(), 0) {
    for (const DeviceId d : graph.devices.ids()) memory_[d] = graph.devices[d].fixed_memory;
    for (const TensorId t : graph.places.ids()) {
      if (produced_[t]) continue;
      for (const DeviceId d : graph.places[t].home) {
        resident_.insert({t, d});
        memory_[d] += size(t);
      }
    }
    verdict_.peak = memory_;
    verdict_.peak_step.assign(graph.devices.size(), -1);
  }

  DeviceVerdict run() {
    for (step_ = 0; step_ < static_cast<int>(schedule_.steps.size()); ++step_) {
      const DeviceStep& step = schedule_.steps[static_cast<std::size_t>(step_)];
      here_ = "step " + std::to_string(step_) + ": ";
      if (!is_known(step)) {
        error("names an op, a tensor or a device that the graph does not have");
        continue;
      }
      const bool done = step.is_copy() ? copy(step) : compute(step);
      if (!done) continue;
      for (const Residence& residence : step.free) release(residence);
    }
    finish();
    return std::move(verdict_);
  }

 private:
  template <class Tag, class Rows>
  static bool is_one_of(Id<Tag> id, const Rows& rows) {
    return id.valid() && id.index() < rows.size();
  }

  [[nodiscard]] bool is_known(const DeviceStep& step) const {
    const bool free = std::all_of(step.free.begin(), step.free.end(), [&](const Residence& residence) {
      return is_one_of(residence.tensor, graph_.graph.tensors) && is_one_of(residence.device, graph_.devices);
    });
    if (!free || !is_one_of(step.device, graph_.devices)) return false;
    if (!step.is_copy()) return is_one_of(step.op, graph_.graph.ops);
    return is_one_of(step.copied, graph_.graph.tensors) && is_one_of(step.to, graph_.devices);
  }

  void error(const std::string& text) {
    if (verdict_.errors.size() < kErrorsShown) verdict_.errors.push_back(here_ + text);
  }

  [[nodiscard]] Bytes size(TensorId t) const { return graph_.graph[t].size; }
  [[nodiscard]] const std::string& name(TensorId t) const { return graph_.graph[t].name; }
  [[nodiscard]] const std::string& name(DeviceId d) const { return graph_.devices[d].name; }
  [[nodiscard]] bool is_resident(TensorId t, DeviceId d) const { return resident_.contains({t, d}); }

  bool compute(const DeviceStep& step) {
    const Op& op = graph_.graph[step.op];
    here_ = "step " + std::to_string(step_) + " (" + op.name + " on " + name(step.device) + "): ";
    const RunCost* const cost = run_cost(graph_, step.op, step.device);
    if (cost == nullptr) {
      error("it cannot run there");
      return false;
    }
    for (const TensorId t : op.inputs) {
      if (!is_resident(t, step.device)) error("input " + name(t) + " is not resident");
    }
    for (const OpId earlier : op.after) {
      if (computed_[earlier] == 0) error("op " + graph_.graph[earlier].name + " must come first");
    }
    check_count(op, ++computed_[step.op]);
    check_order(step, computed_[step.op] == 1);
    Bytes beside = cost->workspace;
    for (const TensorId t : op.outputs) beside += allocate(op, t, step);
    spend({cost->duration, cost->energy});
    meet(step.device, beside);
    return true;
  }

  /// Makes the output resident; what it takes beside that while the op runs: the older copy, or less by what it takes over.
  Bytes allocate(const Op& op, TensorId output, const DeviceStep& step) {
    if (is_resident(output, step.device)) {
      return graph_.graph.recompute_allocates == Allocation::all ? size(output) : Bytes(0);
    }
    resident_.insert({output, step.device});
    memory_[step.device] += size(output);
    for (const InPlace& pair : op.in_place) {
      if (pair.output != output || !produced_[pair.input]) continue;
      const Residence input{pair.input, step.device};
      const bool released = std::find(step.free.begin(), step.free.end(), input) != step.free.end();
      if (released) return Bytes(0) - std::min(size(output), size(pair.input));
    }
    return Bytes(0);
  }

  bool copy(const DeviceStep& step) {
    here_ = "step " + std::to_string(step_) + " (" + name(step.copied) + " from " + name(step.device) + " to " +
            name(step.to) + "): ";
    if (!is_resident(step.copied, step.device)) error("it is not resident on " + name(step.device));
    if (is_resident(step.copied, step.to)) error("it is resident on " + name(step.to) + " already");
    const auto cost = copy_cost(graph_, step.copied, step.device, step.to);
    if (!cost) {
      error("there is no link");
      return false;
    }
    spend(*cost);
    if (resident_.insert({step.copied, step.to}).second) memory_[step.to] += size(step.copied);
    ++verdict_.copies;
    meet(step.device, Bytes(0));
    meet(step.to, Bytes(0));
    return true;
  }

  /// Compares what the device holds now, and `beside`, with its peak and its budget.
  void meet(DeviceId device, Bytes beside) {
    const Bytes now = memory_[device] + beside;
    if (now > verdict_.peak[device]) {
      verdict_.peak[device] = now;
      verdict_.peak_step[device] = step_;
    }
    const std::optional<Bytes> budget =
        device.index() < schedule_.budget.size() ? schedule_.budget[device] : std::nullopt;
    if (budget && now > *budget) {
      error(std::to_string(now.count()) + " bytes on " + name(device) + " exceed the budget of " +
            std::to_string(budget->count()));
    }
  }

  /// A schedule may have more steps than any graph's sums allow for.
  void spend(const CopyCost& cost) {
    std::int64_t duration = 0;
    std::int64_t energy = 0;
    if (__builtin_add_overflow(verdict_.duration.count(), cost.duration.count(), &duration) ||
        __builtin_add_overflow(verdict_.energy.count(), cost.energy.count(), &energy)) {
      error("the duration or the energy up to here is beyond 64 bits");
      return;
    }
    verdict_.duration = Duration(duration);
    verdict_.energy = Energy(energy);
  }

  void check_count(const Op& op, int count) {
    if (count > 1) ++verdict_.recomputes;
    if (count > 1 && !op.recompute) error("recomputed, but recompute is 'never'");
    const auto check = [&](int most, const char* whose) {
      if (count > most) error("computed " + std::to_string(count) + " times, " + whose + " " + std::to_string(most));
    };
    if (op.max_computes) check(*op.max_computes, "max_computes is");
    if (schedule_.solver.max_computes > 0) check(schedule_.solver.max_computes, "the schedule allows");
  }

  /// The staged form: first computes in input order whatever their devices; the recomputes of a stage, too, those of one
  /// op in the order of the devices, none twice on one device.
  void check_order(const DeviceStep& step, bool first) {
    if (schedule_.order != OrderMode::input) return;
    const std::pair<OpId, DeviceId> run{step.op, step.device};
    if (first) {
      if (step.op != next_first_) error("first computes do not follow the input order");
      next_first_ = OpId(next_first_ + 1);
      latest_ = {};
    } else {
      if (run <= latest_) error("recomputes of a stage do not follow the input order");
      latest_ = run;
    }
  }

  void release(const Residence& residence) {
    const auto& [t, device] = residence;
    const auto& home = graph_.places[t].home;
    if (!is_resident(t, device)) {
      error("frees " + name(t) + " on " + name(device) + ", which is not resident");
    } else if (!produced_[t] && std::find(home.begin(), home.end(), device) != home.end()) {
      error("frees " + name(t) + " on " + name(device) + ", an input of the graph at home");
    } else {
      resident_.erase(residence);
      memory_[device] -= size(t);
    }
  }

  void finish() {
    here_.clear();
    for (const OpId v : computed_.ids()) {
      if (computed_[v] == 0) error("op " + graph_.graph[v].name + " is never computed");
    }
    for (const TensorId t : graph_.places.ids()) {
      if (!graph_.graph[t].keep || !produced_[t]) continue;
      const auto& home = graph_.places[t].home;
      const bool kept = std::any_of(resident_.begin(), resident_.end(), [&](const Residence& residence) {
        return residence.tensor == t && (home.empty() || home.front() == residence.device);
      });
      if (!kept) error("tensor " + name(t) + " must be resident at the end");
    }
    check_figures();
  }

  void check_figures() {
    const auto check = [&](const char* what, std::int64_t said, std::int64_t is) {
      if (said != is)
        error(std::string("schedule says ") + what + " " + std::to_string(said) + ", replay gives " +
              std::to_string(is));
    };
    check("duration", schedule_.duration.count(), verdict_.duration.count());
    check("energy", schedule_.energy.count(), verdict_.energy.count());
    for (const DeviceId d : graph_.devices.ids()) {
      const Bytes said = d.index() < schedule_.peak_memory.size() ? schedule_.peak_memory[d] : Bytes(0);
      check(("peak_memory on " + name(d)).c_str(), said.count(), verdict_.peak[d].count());
    }
    if (schedule_.duration_limit && verdict_.duration > *schedule_.duration_limit)
      error("the duration exceeds its limit");
    if (schedule_.energy_limit && verdict_.energy > *schedule_.energy_limit) error("the energy exceeds its limit");
  }

  const DeviceGraph& graph_;
  const DeviceSchedule& schedule_;
  Table<TensorId, bool> produced_;
  std::set<Residence> resident_;
  Table<DeviceId, Bytes> memory_;
  Table<OpId, int> computed_;
  OpId next_first_{0};
  std::pair<OpId, DeviceId> latest_{};
  int step_ = 0;
  std::string here_;
  DeviceVerdict verdict_;
};

}  // namespace

DeviceVerdict verify(const DeviceGraph& graph, const DeviceSchedule& schedule) {
  return DeviceReplay(graph, schedule).run();
}

}  // namespace remora
