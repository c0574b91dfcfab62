// SPDX-License-Identifier: Apache-2.0
//
// Local search over plans of several devices (docs/design/devices.md): a start without memory limits, then changes.
//
// The start has every op once, on the devices of the bound's assignment. While it breaks a budget, at the worst step a tensor
// makes room: of all ways one is taken that mends most for its price. Then, as long as the limits allow: some copies and
// recomputes are taken out, or ops put on other devices, and what that breaks is mended again; what is no worse is kept. All
// schedules are of the staged form, which `free` order allows as well; over lanes, which gain from it, free order is any order.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/deadline.hpp"
#include "engine/devices/bound.hpp"
#include "engine/devices/changes.hpp"
#include "engine/devices/plan.hpp"
#include "model/random.hpp"

namespace remora::devices {

/// By op: a number that ops share which look alike: what they are, where they run, what they write, and, some edges around, what they read
/// from and are read by. Blocks that repeat have the same numbers but near their ends. O(edges log edges).
Table<OpId, int> alike_ops(const DeviceGraph& graph);

class Search {
 public:
  /// All three outlive the search.
  Search(const DeviceGraph& graph, const Problem& problem, std::uint64_t seed, const Deadline& deadline);

  /// Searches on until so much work has been done in all. A unit is a plan that is looked at.
  void advance(const Bound& bound, std::int64_t work);
  /// The best plan that breaks no limit; null if none was found.
  [[nodiscard]] const EvaluatedPlan* plan() const { return best_ && best_->value.violation == 0 ? &*best_ : nullptr; }
  [[nodiscard]] std::int64_t cost() const { return best_->value.cost; }
  /// Goes on from a plan that somebody else found, if it is better once it is mended, by so much work in all.
  void adopt(Plan plan, std::int64_t work);
  [[nodiscard]] std::int64_t work() const { return work_; }
  /// True ends a turn early. May be null.
  void stop_on(const std::atomic<bool>* flag) { stop_flag_ = flag; }
  /// Told of every plan that a turn looks at, and whether it is the best one and breaks no limit. False ends the turn.
  void listen(std::function<bool(bool better)> listener) { listener_ = std::move(listener); }

 private:
  /// Role of a tensor in every block that repeats: of which ops, which of their outputs; of inputs of the graph, of
  /// whose.
  struct Role {
    static constexpr int kNobodys = -1;
    /// Ops that look alike have a number from 0. An input of the graph is its first readers': below kNobodys, the number from there.
    [[nodiscard]] static Role input_of(int readers) { return {kNobodys - 1 - readers, 0}; }

    int op = kNobodys;
    int output = 0;

    friend auto operator<=>(const Role&, const Role&) = default;
  };
  /// The same for steps that are the same in blocks that repeat.
  struct Kind {
    /// For a run: the op, and no output.
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
    double weight = 1;
  };
  using Place = std::pair<int, DeviceId>;

  [[nodiscard]] bool over() const {
    return deadline_.reached() || work_ >= until_ ||
           (stop_flag_ != nullptr && stop_flag_->load(std::memory_order_relaxed));
  }
  Candidate judged(EvaluatedPlan plan);
  Table<OpId, DeviceId> drawn();
  DeviceId drawn_device(OpId op);
  [[nodiscard]] std::optional<Place> worst(const DeviceEvaluation& evaluation) const;
  Candidate mend(Candidate candidate);
  std::vector<Way> ways_at(const Candidate& candidate, const Place& place);
  [[nodiscard]] Kind kind_of(const DeviceStep& step) const;
  [[nodiscard]] std::vector<Way> ways_together(const std::vector<Way>& ways) const;
  Candidate settled(Candidate candidate, int times);
  void add_relocations(const Candidate& candidate, const Place& place, std::vector<Way>& ways) const;
  Candidate changed(const Candidate& candidate);
  void put_elsewhere(Plan& plan);
  void take_out(Plan& plan);

  const DeviceGraph& graph_;
  const Problem& problem_;
  const Deadline& deadline_;
  const std::atomic<bool>* stop_flag_ = nullptr;
  std::function<bool(bool better)> listener_{};
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

}  // namespace remora::devices
