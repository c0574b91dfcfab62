// SPDX-License-Identifier: Apache-2.0
//
// Local search, complete search and the relaxation's programs on one incumbent, one thing at a time: the first two in turns of
// growing length, the last in turns too, or in a thread of its own.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "engine/devices/prover.hpp"
#include "engine/devices/sliced_search.hpp"
#include "engine/devices/tree_search.hpp"

namespace remora::devices {

namespace {

class SequentialSearch final : public SlicedSearch {
 public:
  SequentialSearch(const DeviceGraph& graph, const Problem& problem, const Options& options, Bound bound, bool shares)
      : SlicedSearch(graph, problem, options, std::move(bound), shares),
        tree_(graph_, problem_, [&] { return slice_.reached() || has_update_ || !report_round(); }),
        prover_(graph_, problem_, options.seed) {
    local_.stop_on(&has_update_);
  }
  SequentialSearch(const SequentialSearch&) = delete;
  SequentialSearch& operator=(const SequentialSearch&) = delete;
  ~SequentialSearch() override { stop(); }

 protected:
  void search() override {
    const bool beside = options_.threads != 1 && !counts_work_;
    stopped_ = false;
    for (; !over() && !finished(); turn_length_ = std::min(2 * turn_length_, kLongestTurn)) {
      update_from_prover();
      if (finished()) break;
      const std::int64_t plans = begin_slice(turn_length_);
      look_at(plans);
      use_incumbent();
      if (over() || finished()) break;
      search_tree();
      if (!beside) ask_prover(plans);
      run_members();
      // Not beside members' first sessions: they have all threads.
      if (beside && !beside_.joinable() && !over() && !finished())
        beside_ = std::thread([this] { prove_concurrently(); });
    }
    stop();
  }

  [[nodiscard]] std::unique_ptr<Member> copies_alone(const Problem& once, const Options& options) const override {
    return sequential_search(graph_, once, options, past_limit(options), false);
  }

  /// Exclusions by a new incumbent raise the bound.
  void use_incumbent() override {
    if (best_cost_ >= known_) return;
    known_ = best_cost_;
    {
      const std::lock_guard lock(mutex_);
      if (local_.plan() != nullptr && local_.cost() == known_) incumbent_ = *local_.plan();
      below_ = known_;
    }
    tree_.require_below(known_);
    const auto interrupted = [&] { return allowance_.deadline().reached(); };
    raise_bound(bound_below(graph_, problem_, known_, interrupted), Source::relaxation);
  }

 private:
  static constexpr std::int64_t kFirstTurn = 250;
  static constexpr std::int64_t kLongestTurn = 64000;
  /// For one neighbourhood of the relaxation.
  static constexpr double kSeconds = 2;

  /// The prover steps in line with the search, and counts nodes.
  const bool counts_work_ = options_.work_limit > 0;

  void search_tree() {
    const std::int64_t nodes = begin_slice(turn_length_);
    const CompleteOutcome& outcome = tree_.advance(limited(nodes));
    spend(outcome.nodes - std::exchange(nodes_, outcome.nodes));
    if (outcome.steps && outcome.cost < best_cost_) take(*outcome.steps, Source::complete);
    if (outcome.complete) prove(Source::complete);
  }

  void ask_prover(std::int64_t work) {
    for (const std::int64_t end = prover_work_ + work; !over() && !finished() && prover_work_ < end;) {
      const std::int64_t before = prover_work_;
      const bool goes_on = step_of_prover();
      if (counts_work_) spend(prover_work_ - before);
      if (!goes_on) return;
      update_from_prover();
    }
  }

  /// False when there is nothing more to come.
  bool step_of_prover() {
    std::optional<EvaluatedPlan> incumbent;
    Prover::Limits limits;
    {
      const std::lock_guard lock(mutex_);
      incumbent = incumbent_;
      limits.below = below_;
    }
    if (incumbent) limits.incumbent = &*incumbent;
    limits.interrupted = [&] {
      rests_.wait(true);
      return allowance_.deadline().reached() || stopped_;
    };
    limits.seconds = counts_work_ ? 0 : kSeconds;
    ProverUpdate update = prover_.step(limits);
    const std::lock_guard lock(mutex_);
    const bool goes_on = !update.finished;
    prover_work_ += update.work;
    if (!update.plans.empty() || update.infeasible || update.bound > reported_) has_update_ = true;
    reported_ = update.bound;
    has_bound_ = true;
    updates_.push_back(std::move(update));
    return goes_on;
  }

  void prove_concurrently() {
    while (!allowance_.deadline().reached() && !stopped_ && step_of_prover()) {
    }
  }

  void update_from_prover() {
    std::vector<ProverUpdate> update;
    {
      const std::lock_guard lock(mutex_);
      update.swap(updates_);
      has_update_ = false;
    }
    for (ProverUpdate& item : update) {
      raise_bound(item.bound, Source::periods);
      for (Plan& plan : item.plans) adopt(std::move(plan), Source::periods);
      use_incumbent();
      if (item.infeasible) prove(Source::periods);
    }
  }

  /// A program that is being solved beside waits at the next question whether it is to end. Not the first: until then there is
  /// no bound to speak of.
  void rest(bool waits) override {
    rests_ = waits && has_bound_;
    rests_.notify_all();
  }

  void stop() {
    stopped_ = true;
    rest(false);
    if (beside_.joinable()) beside_.join();
  }

  /// ProverUpdate have come from the thread beside.
  std::atomic<bool> has_update_ = false;
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> rests_ = false;
  std::atomic<bool> has_bound_ = false;
  TreeSearch tree_;
  Prover prover_;
  std::int64_t turn_length_ = kFirstTurn;
  std::int64_t nodes_ = 0;
  /// The best known cost when the bound was last computed.
  std::int64_t known_ = kNoWay;
  std::thread beside_;
  /// Guards the members below; nothing else is shared with the thread.
  std::mutex mutex_;
  std::optional<EvaluatedPlan> incumbent_;
  std::int64_t below_ = kNoWay;
  std::vector<ProverUpdate> updates_;
  std::int64_t reported_ = 0;
  std::int64_t prover_work_ = 0;
};

}  // namespace

std::unique_ptr<SlicedSearch> sequential_search(const DeviceGraph& graph, const Problem& problem,
                                                const Options& options, const std::function<bool()>& interrupted,
                                                bool shares) {
  return std::make_unique<SequentialSearch>(graph, problem, options, bound_of(graph, problem, interrupted), shares);
}

}  // namespace remora::devices
