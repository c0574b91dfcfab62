// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/plan.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "model/error.hpp"

namespace remora::devices {
namespace {

/// Walks along a plan and copies in what is missing.
class Supplier {
 public:
  Supplier(const DeviceGraph& graph, const Problem& problem)
      : graph_(graph),
        problem_(problem),
        produced_(produced_tensors(graph.graph)),
        devices_(graph.devices.size()),
        there_(graph.graph.tensors.size() * devices_, false),
        home_(there_) {
    for (const TensorId t : graph.places.ids()) {
      if (produced_[t]) continue;
      for (const DeviceId d : graph.places[t].home) home_[index(t, d)] = there_[index(t, d)] = true;
    }
  }

  std::optional<Plan> run(const Plan& plan) {
    for (const DeviceStep& step : plan) {
      if (step.is_copy()) {
        if (there_[index(step.copied, step.device)] && !home_[index(step.copied, step.to)]) add(step);
        continue;
      }
      for (const TensorId t : graph_.graph[step.op].inputs) {
        if (!bring(t, step.device)) return std::nullopt;
      }
      result_.push_back(step);
      for (const TensorId t : graph_.graph[step.op].outputs) there_[index(t, step.device)] = true;
    }
    for (const TensorId t : graph_.places.ids()) {
      const auto& home = graph_.places[t].home;
      if (!graph_.graph[t].keep || !produced_[t] || home.empty()) continue;
      if (!bring(t, home.front())) return std::nullopt;
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::size_t index(TensorId t, DeviceId d) const { return t.index() * devices_ + d.index(); }

  void add(const DeviceStep& copy) {
    result_.push_back(copy);
    there_[index(copy.copied, copy.to)] = true;
  }

  /// Along the cheapest way from where the tensor has been: Bellman and Ford over the links.
  bool bring(TensorId t, DeviceId to) {
    if (there_[index(t, to)]) return true;
    std::vector<std::int64_t> price_to(devices_, kNoWay);
    std::vector<DeviceId> before(devices_);
    for (const DeviceId d : graph_.devices.ids()) {
      if (there_[index(t, d)]) price_to[d.index()] = 0;
    }
    for (std::size_t round = 1; round < devices_; ++round) {
      for (const Link& link : graph_.links) {
        if (price_to[link.from.index()] == kNoWay) continue;
        const CopyCost copy = *copy_cost(graph_, t, link.from, link.to);
        const std::int64_t here = price_to[link.from.index()] + price(problem_, copy.duration, copy.energy);
        if (here >= price_to[link.to.index()]) continue;
        price_to[link.to.index()] = here;
        before[link.to.index()] = link.from;
      }
    }
    if (price_to[to.index()] == kNoWay) return false;
    std::vector<DeviceStep> way;
    for (DeviceId d = to; before[d.index()].valid(); d = before[d.index()]) {
      way.push_back({.copied = t, .device = before[d.index()], .to = d});
    }
    for (std::size_t i = way.size(); i-- > 0;) add(way[i]);
    return true;
  }

  const DeviceGraph& graph_;
  const Problem& problem_;
  Table<TensorId, bool> produced_;
  std::size_t devices_;
  /// By tensor and device: has been there; is at home there.
  std::vector<bool> there_;
  std::vector<bool> home_;
  Plan result_;
};

/// By step: a copy or a recompute of which nothing is read.
std::vector<bool> useless_steps(const DeviceGraph& graph, const Plan& plan, const DeviceEvaluation& evaluation) {
  std::vector<bool> useless(plan.size(), true);
  std::vector<bool> seen(graph.graph.ops.size(), false);
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].is_copy()) continue;
    if (!seen[plan[i].op.index()]) useless[i] = false;
    seen[plan[i].op.index()] = true;
  }
  for (const Stay& stay : evaluation.stays) {
    if (stay.useful) useless[at(stay.first_step)] = false;
  }
  return useless;
}

/// In free order lanes leave any order to gain from; of all others the staged form is followed alone.
bool must_be_staged(const DeviceGraph& graph, const Problem& problem) {
  return problem.order == OrderMode::input || problem.copies == CopyMode::sequential || !has_lanes(graph);
}

bool is_allowed(const DeviceGraph& graph, const Problem& problem, const Plan& plan) {
  const bool staged = must_be_staged(graph, problem);
  OpId next(0);
  std::pair<OpId, DeviceId> latest;
  Table<OpId, int> count(graph.graph.ops.size(), 0);
  for (const DeviceStep& step : plan) {
    if (step.is_copy()) continue;
    if (++count[step.op] > most_runs(graph, problem, step.op)) return false;
    if (!staged) {
      for (const OpId earlier : graph.graph[step.op].after) {
        if (count[earlier] == 0) return false;
      }
      continue;
    }
    if (count[step.op] == 1) {
      if (step.op != next) return false;
      next = OpId(next + 1);
      latest = {};
    } else {
      const std::pair<OpId, DeviceId> run{step.op, step.device};
      if (run <= latest) return false;
      latest = run;
    }
  }
  return std::find(count.begin(), count.end(), 0) == count.end();
}

}  // namespace

