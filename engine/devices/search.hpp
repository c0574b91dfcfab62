// SPDX-License-Identifier: Apache-2.0
//
// The two searches that a solve over several devices (sequential.hpp) takes turns with: local search over plans, and an exact one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/devices/plan.hpp"
#include "model/random.hpp"

namespace remora::devices {

/// Local search over plans of several devices (docs/devices.md).
class Search {
 public:
  Search(const DeviceGraph& graph, const Problem& problem, std::uint64_t seed, const Deadline& deadline)
      : graph_(graph),
        problem_(problem),
        deadline_(deadline),
        random_(seed),
        alike_(alike_ops(graph)),
        roles_(graph.graph.tensors.size()) {
    for (const OpId v : graph.runs.ids()) {
      const Op& op = graph.graph[v];
      for (const TensorId t : op.inputs) {
        if (roles_[t].op == -1) roles_[t] = {-2 - alike_[v], 0};
      }
      for (std::size_t i = 0; i < op.outputs.size(); ++i) roles_[op.outputs[i]] = {alike_[v], static_cast<int>(i)};
    }
  }

  /// Searches on until so much work has been done in all.
  void advance(const Bound& bound, std::int64_t work) {
    until_ = work;
    if (!best_) {
      std::optional<EvaluatedPlan> first = plan_of(graph_, problem_, bound.assignment);
      while (!first && !over()) {
        ++work_;
        first = plan_of(graph_, problem_, drawn());
      }
      if (!first) return;
      current_ = settled(judged(*std::move(first)), kRetimings);
      best_ = current_;
    }
    while (!over() && !(best_->value.violation == 0 && best_->value.cost <= bound.least)) {
      Candidate next = settled(changed(*current_), 1);
      if (next.value <= current_->value) current_ = next;
      ++idle_;
      if (next.value < best_->value) {
        best_ = std::move(next);
        idle_ = 0;
      } else if (idle_ >= kPatience) {
        current_ = best_;
        idle_ = 0;
      }
    }
  }

  /// The best plan that breaks no limit; null if none was found.
  [[nodiscard]] const EvaluatedPlan* plan() const { return best_ && best_->value.violation == 0 ? &*best_ : nullptr; }
  [[nodiscard]] std::int64_t cost() const { return best_->value.cost; }

  /// Goes on from a plan that somebody else found, if it is better once it is mended, by so much work in all.
  void adopt(Plan plan, std::int64_t work) {
    std::optional<EvaluatedPlan> whole = mended(graph_, problem_, std::move(plan));
    if (!whole) return;
    until_ = work;
    const std::atomic<bool>* const called = std::exchange(called_, nullptr);
    Candidate next = settled(judged(*std::move(whole)), kRetimings);
    called_ = called;
    if (best_ && best_->value <= next.value) return;
    best_ = current_ = std::move(next);
    idle_ = 0;
  }

  [[nodiscard]] std::int64_t work() const { return work_; }
  /// True ends a turn early. May be null.
  void heed(const std::atomic<bool>* called) { called_ = called; }

 private:
  /// Ways to make room at one step that are looked at, at most.
  static constexpr std::size_t kMostWays = 40;
  /// Changes at once before mending.
  static constexpr std::uint64_t kMostChanges = 4;
  /// Without a better plan for so many rounds, the search goes on from the best one.
  static constexpr int kPatience = 200;
  /// Of a new plan: how often its copies are put elsewhere, as long as that makes it better.
  static constexpr int kRetimings = 6;
  /// Places by which a copy is put elsewhere, at most.
  static constexpr std::uint64_t kFarthest = 40;

  /// What a tensor is in every block that repeats: of which ops, which of their outputs; of inputs of the graph, of whose.
  struct Role {
    int op = -1;
    int output = 0;

    friend auto operator<=>(const Role&, const Role&) = default;
  };
  /// The same for steps that are the same in blocks that repeat.
  struct Kind {
    Role role{};
    DeviceId device{};
    DeviceId to{};

    friend auto operator<=>(const Kind&, const Kind&) = default;
  };

  struct Candidate : EvaluatedPlan {
    PlanValue value{};
  };
  /// Steps more, or an op elsewhere.
  struct Way {
    Insertions insertions{};
    OpId op{};
    DeviceId device{};
    std::size_t blocks = 1;
  };

  [[nodiscard]] bool over() const {
    return deadline_.reached() || work_ >= until_ || (called_ != nullptr && called_->load(std::memory_order_relaxed));
  }

  Candidate judged(EvaluatedPlan plan) {
    ++work_;
    const PlanValue value = value_of(graph_, problem_, plan);
    return {std::move(plan), value};
  }

  Table<OpId, DeviceId> drawn() {
    Table<OpId, DeviceId> assignment;
    for (const OpId v : graph_.runs.ids()) assignment.push_back(drawn_device(v));
    return assignment;
  }

  DeviceId drawn_device(OpId op) {
    const auto& runs = graph_.runs[op];
    return runs[random_.below(runs.size())].device;
  }

