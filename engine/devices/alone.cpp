// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <utility>

#include "engine/ask/problem.hpp"
#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/base/work.hpp"
#include "engine/devices/sliced_search.hpp"
#include "engine/search/search.hpp"
#include "engine/search/solution.hpp"
#include "model/schedule.hpp"
#include "model/sequence.hpp"

namespace remora::devices {
namespace {

/// Its graph with what it costs there as duration; nothing where it cannot be.
std::optional<Graph> alone_on(const DeviceGraph& graph, const Problem& problem, DeviceId device) {
  Graph alone = graph.graph;
  alone.fixed_memory = graph.devices[device].fixed_memory;
  for (const OpId v : graph.runs.ids()) {
    const RunCost* const run = run_cost(graph, v, device);
    if (run == nullptr) return std::nullopt;
    alone[v].duration = Duration(price(problem, run->duration, run->energy));
    alone[v].workspace = run->workspace;
  }
  return alone;
}

SolveOptions options_alone(const Options& given) {
  SolveOptions options = within(SolveOptions(), limits_of(given));
  options.seed = static_cast<std::int64_t>(given.seed >> 1U);
  options.threads = given.threads;
  return options;
}

SearchParts parts_alone(const remora::Instance& instance, const SolveOptions& options) {
  SearchParts parts = whole_search(instance, options, nullptr, false);
  parts.proof_rests = true;
  return parts;
}

class OneDevice final : public Member {
 public:
  OneDevice(const DeviceGraph& graph, const Problem& problem, DeviceId device, Graph alone, const Options& options,
            bool chooses)
      : graph_(graph),
        problem_(problem),
        device_(device),
        cancel_(options.cancel),
        instance_(std::make_shared<const Graph>(std::move(alone)),
                  {problem.budget[device].value_or(Bytes::max()), std::min(problem.max_computes, kMaxComputes)}),
        options_(options_alone(options)),
        search_(instance_, options_, parts_alone(instance_, options_)),
        chooses_(chooses),
        reporter_(options.reporter),
        start_(chooses ? sequence_of(options.start).value_or(Sequence()) : Sequence()) {
    search_.listen({.enough = enough()});
  }

  void run_session(const Limits& limits) override {
    if (chooses_ && !std::exchange(begun_, true)) {
      choose(instance_, limits);
      return;
    }
    const double before = search_.elapsed();
    const Work done = search_.work();
    search_.run_session({Deadline(before + limits.seconds, cancel_, before), plus(done, limits.work)});
    exhausted_ = search_.work() == done || search_.is_decided();
    const bool is_proved = search_.is_decided() && search_.holds_budget();
    if (!chooses_ || !is_proved || search_.incumbent().extra.count() <= 0) return;
    start_ = search_.incumbent().sequence(instance_);
    const Limits had{search_.elapsed(), limits.counts_work() ? search_.work() : Work::max()};
    choose(with_computes(instance_, problem_.max_computes + 1), had.part(kPartAfterProof));
  }
  [[nodiscard]] bool finished() const override { return exhausted_ || search_.is_decided(); }
  [[nodiscard]] std::vector<DeviceStep> steps() const override {
    return search_.holds_budget() ? steps_of(search_.incumbent().sequence(instance_), problem_)
                                  : std::vector<DeviceStep>();
  }
  [[nodiscard]] Wish wish() const override { return wish_; }
  void offer(const std::vector<DeviceStep>& steps) override {
    const auto sequence = sequence_of(steps);
    if (sequence && is_permitted(instance_, *sequence))
      search_.offer(make_solution(instance_, *sequence), Source::start);
  }
  [[nodiscard]] Work work() const override { return search_.work() + chosen_work_; }
  [[nodiscard]] double gap() const override {
    if (!search_.holds_budget()) return 1;
    const Duration once = instance_.baseline_duration();
    return gap_above((once + search_.lower_bound()).count(), (once + search_.incumbent().extra).count());
  }

 private:
  /// Asked in every round.
  [[nodiscard]] std::function<bool(const Progress&)> enough() const {
    if (reporter_ == nullptr) return {};
    return [reporter = reporter_](const Progress&) { return !reporter->report_round(); };
  }

  /// As a solve for one device alone, which chooses how often an op may run. More than here is a wish.
  void choose(const remora::Instance& instance, const Limits& limits) {
    const SolveOptions options = within(options_, limits);
    const Schedule found =
        solve_with_more_computes(instance, options, {.enough = enough(), .cancel = cancel_}, computes_of(start_));
    chosen_work_ += Work(found.solver.work);
    exhausted_ = found.status == Status::optimal || found.status == Status::infeasible;
    if (!found.has_schedule()) return;
    const Sequence sequence = ops_of(found);
    Problem problem = problem_;
    std::map<OpId, int> computes;
    for (const OpId op : sequence) problem.max_computes = std::max(problem.max_computes, ++computes[op]);
    if (problem.max_computes > problem_.max_computes) {
      wish_ = {problem.max_computes, steps_of(sequence, problem)};
    } else {
      search_.offer(make_solution(instance_, sequence), Source::start);
    }
  }

  [[nodiscard]] std::vector<DeviceStep> steps_of(const Sequence& sequence, const Problem& problem) const {
    Plan plan;
    for (const OpId op : sequence) plan.push_back({.op = op, .device = device_});
    const auto whole = mended(graph_, problem, std::move(plan));
    return whole ? with_releases(whole->evaluation, whole->plan) : Plan();
  }

  /// Nothing for steps that are not of this device alone.
  [[nodiscard]] std::optional<Sequence> sequence_of(const std::vector<DeviceStep>& steps) const {
    if (problem_.order == OrderMode::free) return std::nullopt;
    Sequence sequence;
    for (const DeviceStep& step : steps) {
      // Inputs of the graph may have to be brought.
      if (step.is_copy() && !instance_.producer(step.copied).valid()) continue;
      if (step.is_copy() || step.device != device_) return std::nullopt;
      sequence.push_back(step.op);
    }
    return sequence;
  }

  const DeviceGraph& graph_;
  const Problem& problem_;
  DeviceId device_;
  const std::atomic<bool>* cancel_;
  remora::Instance instance_;
  SolveOptions options_;
  remora::Search search_;
  bool chooses_;
  Reporter* reporter_;
  bool begun_ = false;
  bool exhausted_ = false;
  Sequence start_;
  Wish wish_{};
  Work chosen_work_{};
};

}  // namespace

std::unique_ptr<Member> one_device_alone(const DeviceGraph& graph, const Problem& problem, DeviceId device,
                                         const Options& options, bool chooses) {
  std::optional<Graph> alone = alone_on(graph, problem, device);
  if (!alone) return nullptr;
  return std::make_unique<OneDevice>(graph, problem, device, *std::move(alone), options, chooses);
}

}  // namespace remora::devices
