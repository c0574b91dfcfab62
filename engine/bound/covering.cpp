// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/covering.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

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
void add_items(const Instance& instance, OpId op, std::vector<CoverItem>& items) {
  const auto gaps = gaps_of(instance, op);
  for (std::size_t begin = 0; begin < gaps.size();) {
    Stage last = gaps[begin].last;
    std::size_t end = begin + 1;
    for (; end < gaps.size() && gaps[end].first <= last; ++end) last = std::max(last, gaps[end].last);
    CoverItem item{op, instance.duration(op), {}};
    for (; begin < end; ++begin) item.gaps.push_back(gaps[begin]);
    items.push_back(std::move(item));
  }
}

/// An item as one event sees it.
struct Offer {
  std::size_t item = 0;
  Bytes gain{};
  Duration cost{};
};

/// The fractional knapsack: the least cost of offers whose gains reach `excess`, rounded up; Duration::max() if all of
/// them don't. `critical` gets the cost per byte of the last offer taken. Sorts the offers by cost per byte.
Duration knapsack(Bytes excess, std::vector<Offer>& offers, double& critical) {
  const auto price = [](const Offer& offer) {
    return static_cast<double>(offer.cost.count()) / static_cast<double>(offer.gain.count());
  };
  std::sort(offers.begin(), offers.end(), [&](const Offer& a, const Offer& b) {
    const double price_a = price(a);
    const double price_b = price(b);
    return price_a != price_b ? price_a < price_b : a.item < b.item;
  });
  Duration total;
  for (const Offer& offer : offers) {
    critical = price(offer);
    if (offer.gain >= excess) {
      const Wide part = Wide{offer.cost.count()} * excess.count();
      return total + Duration(static_cast<std::int64_t>((part + offer.gain.count() - 1) / offer.gain.count()));
    }
    total += offer.cost;
    excess -= offer.gain;
  }
  return Duration::max();
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
    }
    return result;
  }

 private:
  Duration relieve(std::size_t event) {
    offers_.clear();
    for (std::size_t i = 0; i < problem_.items.size(); ++i) {
      const Bytes gain = problem_.items[i].gain(static_cast<Stage>(event));
      if (gain > Bytes(0)) offers_.push_back({i, gain, residual_[i]});
    }
    double critical = 0;
    const Duration full = knapsack(problem_.excess[event], offers_, critical);
    if (full == Duration::max() || full == Duration(0)) return full;
    // Spend of each item's cost only its bytes at the critical price; the rest is left for other events. The value is
    // then computed for exactly what was spent, so rounding can't make the bound wrong.
    for (Offer& offer : offers_) {
      const double price = std::ceil(critical * static_cast<double>(offer.gain.count()));
      if (price < static_cast<double>(offer.cost.count())) offer.cost = Duration(static_cast<std::int64_t>(price));
      residual_[offer.item] -= offer.cost;
    }
    return knapsack(problem_.excess[event], offers_, critical);
  }

  const CoverProblem& problem_;
  std::size_t gaps_ = 0;
  std::vector<Duration> residual_;
  std::vector<Offer> offers_;
};

}  // namespace

Bytes CoverItem::gain(Stage k) const {
  Bytes total;
  for (const Gap& gap : gaps) {
    if (gap.first <= k && k <= gap.last) total += gap.size;
  }
  return total;
}

CoverProblem covering_relaxation(const Instance& instance) {
  CoverProblem problem;
  for (const Bytes live : evaluate(instance, input_order(instance)).memory) {
    problem.excess.push_back(live - instance.budget());
  }
  for (int v = 0; v < instance.op_count(); ++v) {
    if (instance.max_computes(OpId(v)) > 1) add_items(instance, OpId(v), problem.items);
  }
  return problem;
}

CoverBoundResult covering_bound(const CoverProblem& problem) {
  return DualAscent(problem).run();
}

}  // namespace remora
