// SPDX-License-Identifier: Apache-2.0
#include "engine/order/exact_order.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/order/order_within.hpp"
#include "engine/order/peak_bound.hpp"

namespace remora {

namespace {

/// Work for one limit on the peak in the first round; four times as much in each further one.
constexpr std::int64_t kFirstSlice = 1 << 14;

class LimitSearch {
 public:
  LimitSearch(const OrderProblem& problem, const ExactOrderSettings& settings)
      : problem_(problem), settings_(settings) {
    result_.peak = settings.below;
    result_.lower_bound = std::min(settings.below, std::max(settings.at_least, largest_footprint(problem)));
  }

  ExactOrderResult run() {
    // A limit too tight to be decided soon may leave a looser one that is easy: none is pursued for long before the
    // others had their share.
    for (std::int64_t share = kFirstSlice; wanted() && round(share);) {
      share = share < std::numeric_limits<std::int64_t>::max() / 4 ? 4 * share : share;
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool wanted() const { return !result_.proved() && result_.peak > settings_.enough; }

  [[nodiscard]] std::int64_t work_left() const { return settings_.work_limit - result_.work; }

  /// Halves what lies between the bound and the best peak, limits given up left out; whether a larger share may help.
  bool round(std::int64_t share) {
    Bytes unknown = result_.lower_bound;
    // Often the bound itself is the answer.
    Bytes limit = std::max(unknown, settings_.enough);
    starved_ = false;
    while (unknown < result_.peak && wanted()) {
      const std::int64_t most = std::min(share, work_left());
      if (most <= 0) return false;
      WithinResult within = decide(limit, most);
      if (within.answer == WithinResult::Answer::found) {
        result_.found = true;
        result_.peak = peak_of(problem_, within.order);
        result_.order = std::move(within.order);
      } else if (within.answer == WithinResult::Answer::none) {
        result_.lower_bound = std::min(within.least, result_.peak);
        unknown = result_.lower_bound;
      } else {
        if (settings_.interrupted && settings_.interrupted()) return false;
        unknown = limit + Bytes(1);
      }
      limit = unknown + Bytes((result_.peak - unknown).count() / 2);
      if (limit >= result_.peak) limit = unknown;
    }
    return starved_;
  }

  /// From one end and, if that takes too long, from the other; first from where the last answer came.
  WithinResult decide(Bytes limit, std::int64_t most) {
    WithinResult within;
    for (int i = 0; i < 2; ++i) {
      const std::int64_t allowed = std::min(most, work_left());
      if (allowed <= 0) break;
      within = order_within(problem_, limit, easy_end_, allowed, settings_.interrupted);
      result_.work += within.work;
      if (within.answer == WithinResult::Answer::found || within.answer == WithinResult::Answer::none) break;
      starved_ = starved_ || within.answer == WithinResult::Answer::out_of_work;
      easy_end_ = easy_end_ == OrderEnd::first ? OrderEnd::last : OrderEnd::first;
    }
    return within;
  }

  const OrderProblem& problem_;
  const ExactOrderSettings& settings_;
  OrderEnd easy_end_ = OrderEnd::first;
  /// True if in this round some limit was given up because the work limit was reached.
  bool starved_ = false;
  ExactOrderResult result_;
};

}  // namespace

ExactOrderResult exact_order(const OrderProblem& problem, const ExactOrderSettings& settings) {
  return LimitSearch(problem, settings).run();
}

namespace {

/// The maximum work for bounds, a second or two: on the largest graphs they would leave no time for the search.
constexpr std::int64_t kMaxBoundWork = 1 << 24;

/// The buffers that cross parts; part i is the nodes from bounds[i] to bounds[i + 1] - 1.
class Crossings {
 public:
  Crossings(const OrderProblem& problem, const std::vector<int>& bounds)
      : entering_(bounds.size() - 1), staying_(bounds.size()) {
    Table<NodeId, std::size_t> part_of(problem.node_count());
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
      for (const NodeId node : Ids<NodeId>(bounds[i], bounds[i + 1])) part_of[node] = i;
    }
    for (int b = 0; b < problem.buffer_count(); ++b) {
      const BufferId buffer(b);
      const NodeId writer = problem.writer(buffer);
      const auto readers = problem.readers(buffer);
      // The first part over which it stays.
      const std::size_t from = writer.valid() ? part_of[writer] + 1 : 0;
      std::size_t to = bounds.size() - 1;
      if (!problem.keep(buffer)) {
        if (readers.empty()) continue;
        to = part_of[readers.back()];
        if (to < from) continue;
        entering_[to].push_back(buffer);
      }
      staying_[from] += problem.size(buffer);
      staying_[to] -= problem.size(buffer);
    }
    for (std::size_t i = 1; i < staying_.size(); ++i) staying_[i] += staying_[i - 1];
  }

  [[nodiscard]] const std::vector<BufferId>& entering(std::size_t part) const { return entering_[part]; }
  [[nodiscard]] Bytes staying(std::size_t part) const { return staying_[part]; }

