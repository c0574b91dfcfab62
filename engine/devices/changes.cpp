// SPDX-License-Identifier: Apache-2.0
//
// Where the copies of an overlapped plan stand.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/devices/plan.hpp"

namespace remora::devices {
namespace {

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

  /// Whether the copy's target has room for it from before step `place` up to itself; then it counts there.
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

  /// Whether there is room for what a copy reads, from it up to before step `place`.
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

Plan retimed(const DeviceGraph& graph, const Problem& problem, const EvaluatedPlan& plan, double ahead) {
  return Retiming(graph, problem, plan).run(ahead);
}

}  // namespace remora::devices
