// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/changes.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace remora::devices {

namespace {

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

/// Where the copies of an overlapped plan stand.
class Retiming {
 public:
  Retiming(const DeviceGraph& graph, const Problem& problem, const EvaluatedPlan& plan)
      : graph_(graph),
        problem_(problem),
        plan_(plan.plan),
        memory_(plan.evaluation.memory),
        times_(times_of(graph, problem, plan, true)),
        sources_(plan_.size(), -1),
        readers_(plan_.size()),
        keys_(plan_.size()) {
    for (std::size_t i = 0; i < plan_.size(); ++i) keys_[i] = static_cast<double>(i);
    link_reads();
  }

  Plan run(double ahead) {
    if (times_.stuck) return plan_;
    const std::vector<Duration> latest = latest_starts();
    std::vector<bool> computes(graph_.devices.size(), false);
    for (const auto& runs : graph_.runs) {
      for (const RunCost& run : runs) computes[run.device.index()] = true;
    }
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      if (plan_[i].is_copy() && !computes[plan_[i].to.index()]) put_early(i);
    }
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      if (plan_[i].is_copy() && computes[plan_[i].to.index()]) put_in_time(i, latest[i], ahead);
    }
    std::vector<std::size_t> order(plan_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return keys_[a] < keys_[b]; });
    Plan result;
    for (const std::size_t i : order) result.push_back(plan_[i]);
    return result;
  }

 private:
  /// By copy: the step that began what it reads, and the steps that read what it brings.
  void link_reads() {
    const std::size_t devices = graph_.devices.size();
    std::vector<int> latest(graph_.graph.tensors.size() * devices, -1);
    const auto read = [&](TensorId t, DeviceId d, std::size_t i) {
      const int made = latest[t.index() * devices + d.index()];
      if (made >= 0) readers_[at(made)].push_back(static_cast<int>(i));
      return made;
    };
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      const DeviceStep& step = plan_[i];
      if (step.is_copy()) {
        sources_[i] = read(step.copied, step.device, i);
        latest[step.copied.index() * devices + step.to.index()] = static_cast<int>(i);
        continue;
      }
      for (const TensorId t : graph_.graph[step.op].inputs) read(t, step.device, i);
      for (const TensorId t : graph_.graph[step.op].outputs) {
        latest[t.index() * devices + step.device.index()] = static_cast<int>(i);
      }
    }
  }

  [[nodiscard]] Duration lasts(std::size_t i) const { return times_.steps[i].end - times_.steps[i].start; }

  /// By copy: when it must start so that no run which reads what it brings, nor a copy behind it, is held up. Of runs, their starts.
  [[nodiscard]] std::vector<Duration> latest_starts() const {
    const std::size_t devices = graph_.devices.size();
    std::vector<Duration> latest(plan_.size());
    std::vector<Duration> behind(devices * devices, times_.duration);
    for (std::size_t i = plan_.size(); i-- > 0;) {
      latest[i] = times_.steps[i].start;
      if (!plan_[i].is_copy()) continue;
      Duration& next = behind[plan_[i].device.index() * devices + plan_[i].to.index()];
      Duration end = next;
      for (const int reader : readers_[i]) end = std::min(end, latest[at(reader)]);
      latest[i] = next = end - lasts(i);
    }
    return latest;
  }

  /// True if the copy's target has room for the tensor from before step `place` up to the copy, where it is counted.
  [[nodiscard]] bool has_room(std::size_t copy, std::size_t place) const {
    const DeviceId d = plan_[copy].to;
    return !problem_.budget[d] || memory_[d][place] + graph_.graph[plan_[copy].copied].size <= *problem_.budget[d];
  }

  /// As far before as `wanted`, and as there is room.
  void move_before(std::size_t copy, std::size_t wanted) {
    std::size_t place = copy;
    while (place > wanted && has_room(copy, place - 1)) --place;
    if (place == copy) return;
    for (std::size_t k = place; k < copy; ++k) {
      memory_[plan_[copy].to][k] += graph_.graph[plan_[copy].copied].size;
    }
    // Just before that step, and behind what was put there before.
    keys_[copy] = static_cast<double>(place) - 0.5;
  }

  [[nodiscard]] std::size_t after_source(std::size_t copy) const {
    if (sources_[copy] < 0) return 0;
    // The source may itself have moved forward.
    return static_cast<std::size_t>(std::max(0.0, std::floor(keys_[at(sources_[copy])] + 1)));
  }

  void put_early(std::size_t copy) { move_before(copy, after_source(copy)); }

  void put_in_time(std::size_t copy, Duration latest, double ahead) {
    const Duration wanted =
        latest - Duration(static_cast<std::int64_t>(ahead * static_cast<double>(lasts(copy).count())));
    const DeviceId d = plan_[copy].to;
    const auto takes = [&](std::size_t k) { return (plan_[k].is_copy() ? plan_[k].to : plan_[k].device) == d; };
    std::size_t place = copy;
    while (place > 0 && (!takes(place - 1) || times_.steps[place - 1].start >= wanted)) --place;
    place = std::max(place, after_source(copy));
    if (place < copy) return move_before(copy, place);
    // Later, so that what runs there until then does not wait for it to start.
    std::size_t end = plan_.size();
    for (const int reader : readers_[copy]) end = std::min(end, at(reader));
    place = copy + 1;
    while (place < end && (!takes(place) || times_.steps[place].start < wanted)) ++place;
    if (place == copy + 1 || !source_stays(copy, place)) return;
    keys_[copy] = static_cast<double>(place) - 0.5;
  }

  /// True if there is room for the copy's source from the copy up to before step `place`.
  bool source_stays(std::size_t copy, std::size_t place) {
    const DeviceId d = plan_[copy].device;
    const Bytes size = graph_.graph[plan_[copy].copied].size;
    for (std::size_t k = copy + 1; k < place && problem_.budget[d]; ++k) {
      if (memory_[d][k] + size > *problem_.budget[d]) return false;
    }
    for (std::size_t k = copy + 1; k < place; ++k) memory_[d][k] += size;
    return true;
  }

  const DeviceGraph& graph_;
  const Problem& problem_;
  const Plan& plan_;
  /// With copies where they have been put.
  Table<DeviceId, std::vector<Bytes>> memory_;
  OverlappedTimes times_;
  std::vector<int> sources_;
  std::vector<std::vector<int>> readers_;
  /// By step: its place in the new order.
  std::vector<double> keys_;
};

}  // namespace

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
  const Table<TensorId, OpId> producers = producers_of(graph.graph);
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

Plan retimed(const DeviceGraph& graph, const Problem& problem, const EvaluatedPlan& plan, double ahead) {
  return Retiming(graph, problem, plan).run(ahead);
}

}  // namespace remora::devices