 private:
  std::vector<std::vector<BufferId>> entering_;
  std::vector<Bytes> staying_;
};

/// A part's nodes in the order of the whole, and what is known of its peak.
struct PartState {
  std::vector<NodeId> order{};
  Bytes peak{};
  Bytes lower_bound{};
};

class Partwise {
 public:
  Partwise(const OrderProblem& problem, std::span<const NodeId> known, const ExactOrderSettings& settings)
      : problem_(problem), settings_(settings), split_(split_at_fixed_nodes(problem)) {
    result_.order.assign(known.begin(), known.end());
    result_.parts = static_cast<int>(split_.parts.size());
    states_.reserve(split_.parts.size());
    for (const OrderPart& part : split_.parts) {
      PartState state;
      state.order.reserve(at(part.end - part.begin));
      for (int i = part.begin; i < part.end; ++i) {
        state.order.emplace_back(known[at(i)] - part.begin);
      }
      state.peak = peak_of(part.problem, state.order);
      state.lower_bound = part.problem.base_memory();
      states_.push_back(std::move(state));
    }
    result_.lower_bound = std::max(split_.fixed, settings.at_least);
  }

  PartwiseResult run() {
    std::vector<std::size_t> by_peak(states_.size());
    std::iota(by_peak.begin(), by_peak.end(), std::size_t{0});
    std::stable_sort(by_peak.begin(), by_peak.end(),
                     [&](std::size_t a, std::size_t b) { return states_[a].peak > states_[b].peak; });
    for (const std::size_t i : by_peak) bound(i);
    for (const std::size_t i : by_peak) solve(i);
    result_.peak = peak_of(problem_, result_.order);
    for (const PartState& state : states_) result_.open += state.peak > enough() ? 1 : 0;
    return std::move(result_);
  }

 private:
  /// The peak of a part that need not be improved.
  [[nodiscard]] Bytes enough() const { return std::max(result_.lower_bound, settings_.enough); }

  [[nodiscard]] bool over() const {
    return result_.work >= settings_.work_limit || (settings_.interrupted && settings_.interrupted());
  }

  void bound(std::size_t i) {
    PartState& state = states_[i];
    if (state.peak <= enough() || over()) return;
    const PeakBoundSettings settings{
        .enough = state.peak,
        .work_limit = std::min(kMaxBoundWork - result_.work, (settings_.work_limit - result_.work) / 4 + 1),
        .interrupted = settings_.interrupted};
    if (settings.work_limit <= 0) return;
    const PeakBound found = peak_bound(split_.parts[i].problem, state.order, settings);
    result_.work += found.work;
    state.lower_bound = found.bytes;
    result_.lower_bound = std::max(result_.lower_bound, found.bytes);
  }

  void solve(std::size_t i) {
    PartState& state = states_[i];
    if (state.peak <= enough() || over()) return;
    const ExactOrderSettings settings{.below = state.peak,
                                      .at_least = state.lower_bound,
                                      .enough = enough(),
                                      .work_limit = (settings_.work_limit - result_.work) / 2 + 1,
                                      .interrupted = settings_.interrupted};
    ExactOrderResult found = exact_order(split_.parts[i].problem, settings);
    result_.work += found.work;
    state.lower_bound = found.lower_bound;
    result_.lower_bound = std::max(result_.lower_bound, found.lower_bound);
    if (!found.found) return;
    state.peak = found.peak;
    state.order = std::move(found.order);
    const int begin = split_.parts[i].begin;
    for (std::size_t k = 0; k < state.order.size(); ++k) {
      result_.order[at(begin) + k] = NodeId(begin + state.order[k]);
    }
  }

  const OrderProblem& problem_;
  const ExactOrderSettings& settings_;
  const OrderParts split_;
  std::vector<PartState> states_;
  PartwiseResult result_;
};

}  // namespace

std::vector<NodeId> fixed_nodes(const OrderProblem& problem) {
  const int nodes = problem.node_count();
  // All earlier nodes lead to node i if each has a successor up to i; from there on the same holds again.
  Table<int, bool> fixed(nodes);
  int latest = 0;
  for (int i = 0; i < nodes; ++i) {
    fixed[i] = latest <= i;
    const auto later = problem.successors(NodeId(i));
    latest = std::max(latest, later.empty() ? nodes : static_cast<int>(later.front()));
  }
  int earliest = nodes;
  std::vector<NodeId> found;
  for (int i = nodes - 1; i >= 0; --i) {
    if (fixed[i] && earliest >= i) found.emplace_back(i);
    const auto earlier = problem.predecessors(NodeId(i));
    earliest = std::min(earliest, earlier.empty() ? -1 : static_cast<int>(earlier.back()));
  }
  std::reverse(found.begin(), found.end());
  return found;
}

OrderParts split_at_fixed_nodes(const OrderProblem& problem) {
  OrderParts split{.fixed = problem.base_memory()};
  const std::vector<Bytes> memory = memory_of(problem, given_order(problem));
  std::vector<int> bounds{0};
  for (const NodeId node : fixed_nodes(problem)) bounds.push_back(node + 1);
  if (bounds.back() < problem.node_count()) bounds.push_back(problem.node_count());
  const Crossings crossings(problem, bounds);
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const int begin = bounds[i];
    const int end = bounds[i + 1];
    if (end - begin == 1) {
      split.fixed = std::max(split.fixed, memory[at(begin)]);
    } else {
      split.parts.push_back(
          {begin, end,
           OrderProblem(problem, begin, end, crossings.entering(i), problem.base_memory() + crossings.staying(i))});
    }
  }
  return split;
}

PartwiseResult exact_order_by_parts(const OrderProblem& problem, std::span<const NodeId> known,
                                    const ExactOrderSettings& settings) {
  return Partwise(problem, known, settings).run();
}

}  // namespace remora
