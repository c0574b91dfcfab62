// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/plan.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "engine/devices/state.hpp"
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

bool is_staged(const DeviceGraph& graph, const Problem& problem, const Plan& plan) {
  OpId next(0);
  std::pair<OpId, DeviceId> latest;
  Table<OpId, int> count(graph.graph.ops.size(), 0);
  for (const DeviceStep& step : plan) {
    if (step.is_copy()) continue;
    if (++count[step.op] > most_runs(graph, problem, step.op)) return false;
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
  return next.index() == graph.graph.ops.size();
}

bool reads_on(const DeviceGraph& graph, const DeviceStep& step, TensorId t, DeviceId d) {
  return step.device == d && (step.is_copy() ? step.copied == t : reads(graph.graph[step.op], t));
}

/// Where a recompute may stand in the stage of `place`, which it comes before; -1 if it is there already.
int place_of_recompute(const Plan& plan, const std::vector<bool>& first_runs, int place, OpId op, DeviceId device) {
  int begin = place;
  while (begin > 0 && !first_runs[at(begin - 1)]) --begin;
  const std::pair<OpId, DeviceId> run{op, device};
  for (int i = begin; i < place; ++i) {
    if (plan[at(i)].is_copy()) continue;
    const std::pair<OpId, DeviceId> other{plan[at(i)].op, plan[at(i)].device};
    if (other == run) return -1;
    if (other > run) return i;
  }
  return place;
}

}  // namespace

bool reads(const Op& op, TensorId tensor) {
  return std::find(op.inputs.begin(), op.inputs.end(), tensor) != op.inputs.end();
}

bool writes(const Op& op, TensorId tensor) {
  return std::find(op.outputs.begin(), op.outputs.end(), tensor) != op.outputs.end();
}

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
      if (!is_staged(graph, problem, *supplied)) return std::nullopt;
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

Plan with_steps(const Plan& plan, Insertions insertions) {
  // The last place first; at one place recomputes so that they follow the input order, each once.
  const auto rank = [](const Insertion& insertion) {
    return std::tuple(insertion.place, insertion.step.op, insertion.step.device);
  };
  std::stable_sort(insertions.begin(), insertions.end(),
                   [&](const Insertion& a, const Insertion& b) { return rank(a) > rank(b); });
  const auto twice = std::unique(insertions.begin(), insertions.end(), [&](const Insertion& a, const Insertion& b) {
    return !a.step.is_copy() && rank(a) == rank(b);
  });
  insertions.erase(twice, insertions.end());
  Plan result = plan;
  for (const auto& [place, step] : insertions) result.insert(result.begin() + place, step);
  return result;
}

