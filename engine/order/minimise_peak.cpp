// SPDX-License-Identifier: Apache-2.0
#include "engine/order/minimise_peak.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <queue>
#include <tuple>
#include <utility>

#include "engine/base/tasks.hpp"
#include "engine/base/work.hpp"
#include "engine/order/exact_order.hpp"
#include "engine/order/order_workers.hpp"
#include "engine/order/peak_bound.hpp"

namespace remora {

namespace {

/// A node that is ready; `version` tells whether what it leaves is still known rightly.
struct Ready {
  double left = 0;
  Bytes needs;
  int since = 0;
  NodeId node{};
  int version = 0;

  [[nodiscard]] auto key() const { return std::tuple{left, needs, -since, std::int32_t{node}}; }
};

struct Later {
  bool operator()(const Ready& a, const Ready& b) const { return a.key() > b.key(); }
};

class ListScheduler {
 public:
  ListScheduler(const OrderProblem& problem, double noise, Random& random)
      : problem_(problem), noise_(noise), random_(random) {
    const int nodes = problem.node_count();
    since_.resize(nodes);
    versions_.resize(nodes);
    waiting_.reserve(nodes);
    unread_.reserve(problem.buffer_count());
    for (int b = 0; b < problem.buffer_count(); ++b) {
      unread_.push_back(static_cast<int>(problem.readers(BufferId(b)).size()));
    }
    for (int i = 0; i < problem.node_count(); ++i) {
      waiting_.push_back(static_cast<int>(problem.predecessors(NodeId(i)).size()));
      if (waiting_.back() == 0) push(NodeId(i));
    }
  }

  std::vector<NodeId> run() {
    std::vector<NodeId> order;
    order.reserve(at(problem_.node_count()));
    while (!ready_.empty()) {
      const Ready best = ready_.top();
      ready_.pop();
      if (best.version != versions_[best.node]) continue;
      order.push_back(best.node);
      waiting_[best.node] = -1;
      for (const BufferId buffer : problem_.reads(best.node)) {
        if (--unread_[buffer] == 1) push_last_reader(buffer);
      }
      for (const NodeId later : problem_.successors(best.node)) {
        if (--waiting_[later] > 0) continue;
        since_[later] = static_cast<int>(order.size());
        push(later);
      }
    }
    return order;
  }

 private:
  void push(NodeId node) {
    const Bytes needs = running(problem_, node);
    Bytes left = leaving(problem_, node);
    for (const BufferId buffer : problem_.reads(node)) {
      if (unread_[buffer] == 1 && !problem_.keep(buffer)) left -= problem_.size(buffer);
    }
    const Bytes writes = needs - problem_.workspace(node);
    const double blur = noise_ > 0 ? noise_ * random_.unit() * static_cast<double>(writes.count()) : 0;
    ready_.push({static_cast<double>(left.count()) + blur, needs, since_[node], node, ++versions_[node]});
  }

  /// One node is left to read the buffer: it frees it.
  void push_last_reader(BufferId buffer) {
    for (const NodeId reader : problem_.readers(buffer)) {
      if (waiting_[reader] == 0) push(reader);
    }
  }

  const OrderProblem& problem_;
  double noise_;
  Random& random_;
  /// Predecessors that have not run; -1 for a node that has.
  Table<NodeId, int> waiting_;
  Table<BufferId, int> unread_;
  Table<NodeId, int> since_;
  Table<NodeId, int> versions_;
  std::priority_queue<Ready, std::vector<Ready>, Later> ready_;
};

}  // namespace

std::vector<NodeId> list_order(const OrderProblem& problem, double noise, Random& random) {
  return ListScheduler(problem, noise, random).run();
}

namespace {

/// In bytes; what is summed here has shared parts many times, which 64 bits need not hold.
struct Estimate {
  double peak = 0;
  double left = 0;
  /// By what the predecessors come first.
  double key = 0;
};

class DepthFirst {
 public:
  DepthFirst(const OrderProblem& problem, double noise, Random& random)
      : problem_(problem), estimates_(problem.node_count()), done_(estimates_.size()) {
    for (int i = 0; i < problem.node_count(); ++i) estimate(NodeId(i), noise, random);
  }

  std::vector<NodeId> run() {
    order_.reserve(estimates_.size());
    std::vector<NodeId> ends;
    for (int i = 0; i < problem_.node_count(); ++i) {
      if (problem_.successors(NodeId(i)).empty()) ends.emplace_back(i);
    }
    sort(ends);
    for (const NodeId end : ends) visit(end);
    return std::move(order_);
  }

