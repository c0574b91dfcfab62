// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "model/devices/schedule.hpp"
#include "model/devices/stream_clock.hpp"

namespace remora {
namespace {

constexpr std::size_t kDeviceErrorsShown = 20;

class DeviceReplay {
 public:
  DeviceReplay(const DeviceGraph& graph, const DeviceSchedule& schedule)
      : graph_(graph),
        schedule_(schedule),
        produced_(produced_tensors(graph.graph)),
        memory_(graph.devices.size()),
        computed_(graph.graph.ops.size(), 0),
        first_runs_(graph.graph.ops.size(), -1) {
    for (const DeviceId d : graph.devices.ids()) memory_[d] = graph.devices[d].fixed_memory;
    for (const TensorId t : graph.places.ids()) {
      if (produced_[t]) continue;
      for (const DeviceId d : graph.places[t].home) {
        resident_.insert({t, d});
        memory_[d] += size(t);
      }
    }
    clock_.emplace(memory_);
    verdict_.peak = memory_;
    verdict_.peak_step.assign(graph.devices.size(), -1);
  }

  DeviceVerdict run() {
    for (step_ = 0; step_ < static_cast<int>(schedule_.steps.size()); ++step_) {
      const DeviceStep& step = schedule_.steps[static_cast<std::size_t>(step_)];
      here_ = "step " + std::to_string(step_) + ": ";
      task_ = {};
      taken_over_.clear();
      if (!is_known(step)) {
        error("names an op, a tensor or a device that the graph does not have");
        continue;
      }
      const bool done = step.is_copy() ? copy(step) : compute(step);
      if (!done) continue;
      clock_->add(task_);
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
    if (verdict_.errors.size() < kDeviceErrorsShown) verdict_.errors.push_back(here_ + text);
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
    task_ = {{step.device, step.device, cost->lane}, cost->duration, step.device, cost->workspace, {}};
    for (const OpId earlier : op.after) {
      if (computed_[earlier] == 0) error("op " + graph_.graph[earlier].name + " must come first");
      if (computed_[earlier] > 0) task_.waits.insert(first_runs_[earlier]);
    }
    if (computed_[step.op] == 0) first_runs_[step.op] = step_;
    if (cost->workspace > Bytes(0)) clock_->give_back(step.device, {step_, cost->workspace, {step_}});
    check_count(op, ++computed_[step.op]);
    check_order(step, computed_[step.op] == 1);
    Bytes beside = cost->workspace;
    for (const TensorId t : op.outputs) beside += allocate(op, t, step);
    for (const TensorId t : op.inputs) read({t, step.device});
    spend({cost->duration, cost->energy});
    meet(step.device, beside);
    return true;
  }

  /// Makes the output resident; what it takes beside that while the op runs: the older copy, or less by what it takes over.
  Bytes allocate(const Op& op, TensorId output, const DeviceStep& step) {
    const Residence residence{output, step.device};
    if (is_resident(output, step.device)) {
      if (graph_.graph.recompute_allocates != Allocation::all) return Bytes(0);
      task_.bytes += size(output);
      clock_->give_back(step.device, {step_, size(output), readers_until_now(residence)});
      uses_[residence] = {step_, {}};
      return size(output);
    }
    resident_.insert(residence);
    memory_[step.device] += size(output);
    task_.bytes += size(output);
    uses_[residence] = {step_, {}};
    for (const InPlace& pair : op.in_place) {
      if (pair.output != output || !produced_[pair.input]) continue;
      const Residence input{pair.input, step.device};
      if (std::find(step.free.begin(), step.free.end(), input) == step.free.end()) continue;
      const Bytes bytes = std::min(size(output), size(pair.input));
      task_.bytes -= bytes;
      taken_over_[input] = bytes;
      task_.waits.insert(uses_[input].readers.begin(), uses_[input].readers.end());
      return Bytes(0) - bytes;
    }
    return Bytes(0);
  }

  /// This step reads what is resident.
  void read(const Residence& residence) {
    Uses& uses = uses_[residence];
    if (uses.made) task_.waits.insert(*uses.made);
    uses.readers.insert(step_);
  }

  /// This step, the one that made what is resident, and those that have read it.
  std::set<int> readers_until_now(const Residence& residence) {
    const Uses& uses = uses_[residence];
    std::set<int> steps = uses.readers;
    if (uses.made) steps.insert(*uses.made);
    steps.insert(step_);
    return steps;
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
    task_ = {{step.device, step.to, {}}, cost->duration, step.to, size(step.copied), {}};
    read({step.copied, step.device});
    uses_[{step.copied, step.to}] = {step_, {}};
    if (resident_.insert({step.copied, step.to}).second) memory_[step.to] += size(step.copied);
    ++verdict_.copies;
    meet(step.device, Bytes(0));
    meet(step.to, Bytes(0));
    return true;
  }

  /// Compares what the device holds now, and `beside`, with its peak and its budget.
  void meet(DeviceId device, Bytes beside) {
    if (schedule_.copies == CopyMode::overlap) return;
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
      if (step.op != next_first_) error("first runs do not follow the input order");
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
      const auto taken = taken_over_.find(residence);
      const Bytes bytes = size(t) - (taken == taken_over_.end() ? Bytes(0) : taken->second);
      clock_->give_back(device, {step_, bytes, readers_until_now(residence)});
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
    if (schedule_.copies == CopyMode::overlap && verdict_.valid()) follow_clock();
    check_figures();
  }

  /// Only where all steps are right by themselves.
  void follow_clock() {
    verdict_.duration = Duration(0);
    Table<DeviceId, std::optional<Bytes>> budget = schedule_.budget;
    budget.resize(graph_.devices.size());
    for (const DeviceId d : graph_.devices.ids()) {
      if (!budget[d] || verdict_.peak[d] <= *budget[d] || schedule_.steps.empty()) continue;
      error(std::to_string(verdict_.peak[d].count()) + " bytes that are always on " + name(d) +
            " exceed the budget of " + std::to_string(budget[d]->count()));
      return;
    }
    const auto stuck = clock_->run(budget, verdict_);
    if (!stuck) return;
    const StreamClock::Task& task = clock_->task(*stuck);
    error("step " + std::to_string(*stuck) + ": waits for ever for " + std::to_string(task.bytes.count()) +
          " bytes on " + name(task.device) + ", whose budget is " + std::to_string(budget[task.device]->count()) +
          ": no step before it gives back enough");
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
  Table<OpId, int> first_runs_;
  /// The beginning of a residence (nothing for a tensor at home), and its reads.
  struct Uses {
    std::optional<int> made{};
    std::set<int> readers{};
  };
  std::map<Residence, Uses> uses_;
  /// The task of this step.
  StreamClock::Task task_;
  std::map<Residence, Bytes> taken_over_;
  std::optional<StreamClock> clock_;
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
