// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/covering.hpp"

#include <algorithm>
#include <limits>

#include "engine/bound/free_order.hpp"
#include "model/cover.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

constexpr std::size_t kGapsLookedAt = 10'000'000;
constexpr std::size_t kLeastEvents = 16;

std::vector<Gap> gaps_of(const Instance& instance, OpId op) {
  std::vector<Gap> gaps;
  for (const TensorId t : instance.outputs(op)) {
    Stage previous = op;
    const auto add = [&](Stage next) {
      if (next - previous > 1) gaps.push_back({previous + 1, next - 1, instance.size(t)});
      previous = next;
    };
    for (const OpId user : instance.users(t)) add(user);
    if (instance.keep(t)) add(instance.op_count());
  }
  std::sort(gaps.begin(), gaps.end(), [](const Gap& a, const Gap& b) { return a.first < b.first; });
  return gaps;
}

/// Appends the op's items: gaps that overlap, directly or through others, together.
void add_items(const Instance& instance, OpId op, int most_given_up, std::vector<CoverItem>& items) {
  const auto gaps = gaps_of(instance, op);
  for (std::size_t begin = 0; begin < gaps.size();) {
    Stage last = gaps[begin].last;
    std::size_t end = begin + 1;
    for (; end < gaps.size() && gaps[end].first <= last; ++end) last = std::max(last, gaps[end].last);
    CoverItem item{op, instance.duration(op), {}, most_given_up};
    for (; begin < end; ++begin) item.gaps.push_back(gaps[begin]);
    items.push_back(std::move(item));
  }
}

class DualAscent {
 public:
  explicit DualAscent(const CoverProblem& problem) : problem_(problem) {
    for (const CoverItem& item : problem.items) {
      residual_.push_back(item.cost);
      gaps_ += item.gaps.size();
    }
  }

  CoverBoundResult run() {
    std::vector<std::size_t> events;
    for (std::size_t k = 0; k < problem_.excess.size(); ++k) {
      if (problem_.excess[k] > Bytes(0)) events.push_back(k);
    }
    std::sort(events.begin(), events.end(), [&](std::size_t a, std::size_t b) {
      return problem_.excess[a] != problem_.excess[b] ? problem_.excess[a] > problem_.excess[b] : a < b;
    });
    events.resize(std::min(events.size(), std::max(kLeastEvents, kGapsLookedAt / (gaps_ + 1))));
    CoverBoundResult result;
    for (const std::size_t event : events) {
      const Duration more = relieve(event);
      if (more == Duration::max()) return {Duration(0), true, OpId(event)};
      result.extra += more;
      // More than all recomputes that are allowed cost together: proved as well, but not by one event.
      if (result.extra > problem_.all_recomputes) return {Duration(0), true, OpId::none()};
    }
    return result;
  }

 private:
  Duration relieve(std::size_t event) {
    offers_.clear();
    for (std::size_t i = 0; i < problem_.items.size(); ++i) {
      const Bytes gain = problem_.items[i].gain(static_cast<Stage>(event));
      if (gain > Bytes(0)) offers_.push_back({static_cast<std::int32_t>(i), gain, residual_[i]});
    }
    const Duration bound = spend_on_cover(problem_.excess[event], offers_);
    for (const CoverOffer& offer : offers_) residual_[static_cast<std::size_t>(offer.item)] -= offer.cost;
    return bound;
  }

  const CoverProblem& problem_;
  std::size_t gaps_ = 0;
  std::vector<Duration> residual_;
  std::vector<CoverOffer> offers_;
};

}  // namespace

Bytes CoverItem::gain(Stage k) const {
  Bytes total;
  for (const Gap& gap : gaps) {
    if (gap.first <= k && k <= gap.last) total += gap.size;
  }
  return total;
}

CoverProblem covering_relaxation(const Instance& instance, bool limit_computes) {
  if (instance.options().order == OrderMode::free) return free_order_relaxation(instance);
  CoverProblem problem;
  problem.all_recomputes = instance.all_recomputes();
  for (const Bytes live : evaluate(instance, input_order(instance)).memory) {
    problem.excess.push_back(live - instance.budget());
  }
  for (int v = 0; v < instance.op_count(); ++v) {
    const int most = instance.max_computes(OpId(v)) - 1;
    if (most < 1) continue;
    add_items(instance, OpId(v), limit_computes ? most : std::numeric_limits<int>::max(), problem.items);
  }
  return problem;
}

Certificate cover_certificate(const Instance& instance, const CoverProblem& problem, OpId event,
                              const std::vector<bool>& given_up) {
  std::vector<bool> may_be_away(static_cast<std::size_t>(instance.op_count()), false);
  for (std::size_t i = 0; i < problem.items.size(); ++i) {
    const bool away = given_up.empty() || given_up[i];
    if (away && problem.items[i].gain(event) > Bytes(0)) may_be_away[problem.items[i].op] = true;
  }
  Certificate certificate{event, instance.base_memory() + instance.workspace(event), {}};
  const auto used = instance.inputs(event);
  for (const RetentionInterval& interval : evaluate(instance, input_order(instance)).intervals) {
    if (interval.first_step > event || interval.last_step < event) continue;
    const bool in_gap = interval.first_step < event && interval.last_step > event &&
                        std::find(used.begin(), used.end(), interval.tensor) == used.end();
    if (in_gap && may_be_away[instance.producer(interval.tensor)]) continue;
    certificate.required += instance.size(interval.tensor);
    certificate.tensors.push_back(interval.tensor);
  }
  return certificate;
}

CoverBoundResult covering_bound(const CoverProblem& problem) {
  return DualAscent(problem).run();
}

}  // namespace remora