OverlappedTimes times_of(const DeviceGraph& graph, const Problem& problem, const EvaluatedPlan& plan,
                         bool holds_budgets) {
  const Table<DeviceId, std::optional<Bytes>> none(graph.devices.size());
  return overlapped(graph, with_releases(plan.evaluation, plan.plan), holds_budgets ? problem.budget : none);
}

PlanValue value_of(const DeviceGraph& graph, const Problem& problem, const EvaluatedPlan& plan) {
  PlanValue value;
  for (const DeviceId d : graph.devices.ids()) {
    if (!problem.budget[d]) continue;
    for (const Bytes here : plan.evaluation.memory[d])
      value.violation += std::max(Bytes(0), here - *problem.budget[d]).count();
  }
  const Energy energy = plan.evaluation.energy;
  Duration duration = plan.evaluation.duration;
  if (problem.copies == CopyMode::overlap) {
    duration = times_of(graph, problem, plan, value.violation == 0).duration;
  }
  if (problem.duration_limit) {
    value.violation += std::max(Duration(0), duration - *problem.duration_limit).count();
  }
  if (problem.energy_limit) value.violation += std::max(Energy(0), energy - *problem.energy_limit).count();
  value.cost = price(problem, duration, energy);
  return value;
}

std::optional<EvaluatedPlan> mended(const DeviceGraph& graph, const Problem& problem, Plan plan) {
  for (;;) {
    std::optional<Plan> supplied = Supplier(graph, problem).run(plan);
    if (!supplied) return std::nullopt;
    DeviceEvaluation evaluation = evaluate(graph, *supplied);
    if (evaluation.unsupplied) return std::nullopt;
    const std::vector<bool> useless = useless_steps(graph, *supplied, evaluation);
    if (std::find(useless.begin(), useless.end(), true) == useless.end()) {
      if (!is_allowed(graph, problem, *supplied)) return std::nullopt;
      return EvaluatedPlan{*std::move(supplied), std::move(evaluation)};
    }
    plan.clear();
    for (std::size_t i = 0; i < supplied->size(); ++i) {
      if (!useless[i]) plan.push_back((*supplied)[i]);
    }
  }
}

std::optional<EvaluatedPlan> plan_of(const DeviceGraph& graph, const Problem& problem,
                                     const Table<OpId, DeviceId>& assignment) {
  Plan plan;
  for (const OpId v : assignment.ids()) plan.push_back({.op = v, .device = assignment[v]});
  return mended(graph, problem, std::move(plan));
}

std::optional<std::int64_t> cost_of_schedule(const DeviceGraph& graph, const Problem& problem,
                                             const std::vector<DeviceStep>& steps) {
  DeviceSchedule schedule{
      .status = Status::feasible, .order = problem.order, .objective = problem.objective, .copies = problem.copies};
  schedule.budget.assign(graph.devices.size(), std::nullopt);
  schedule.solver.max_computes = kComputesWithin64Bits;
  schedule.order = OrderMode::free;
  schedule.steps = steps;
  const auto replayed = [&] {
    const DeviceVerdict first = verify(graph, schedule);
    schedule.duration = first.duration;
    schedule.energy = first.energy;
    schedule.peak_memory = first.peak;
    return verify(graph, schedule);
  };
  if (const DeviceVerdict verdict = replayed(); !verdict.valid())
    throw InputError::of_option("warm_start", verdict.errors.front());
  schedule.order = problem.order;
  schedule.budget = problem.budget;
  schedule.duration_limit = problem.duration_limit;
  schedule.energy_limit = problem.energy_limit;
  schedule.solver.max_computes = problem.max_computes;
  if (!replayed().valid()) return std::nullopt;
  return price(problem, schedule.duration, schedule.energy);
}

}  // namespace remora::devices