 private:
  [[nodiscard]] const Estimate& of(NodeId node) const { return estimates_[node]; }

  void sort(std::vector<NodeId>& nodes) const {
    std::stable_sort(nodes.begin(), nodes.end(), [this](NodeId a, NodeId b) { return of(a).key > of(b).key; });
  }

  [[nodiscard]] std::vector<NodeId> sorted_predecessors(NodeId node) const {
    const auto predecessors = problem_.predecessors(node);
    std::vector<NodeId> sorted(predecessors.begin(), predecessors.end());
    sort(sorted);
    return sorted;
  }

  /// Nodes are numbered in a valid order: its predecessors have theirs.
  void estimate(NodeId node, double noise, Random& random) {
    Estimate& here = estimates_[node];
    double resident = 0;
    for (const NodeId earlier : sorted_predecessors(node)) {
      here.peak = std::max(here.peak, resident + of(earlier).peak);
      resident += of(earlier).left;
    }
    here.left += static_cast<double>(leaving(problem_, node).count());
    here.peak = std::max(here.peak, resident + static_cast<double>(running(problem_, node).count()));
    here.key = (here.peak - here.left) * (noise > 0 ? 1 + noise * random.unit() : 1);
  }

  struct Visit {
    NodeId node{};
    std::vector<NodeId> predecessors{};
    std::size_t next = 0;
  };

  /// Without recursion: graphs may be deep.
  void visit(NodeId end) {
    std::vector<Visit> path;
    const auto enter = [&](NodeId node) {
      if (done_[node]) return;
      done_[node] = true;
      path.push_back({node, sorted_predecessors(node)});
    };
    enter(end);
    while (!path.empty()) {
      Visit& last = path.back();
      if (last.next < last.predecessors.size()) {
        enter(last.predecessors[last.next++]);
      } else {
        order_.push_back(last.node);
        path.pop_back();
      }
    }
  }

  const OrderProblem& problem_;
  Table<NodeId, Estimate> estimates_;
  Table<NodeId, bool> done_;
  std::vector<NodeId> order_;
};

}  // namespace

std::vector<NodeId> depth_first_order(const OrderProblem& problem, double noise, Random& random) {
  return DepthFirst(problem, noise, random).run();
}

namespace {

/// The effort of each worker in a round: at most a tenth of a second. The first rounds are shorter.
constexpr std::int64_t kRoundEffort = 5'000'000;
constexpr std::int64_t kFirstRoundEffort = kRoundEffort / 64;
constexpr std::size_t kAnnealers = 4;
/// Those of the workers, in turn.
constexpr std::array kTemperatures{0.5, 0.2, 2.0, 5.0};
constexpr int kStarts = 6;
constexpr double kPeakNoise = 0.5;
/// Nodes in the networks of the bound, at most, and how many of them are a unit of work.
constexpr std::int64_t kMaxCutNodes = std::int64_t{1} << 22;
constexpr std::int64_t kCutNodesOfWork = 20;
/// Nodes run by the first exact search, how much more the next one may, and how many of them are a unit of work.
constexpr std::int64_t kFirstExactNodes = 1 << 18;
constexpr std::int64_t kExactGrowth = 2;
constexpr std::int64_t kExactNodesOfWork = 10;

class PeakSearch {
 public:
  PeakSearch(const OrderProblem& problem, const OrderSettings& settings, const std::function<bool()>& interrupted)
      : problem_(problem), settings_(settings), interrupted_(interrupted), random_(settings.seed) {
    result_.order = given_order(problem);
    result_.peak = peak_of(problem, result_.order);
    result_.lower_bound = largest_footprint(problem) - problem.slack();
  }