  /// The step and device at which most is above a budget.
  [[nodiscard]] std::optional<std::pair<int, DeviceId>> worst(const DeviceEvaluation& evaluation) const {
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
  Candidate mend(Candidate candidate) {
    while (candidate.value.violation > 0 && !over()) {
      const auto place = worst(candidate.evaluation);
      if (!place) return candidate;
      std::vector<Way> ways;
      for (Insertions& insertions :
           making_room(graph_, problem_, candidate.plan, candidate.evaluation, place->first, place->second)) {
        ways.push_back({.insertions = std::move(insertions)});
      }
      std::vector<Way> together = ways_together(ways);
      const bool many = ways.size() > kMostWays;
      add_relocations(candidate, *place, ways);
      random_.shuffle(ways);
      random_.shuffle(together);
      if (together.size() > kMostWays / 2) together.resize(kMostWays / 2);
      if (ways.size() > kMostWays - together.size()) ways.resize(kMostWays - together.size());
      std::move(together.begin(), together.end(), std::back_inserter(ways));
      std::optional<Candidate> best;
      double best_score = 0;
      for (const Way& way : ways) {
        if (over()) break;
        std::optional<EvaluatedPlan> whole =
            mended(graph_, problem_,
                   way.op.valid() ? relocated(graph_, candidate.plan, way.op, way.device)
                                  : with_steps(candidate.plan, way.insertions));
        if (!whole) continue;
        Candidate next = judged(*std::move(whole));
        if (next.value.violation >= candidate.value.violation) continue;
        const auto mends = static_cast<double>(candidate.value.violation - next.value.violation);
        const auto dearer = static_cast<double>(std::max<std::int64_t>(0, next.value.cost - candidate.value.cost));
        // Where there is much to do, who does much at once goes before.
        const double more = many ? 1 + std::log2(static_cast<double>(way.blocks)) : 1;
        const double score = mends / (1.0 + dearer) * more * (0.7 + 0.6 * random_.unit());
        if (best && score <= best_score) continue;
        best_score = score;
        best = std::move(next);
      }
      if (!best) return candidate;
      candidate = *std::move(best);
    }
    return candidate;
  }

  [[nodiscard]] Kind kind_of(const DeviceStep& step) const {
    if (step.is_copy()) return {roles_[step.copied], step.device, step.to};
    return {{alike_[step.op], -1}, step.device, DeviceId::none()};
  }

  /// In blocks that repeat the same gives way in the same manner: in all of them, in the half or the quarter that comes first.
  [[nodiscard]] std::vector<Way> ways_together(const std::vector<Way>& ways) const {
    std::map<std::vector<Kind>, std::vector<const Way*>> kinds;
    for (const Way& way : ways) {
      std::vector<Kind> kind;
      for (const Insertion& insertion : way.insertions) kind.push_back(kind_of(insertion.step));
      kinds[std::move(kind)].push_back(&way);
    }
    std::vector<Way> together;
    for (const auto& [kind, alike] : kinds) {
      for (std::size_t count = alike.size(); count > 1 && 4 * count >= alike.size(); count /= 2) {
        Insertions& all = together.emplace_back(Way{.blocks = count}).insertions;
        for (std::size_t i = 0; i < count; ++i) {
          all.insert(all.end(), alike[i]->insertions.begin(), alike[i]->insertions.end());
        }
      }
    }
    return together;
  }

  /// Mended, and with copies where they are hidden, if they overlap.
  Candidate settled(Candidate candidate, int times) {
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
  void add_relocations(const Candidate& candidate, const std::pair<int, DeviceId>& place, std::vector<Way>& ways) {
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
  Candidate changed(const Candidate& candidate) {
    Plan plan = candidate.plan;
    const std::uint64_t changes = 1 + random_.below(kMostChanges);
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

  /// A copy, some steps earlier or later.
  void put_elsewhere(Plan& plan) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (plan[i].is_copy()) places.push_back(i);
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

  void take_out(Plan& plan) {
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

  const DeviceGraph& graph_;
  const Problem& problem_;
  const Deadline& deadline_;
  const std::atomic<bool>* called_ = nullptr;
  Random random_;
  Table<OpId, int> alike_;
  Table<TensorId, Role> roles_;
  std::optional<Candidate> current_;
  std::optional<Candidate> best_;
  /// Rounds without a better one.
  int idle_ = 0;
  std::int64_t work_ = 0;
  std::int64_t until_ = 0;
};

// The exact search over several devices: Gecode's branch and bound over a constraint program, complete.
//
//   variables     F_v, the device of an op's first run: the devices on which it has room (an op's modes)
//   propagators   AssignmentCost    what has been spent and what the rest costs at least (remaining_cost) is below the best
//                                   known, and within the limits on duration and energy
//                 Memory      one a device: what must stay there, or come back at a price, leaves room for each
//                                   op's first run, or the op is not run there
//   branching     the next move (device_state.hpp): a run, a copy, a release
//   equal states  a state that was reached before at no more cost is not searched again (subproblem equivalence: Chu, de la
//                 Banda, Stuckey 2010). So the search ends however many copies there may be, those that cost nothing included.
//
// Schedules are built from the front. XEngine's program (Schuler et al. 2022, eq. 1 to 20) has a matrix of runs and one of what is
// kept, by stage and device, and drops what was copied after its one use; here a copy stays as long as there is room.

struct TreeOutcome {
  /// The best schedule found, with its releases; of the moves' form. Nothing if none was found.
  std::optional<std::vector<DeviceStep>> steps{};
  /// Of the objective.
  std::int64_t cost = 0;
  /// All was searched: the steps are optimal, or without any there are none below what was required.
  bool complete = false;
  /// More states were met than are kept: the search will not go on.
  bool exhausted = false;
  std::int64_t nodes = 0;
};

/// A search that can be stopped and taken up again. The whole of Gecode stays behind this header; for one thread at a time.
class TreeSearch {
 public:
  /// Graph and problem must outlive the search. `interrupted` is asked at every node, and may be empty.
  TreeSearch(const DeviceGraph& graph, const Problem& problem, std::function<bool()> interrupted);
  TreeSearch(const TreeSearch&) = delete;
  TreeSearch& operator=(const TreeSearch&) = delete;
  ~TreeSearch();

  /// Searches on for at most so many nodes. The outcome counts from the beginning.
  const TreeOutcome& advance(std::int64_t nodes);
  /// From now on only schedules that cost less are wanted; a bound above the present one is ignored.
  void require_below(std::int64_t cost);

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace remora::devices
