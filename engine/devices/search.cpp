// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/search.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string>

namespace remora::devices {
namespace {

/// Ways to make room at one step that are looked at, at most.
constexpr std::size_t kMaxWays = 40;
/// Changes at once before mending.
constexpr std::uint64_t kMaxChanges = 4;
/// Without a better plan for so many rounds, the search goes on from the best one.
constexpr int kMaxIdle = 200;
/// How often the copies of a new plan are moved, as long as that improves it.
constexpr int kRetimings = 6;
/// Places by which a copy is put elsewhere, at most.
constexpr std::uint64_t kFarthest = 40;

}  // namespace

Table<OpId, int> alike_ops(const DeviceGraph& graph) {
  constexpr int kEdges = 4;
  const Graph& ops = graph.graph;
  const Table<TensorId, OpId> producers = producers_of(ops);
  const Adjacency<TensorId, OpId> readers = readers_of(ops);
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

Search::Search(const DeviceGraph& graph, const Problem& problem, std::uint64_t seed, const Deadline& deadline)
    : graph_(graph),
      problem_(problem),
      deadline_(deadline),
      random_(seed),
      alike_(alike_ops(graph)),
      roles_(graph.graph.tensors.size()) {
  for (const OpId v : graph.runs.ids()) {
    const Op& op = graph.graph[v];
    for (const TensorId t : op.inputs) {
      if (roles_[t].op == Role::kNobodys) roles_[t] = Role::input_of(alike_[v]);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) roles_[op.outputs[i]] = {alike_[v], static_cast<int>(i)};
  }
}

void Search::advance(const Bound& bound, std::int64_t work) {
  until_ = work;
  const auto goes_on = [&](bool better) { return !listener_ || listener_(better && plan() != nullptr); };
  if (!best_) {
    std::optional<EvaluatedPlan> first = plan_of(graph_, problem_, bound.assignment);
    while (!first && !over()) {
      ++work_;
      first = plan_of(graph_, problem_, drawn());
    }
    if (!first) return;
    current_ = settled(judged(*std::move(first)), kRetimings);
    best_ = current_;
    if (!goes_on(true)) return;
  }
  while (!over() && !(best_->value.violation == 0 && best_->value.cost <= bound.least)) {
    Candidate next = settled(changed(*current_), 1);
    const bool better = next.value < best_->value;
    if (next.value <= current_->value) current_ = next;
    ++idle_;
    if (better) {
      best_ = std::move(next);
      idle_ = 0;
    } else if (idle_ >= kMaxIdle) {
      current_ = best_;
      idle_ = 0;
    }
    if (!goes_on(better)) return;
  }
}

/// Goes on from a plan that somebody else found, if it is better once it is mended, by so much work in all.
void Search::adopt(Plan plan, std::int64_t work) {
  std::optional<EvaluatedPlan> whole = mended(graph_, problem_, std::move(plan));
  if (!whole) return;
  until_ = work;
  const std::atomic<bool>* const flag = std::exchange(stop_flag_, nullptr);
  Candidate next = settled(judged(*std::move(whole)), kRetimings);
  stop_flag_ = flag;
  if (best_ && best_->value <= next.value) return;
  best_ = current_ = std::move(next);
  idle_ = 0;
}

Search::Candidate Search::judged(EvaluatedPlan plan) {
  ++work_;
  const PlanValue value = value_of(graph_, problem_, plan);
  return {std::move(plan), value};
}

Table<OpId, DeviceId> Search::drawn() {
  Table<OpId, DeviceId> assignment;
  for (const OpId v : graph_.runs.ids()) assignment.push_back(drawn_device(v));
  return assignment;
}

DeviceId Search::drawn_device(OpId op) {
  const auto& runs = graph_.runs[op];
  return runs[random_.below(runs.size())].device;
}

/// The step and device at which most is above a budget.
std::optional<Search::Place> Search::worst(const DeviceEvaluation& evaluation) const {
  std::optional<std::pair<int, DeviceId>> found;
  Bytes most;
  for (const DeviceId d : graph_.devices.ids()) {
    for (std::size_t i = 0; problem_.budget[d] && i < evaluation.memory[d].size(); ++i) {
      const Bytes above = evaluation.memory[d][i] - *problem_.budget[d];
      if (above <= most) continue;
      most = above;
      found = {static_cast<int>(i), d};
    }
  }
  return found;
}

/// Makes room where most is missing, as long as that mends something.
Search::Candidate Search::mend(Candidate candidate) {
  while (candidate.value.violation > 0 && !over()) {
    const auto place = worst(candidate.evaluation);
    if (!place) return candidate;
    std::optional<Candidate> best;
    double best_score = 0;
    for (const Way& way : ways_at(candidate, *place)) {
      if (over()) break;
      std::optional<EvaluatedPlan> whole = mended(graph_, problem_,
                                                  way.op.valid() ? relocated(graph_, candidate.plan, way.op, way.device)
                                                                 : with_steps(candidate.plan, way.insertions));
      if (!whole) continue;
      Candidate next = judged(*std::move(whole));
      if (next.value.violation >= candidate.value.violation) continue;
      const auto mends = static_cast<double>(candidate.value.violation - next.value.violation);
      const auto dearer = static_cast<double>(std::max<std::int64_t>(0, next.value.cost - candidate.value.cost));
      const double score = mends / (1.0 + dearer) * way.weight * (0.7 + 0.6 * random_.unit());
      if (best && score <= best_score) continue;
      best_score = score;
      best = std::move(next);
    }
    if (!best) return candidate;
    candidate = *std::move(best);
  }
  return candidate;
}

/// Ways to make room there, drawn of all. Where there are many, who does much at once goes before.
std::vector<Search::Way> Search::ways_at(const Candidate& candidate, const Place& place) {
  std::vector<Way> ways;
  for (Insertions& insertions :
       making_room(graph_, problem_, candidate.plan, candidate.evaluation, place.first, place.second)) {
    ways.push_back({.insertions = std::move(insertions)});
  }
  std::vector<Way> together = ways_together(ways);
  add_relocations(candidate, place, ways);
  random_.shuffle(ways);
  random_.shuffle(together);
  if (together.size() > kMaxWays / 2) together.resize(kMaxWays / 2);
  if (ways.size() > kMaxWays - together.size()) ways.resize(kMaxWays - together.size());
  std::move(together.begin(), together.end(), std::back_inserter(ways));
  return ways;
}

Search::Kind Search::kind_of(const DeviceStep& step) const {
  if (step.is_copy()) return {roles_[step.copied], step.device, step.to};
  return {{alike_[step.op], -1}, step.device, DeviceId::none()};
}

/// In blocks that repeat the same gives way in the same manner: in all of them, in the half or the quarter that comes first.
std::vector<Search::Way> Search::ways_together(const std::vector<Way>& ways) const {
  std::map<std::vector<Kind>, std::vector<const Way*>> kinds;
  for (const Way& way : ways) {
    std::vector<Kind> kind;
    for (const Insertion& insertion : way.insertions) kind.push_back(kind_of(insertion.step));
    kinds[std::move(kind)].push_back(&way);
  }
  std::vector<Way> together;
  for (const auto& [kind, alike] : kinds) {
    for (std::size_t count = alike.size(); count > 1 && 4 * count >= alike.size(); count /= 2) {
      const double weight = ways.size() > kMaxWays ? 1 + std::log2(static_cast<double>(count)) : 1;
      Insertions& all = together.emplace_back(Way{.weight = weight}).insertions;
      for (std::size_t i = 0; i < count; ++i) {
        all.insert(all.end(), alike[i]->insertions.begin(), alike[i]->insertions.end());
      }
    }
  }
  return together;
}

/// Mended, and with copies where they are hidden, if they overlap.
Search::Candidate Search::settled(Candidate candidate, int times) {
  candidate = mend(std::move(candidate));
  if (problem_.copies == CopyMode::sequential) return candidate;
  for (int i = 0; i < times && candidate.value.violation == 0 && !over(); ++i) {
    std::optional<EvaluatedPlan> whole =
        mended(graph_, problem_, retimed(graph_, problem_, candidate, i == 0 && times > 1 ? 0 : random_.unit()));
    if (!whole) continue;
    Candidate next = judged(*std::move(whole));
    if (next.value <= candidate.value) candidate = std::move(next);
  }
  return candidate;
}

/// The run at the place, and those that made what stays there, elsewhere.
void Search::add_relocations(const Candidate& candidate, const Place& place, std::vector<Way>& ways) const {
  const auto add = [&](OpId op) {
    for (const RunCost& run : graph_.runs[op]) {
      if (run.device != place.second) ways.push_back({.op = op, .device = run.device});
    }
  };
  const DeviceStep& step = candidate.plan[at(place.first)];
  if (!step.is_copy()) add(step.op);
  for (const Stay& stay : candidate.evaluation.stays) {
    const bool crosses =
        stay.residence.device == place.second && stay.first_step < place.first && stay.last_step >= place.first;
    const DeviceStep& maker = candidate.plan[at(stay.first_step)];
    if (crosses && !maker.is_copy()) add(maker.op);
  }
}

/// Some copies and recomputes less, or some ops elsewhere; the same plan if that leads nowhere.
Search::Candidate Search::changed(const Candidate& candidate) {
  Plan plan = candidate.plan;
  const std::uint64_t changes = 1 + random_.below(kMaxChanges);
  const bool only_copies = problem_.copies == CopyMode::overlap && random_.below(2) == 0;
  for (std::uint64_t i = 0; i < changes; ++i) {
    if (only_copies) {
      put_elsewhere(plan);
    } else if (random_.below(3) == 0 && graph_.devices.size() > 1) {
      const OpId op(random_.below(graph_.runs.size()));
      const DeviceId device = drawn_device(op);
      const bool all = random_.below(4) == 0;
      for (const OpId v : graph_.runs.ids()) {
        if (v == op || (all && alike_[v] == alike_[op])) plan = relocated(graph_, plan, v, device);
      }
    } else {
      take_out(plan);
    }
  }
  std::optional<EvaluatedPlan> whole = mended(graph_, problem_, std::move(plan));
  if (whole) return judged(*std::move(whole));
  ++work_;
  return candidate;
}

/// A copy, or a run beside others on lanes, some steps earlier or later.
void Search::put_elsewhere(Plan& plan) {
  const bool runs_too = has_lanes(graph_);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (runs_too || plan[i].is_copy()) places.push_back(i);
  }
  if (places.empty()) return;
  const std::size_t from = places[random_.below(places.size())];
  const std::size_t by = 1 + random_.below(1 + random_.below(kFarthest));
  const auto begin = plan.begin();
  const auto place = begin + static_cast<std::ptrdiff_t>(from);
  if (random_.below(2) == 0) {
    std::rotate(begin + static_cast<std::ptrdiff_t>(from - std::min(by, from)), place, place + 1);
  } else {
    std::rotate(place, place + 1, begin + static_cast<std::ptrdiff_t>(std::min(from + by + 1, plan.size())));
  }
}

void Search::take_out(Plan& plan) {
  std::vector<bool> seen(graph_.graph.ops.size(), false);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].is_copy() || seen[plan[i].op.index()]) places.push_back(i);
    if (!plan[i].is_copy()) seen[plan[i].op.index()] = true;
  }
  if (places.empty()) return;
  const std::size_t place = places[random_.below(places.size())];
  if (random_.below(4) > 0) {
    plan.erase(plan.begin() + static_cast<std::ptrdiff_t>(place));
    return;
  }
  // That of all blocks, or of those before or behind.
  const Kind kind = kind_of(plan[place]);
  const std::uint64_t side = random_.below(3);
  Plan rest;
  std::size_t next = 0;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const bool removable = next < places.size() && places[next] == i;
    next += removable ? 1 : 0;
    const bool here = side == 0 || (side == 1 ? i <= place : i >= place);
    if (!removable || !here || kind_of(plan[i]) != kind) rest.push_back(std::move(plan[i]));
  }
  plan = std::move(rest);
}

}  // namespace remora::devices