std::vector<Insertions> making_room(const DeviceGraph& graph, const Problem& problem, const Plan& plan,
                                    const DeviceEvaluation& evaluation, int step, DeviceId device) {
  const int steps = static_cast<int>(plan.size());
  std::vector<bool> first_runs(plan.size(), false);
  std::vector<bool> seen(graph.graph.ops.size(), false);
  Table<TensorId, OpId> producers(graph.graph.tensors.size());
  for (const OpId v : graph.runs.ids()) {
    for (const TensorId t : graph.graph[v].outputs) producers[t] = v;
  }
  for (int i = 0; i < steps; ++i) {
    if (plan[at(i)].is_copy() || seen[plan[at(i)].op.index()]) continue;
    seen[plan[at(i)].op.index()] = first_runs[at(i)] = true;
  }
  std::vector<Insertions> ways;
  for (const Stay& stay : evaluation.stays) {
    const auto [t, d] = stay.residence;
    if (d != device || stay.first_step >= step || stay.last_step < step) continue;
    if (reads_on(graph, plan[at(step)], t, d)) continue;
    int before = step - 1;
    while (before > stay.first_step && !reads_on(graph, plan[at(before)], t, d)) --before;
    int next = step + 1;
    while (next <= stay.last_step && !reads_on(graph, plan[at(next)], t, d)) ++next;
    if (next > stay.last_step && !stay.to_the_end) continue;
    next = std::min(next, steps);
    const OpId producer = producers[t];
    if (producer.valid() && run_cost(graph, producer, d) != nullptr && most_runs(graph, problem, producer) > 1) {
      const int place = place_of_recompute(plan, first_runs, next, producer, d);
      if (place > step) ways.push_back({{place, {.op = producer, .device = d}}});
    }
    for (const Link& link : graph.links) {
      if (link.to != d) continue;
      const DeviceStep in{.copied = t, .device = link.from, .to = d};
      int back = next;
      if (problem.copies == CopyMode::overlap) {
        const Duration lasts = copy_cost(graph, t, link.from, d)->duration;
        for (Duration ran; ran < lasts && back - 1 > step; --back) {
          const DeviceStep& run = plan[at(back - 1)];
          if (!run.is_copy() && run.device == d) ran += run_cost(graph, run.op, d)->duration;
        }
      }
      // Where the other device has had it before, it may still, or again, be copied from there.
      ways.push_back({{back, in}});
      if (!copy_cost(graph, t, d, link.from)) continue;
      ways.push_back({{back, in}, {before + 1, {.copied = t, .device = d, .to = link.from}}});
    }
    if (next < steps) continue;
    for (const Link& link : graph.links) {
      if (link.from == d) ways.push_back({{before + 1, {.copied = t, .device = d, .to = link.to}}});
    }
  }
  return ways;
}

Table<OpId, int> alike_ops(const DeviceGraph& graph) {
  constexpr int kEdges = 4;
  const Graph& ops = graph.graph;
  Table<TensorId, OpId> producers(ops.tensors.size());
  Table<TensorId, std::vector<OpId>> readers(ops.tensors.size());
  for (const OpId v : graph.runs.ids()) {
    for (const TensorId t : ops[v].outputs) producers[t] = v;
    for (const TensorId t : ops[v].inputs) readers[t].push_back(v);
  }
  Table<OpId, int> numbers(ops.ops.size(), 0);
  for (int round = 0; round <= kEdges; ++round) {
    std::map<std::pair<std::string, std::vector<std::int64_t>>, int> seen;
    Table<OpId, int> next;
    for (const OpId v : graph.runs.ids()) {
      const Op& op = ops[v];
      std::vector<std::int64_t> looks{numbers[v], op.recompute ? 1 : 0, op.max_computes.value_or(0)};
      // Not what they take: that is measured.
      for (const RunCost& run : graph.runs[v]) looks.push_back(run.device);
      for (const TensorId t : op.outputs) {
        looks.push_back(ops[t].size.count());
        std::vector<std::int64_t> around;
        for (const OpId reader : readers[t]) around.push_back(numbers[reader]);
        std::sort(around.begin(), around.end());
        looks.insert(looks.end(), around.begin(), around.end());
      }
      for (const TensorId t : op.inputs) looks.push_back(producers[t].valid() ? numbers[producers[t]] : -1);
      next.push_back(seen.try_emplace({op.type, std::move(looks)}, static_cast<int>(seen.size())).first->second);
    }
    numbers = std::move(next);
  }
  return numbers;
}

Plan relocated(const DeviceGraph& graph, const Plan& plan, OpId op, DeviceId device) {
  const Op& of = graph.graph[op];
  Plan result;
  for (const DeviceStep& step : plan) {
    if (step.is_copy() && (reads(of, step.copied) || writes(of, step.copied))) continue;
    result.push_back(step);
    if (!step.is_copy() && step.op == op) result.back().device = device;
  }
  return result;
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
  if (const DeviceVerdict verdict = replayed(); !verdict.valid()) throw InputError("start", verdict.errors.front());
  schedule.order = problem.order;
  schedule.budget = problem.budget;
  schedule.duration_limit = problem.duration_limit;
  schedule.energy_limit = problem.energy_limit;
  schedule.solver.max_computes = problem.max_computes;
  if (!replayed().valid()) return std::nullopt;
  return price(problem, schedule.duration, schedule.energy);
}

}  // namespace remora::devices
