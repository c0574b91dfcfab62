// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/covering.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "model/cover.hpp"
#include "model/evaluate.hpp"
#include "model/table.hpp"

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
    for (const CoverOffer& offer : offers_) residual_[at(offer.item)] -= offer.cost;
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
  if (instance.problem().order == OrderMode::free) return free_order_relaxation(instance);
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
  Table<OpId, bool> may_be_away(instance.op_count(), false);
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

namespace {

/// For each op the set of its ancestors, a bit an op: by data or by `after`.
class Ancestors {
 public:
  explicit Ancestors(const Instance& instance) : words_((at(instance.op_count()) + 63) / 64) {
    bits_.assign(words_ * at(instance.op_count()), 0);
    for (int v = 0; v < instance.op_count(); ++v) {
      const OpId op(v);
      for (const TensorId t : instance.inputs(op)) add(op, instance.producer(t));
      for (const OpId earlier : instance.graph()[op].after) add(op, earlier);
    }
  }

  [[nodiscard]] bool contains(OpId op, OpId ancestor) const {
    const auto index = ancestor.index();
    return (row(op)[index / 64] >> (index % 64) & 1U) != 0;
  }

 private:
  [[nodiscard]] const std::uint64_t* row(OpId op) const { return bits_.data() + words_ * op.index(); }
  void add(OpId op, OpId ancestor) {
    std::uint64_t* own = bits_.data() + words_ * op.index();
    const std::uint64_t* theirs = row(ancestor);
    for (std::size_t word = 0; word < words_; ++word) own[word] |= theirs[word];
    const auto index = ancestor.index();
    own[index / 64] |= std::uint64_t{1} << (index % 64);
  }

  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

/// Whether the tensor is certainly needed after `op`'s first compute, beside being read by `op` itself.
bool needed_later(const Instance& instance, const Ancestors& ancestors, TensorId tensor, OpId op) {
  const auto users = instance.users(tensor);
  return instance.keep(tensor) ||
         std::any_of(users.begin(), users.end(), [&](OpId user) { return ancestors.contains(user, op); });
}

/// What the op's outputs hold across the event if it is not recomputed.
Bytes held_across(const Instance& instance, const Ancestors& ancestors, OpId op, OpId event) {
  const auto used = instance.inputs(event);
  Bytes total;
  for (const TensorId t : instance.outputs(op)) {
    const bool read_here = std::find(used.begin(), used.end(), t) != used.end();
    if (!read_here && needed_later(instance, ancestors, t, event)) total += instance.size(t);
  }
  return total;
}

}  // namespace

CoverProblem free_order_relaxation(const Instance& instance) {
  CoverProblem problem;
  problem.all_recomputes = instance.all_recomputes();
  for (int k = 0; k < instance.op_count(); ++k) {
    problem.excess.push_back(instance.footprint(OpId(k)) - instance.budget());
  }
  if (instance.op_count() > kMostOpsOfFreeRelaxation) return problem;
  const Ancestors ancestors(instance);
  for (int v = 0; v < instance.op_count(); ++v) {
    const OpId op(v);
    CoverItem item{op, instance.duration(op), {}, 1};
    for (int k = v + 1; k < instance.op_count(); ++k) {
      if (!ancestors.contains(OpId(k), op)) continue;
      const Bytes held = held_across(instance, ancestors, op, OpId(k));
      if (held == Bytes(0)) continue;
      problem.excess[at(k)] += held;
      const bool goes_on = !item.gaps.empty() && item.gaps.back().last == k - 1 && item.gaps.back().size == held;
      if (goes_on) {
        item.gaps.back().last = k;
      } else {
        item.gaps.push_back({k, k, held});
      }
    }
    if (!item.gaps.empty() && instance.max_computes(op) > 1) problem.items.push_back(std::move(item));
  }
  return problem;
}

}  // namespace remora