  OrderResult run() {
    start();
    if (!can_cut()) return std::move(result_);
    if (!finished()) raise_bound();
    std::int64_t effort = kFirstRoundEffort;
    for (std::int64_t nodes = kFirstExactNodes; !finished(); nodes *= kExactGrowth) {
      search_exactly(nodes);
      const std::int64_t until = result_.work + nodes / kExactNodesOfWork;
      for (; !finished() && result_.work < until; effort = std::min(2 * effort, kRoundEffort)) run_round(effort);
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] Bytes enough() const { return std::max(settings_.target, result_.lower_bound); }
  [[nodiscard]] std::int64_t work_left() const { return settings_.work_limit - result_.work; }
  [[nodiscard]] bool finished() const {
    if (work_left() <= 0 || result_.peak <= enough() || interrupted_()) return true;
    return settings_.enough && settings_.enough(result_.work);
  }

  /// Minimum cuts, and the search's sums over places, add up what all buffers take.
  [[nodiscard]] bool can_cut() const {
    Wide total = problem_.base_memory().count();
    for (int b = 0; b < problem_.buffer_count(); ++b) total += problem_.size(BufferId(b)).count();
    return total < MinimumCut::kUncut;
  }

  /// List scheduling and depth first in turn, first without noise.
  void start() {
    for (int i = 0; i < kStarts && !finished(); ++i) {
      const double noise = i < 2 ? 0 : kPeakNoise;
      std::vector<NodeId> order =
          i % 2 == 0 ? list_order(problem_, noise, random_) : depth_first_order(problem_, noise, random_);
      const Bytes peak = peak_of(problem_, order);
      merge({std::move(order), peak, problem_.node_count()});
    }
  }

  void raise_bound() {
    PeakBoundSettings settings;
    settings.enough = result_.peak;
    settings.work_limit = std::min(kMaxCutNodes, limit_of(kCutNodesOfWork));
    settings.interrupted = interrupted_;
    const PeakBound bound = peak_bound(problem_, result_.order, settings);
    result_.work += 1 + bound.work / kCutNodesOfWork;
    result_.lower_bound = std::max(result_.lower_bound, bound.bytes - problem_.slack());
  }

  void search_exactly(std::int64_t nodes) {
    ExactOrderSettings settings;
    settings.at_least = result_.lower_bound;
    settings.enough = enough();
    settings.work_limit = std::min(nodes, limit_of(kExactNodesOfWork));
    settings.interrupted = interrupted_;
    PartwiseResult exact = exact_order_by_parts(problem_, result_.order, settings);
    result_.lower_bound = std::max(result_.lower_bound, exact.lower_bound - problem_.slack());
    result_.work += 1 + exact.work / kExactNodesOfWork;
    merge({std::move(exact.order), exact.peak, 0});
  }

  /// The remaining work limit, in units of which `per_work` are one of work.
  [[nodiscard]] std::int64_t limit_of(std::int64_t per_work) const {
    return work_left() > INT64_MAX / per_work ? INT64_MAX : work_left() * per_work;
  }

  /// Their number is fixed under a work limit: then it must not matter how many threads there are.
  void add_workers() {
    const auto threads = static_cast<std::size_t>(std::max(1, settings_.threads));
    const std::size_t count = settings_.work_limit < INT64_MAX ? kAnnealers : std::max(kAnnealers, threads - 1);
    workers_.push_back(std::make_unique<WindowWorker>(random_.next()));
    for (std::size_t i = 0; i < count; ++i) {
      OrderAnnealer::Settings settings;
      settings.temperature = kTemperatures[i % kTemperatures.size()];
      settings.first_target = i;
      settings.from_best = i % 2 == 1;
      workers_.push_back(std::make_unique<OrderAnnealer>(settings, random_.next()));
    }
  }

  void run_round(std::int64_t effort) {
    if (workers_.empty()) add_workers();
    const OrderRound round{problem_, result_.order, result_.peak, enough(), interrupted_, effort};
    std::vector<OrderFind> finds(workers_.size());
    run_tasks(std::max(1, settings_.threads), workers_.size(),
              [&](std::size_t i) { finds[i] = workers_[i]->run(round); });
    for (OrderFind& find : finds) merge(std::move(find));
  }

  void merge(OrderFind&& find) {
    result_.work += work_of(find.effort).count();
    if (!find.order.empty() && problem_.slack() > Bytes(0)) find.peak = peak_of(problem_, find.order);
    if (find.order.empty() || find.peak >= result_.peak) return;
    result_.order = std::move(find.order);
    result_.peak = find.peak;
    if (settings_.improved) settings_.improved(result_.order, result_.peak);
  }

  const OrderProblem& problem_;
  const OrderSettings& settings_;
  const std::function<bool()>& interrupted_;
  Random random_;
  OrderResult result_;
  std::vector<std::unique_ptr<OrderWorker>> workers_;
};

}  // namespace

OrderResult minimise_peak(const OrderProblem& problem, const OrderSettings& settings,
                          const std::function<bool()>& interrupted) {
  return PeakSearch(problem, settings, interrupted).run();
}

}  // namespace remora
