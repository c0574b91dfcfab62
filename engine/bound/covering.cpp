// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/covering.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "model/cover.hpp"
#include "model/evaluate.hpp"
#include "model/table.hpp"

namespace remora {
namespace {

constexpr std::size_t kGapsLookedAt = 10'000'000;
constexpr std::size_t kMinEvents = 16;

std::vector<Gap> gaps_of(const Instance& instance, OpId op) {
  std::vector<Gap> gaps;
  for (const TensorId t : instance.outputs(op)) {
    Stage previous{op};
    const auto add = [&](Stage next) {
      if (next - previous > 1) gaps.push_back({previous + 1, next - 1, instance.size(t)});
      previous = next;
    };
    for (const OpId user : instance.users(t)) add(Stage{user});
    if (instance.keep(t)) add(Stage{instance.op_count()});
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

  CoverBoundResult run(const std::function<bool()>& interrupted) {
    std::vector<std::size_t> events;
    for (std::size_t k = 0; k < problem_.excess.size(); ++k) {
      if (problem_.excess[k] > Bytes(0)) events.push_back(k);
    }
    std::sort(events.begin(), events.end(), [&](std::size_t a, std::size_t b) {
      return problem_.excess[a] != problem_.excess[b] ? problem_.excess[a] > problem_.excess[b] : a < b;
    });
    events.resize(std::min(events.size(), std::max(kMinEvents, kGapsLookedAt / (gaps_ + 1))));
    CoverBoundResult result;
    for (const std::size_t event : events) {
      if (interrupted && interrupted()) return result;
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
      const Bytes gain = problem_.items[i].gain(Stage(event));
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

/// True if the input, freed by op v's first run in some schedule, is read later if nothing is recomputed.
bool read_later(const Instance& instance, OpId v, TensorId input) {
  return instance.keep(input) || instance.users(input).back() != v;
}

bool may_run_again(const Instance& instance, TensorId tensor) {
  return instance.max_computes(instance.producer(tensor)) > 1;
}

/// Calls visit(input, saved) for each input of which an output of the op may take over the storage.
template <class Visit>
void for_each_taken_over(const Instance& instance, OpId op, Visit visit) {
  if (!instance.has_in_place()) return;
  for (const InnerPeak& peak : instance.inner(op, 0)) {
    for (const FreedInput& freed : peak.freed) visit(freed.tensor, std::min(freed.most, instance.size(freed.tensor)));
  }
}

/// The minimum memory of the op's first run beyond its inputs and outputs: an input that is read later is taken over
/// only where its op runs again.
Bytes first_workspace(const Instance& instance, OpId op) {
  Bytes workspace = instance.workspace(op);
  for_each_taken_over(instance, op, [&](TensorId input, Bytes saved) {
    if (read_later(instance, op, input) && !may_run_again(instance, input)) workspace += saved;
  });
  return workspace;
}

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
  // The memory above takes over inputs that are read for the last time.
  for (const OpId op : instance.ops()) {
    for_each_taken_over(instance, op, [&](TensorId input, Bytes saved) {
      if (read_later(instance, op, input) && may_run_again(instance, input)) problem.excess[op.index()] -= saved;
    });
  }
  for (int v = 0; v < instance.op_count(); ++v) {
    const int most = instance.max_computes(OpId(v)) - 1;
    if (most < 1) continue;
    add_items(instance, OpId(v), limit_computes ? most : std::numeric_limits<int>::max(), problem.items);
  }
  return problem;
}

Certificate cover_certificate(const Instance& instance, const CoverProblem& problem, OpId event) {
  Table<OpId, bool> may_be_away(instance.op_count(), false);
  for (const CoverItem& item : problem.items) {
    if (item.gain(Stage{event}) > Bytes(0)) may_be_away[item.op] = true;
  }
  Certificate certificate{event, instance.base_memory() + first_workspace(instance, event), {}};
  const auto used = instance.inputs(event);
  for (const RetentionInterval& interval : evaluate(instance, input_order(instance)).intervals) {
    if (interval.first_step > event || interval.last_step < event) continue;
    // A tensor to keep may also be recomputed after the last op.
    const bool comes_later = interval.last_step > event || instance.keep(interval.tensor);
    const bool in_gap = interval.first_step < event && comes_later &&
                        std::find(used.begin(), used.end(), interval.tensor) == used.end();
    if (in_gap && may_be_away[instance.producer(interval.tensor)]) continue;
    certificate.required += instance.size(interval.tensor);
    certificate.tensors.push_back(interval.tensor);
  }
  return certificate;
}

CoverBoundResult covering_bound(const CoverProblem& problem, const std::function<bool()>& interrupted) {
  return DualAscent(problem).run(interrupted);
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

/// True if the tensor is certainly needed after `op`'s first run, apart from being read by `op` itself.
bool needed_later(const Instance& instance, const Ancestors& ancestors, TensorId tensor, OpId op) {
  const auto users = instance.users(tensor);
  return instance.keep(tensor) ||
         std::any_of(users.begin(), users.end(), [&](OpId user) { return ancestors.contains(user, op); });
}

/// Bytes of the op's outputs that are resident across the event if it is not recomputed.
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
  if (instance.op_count() > kMaxOpsOfFreeRelaxation) return problem;
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
        item.gaps.back().last = Stage{k};
      } else {
        item.gaps.push_back({Stage{k}, Stage{k}, held});
      }
    }
    if (!item.gaps.empty() && instance.max_computes(op) > 1) problem.items.push_back(std::move(item));
  }
  return problem;
}

namespace {

/// Prices become integers of at most this many bits. With sizes and durations within 50 bits, sums stay within 127.
constexpr int kPriceBits = 38;
constexpr int kMaxCoverShift = 60;

struct IntegerPrices {
  std::vector<std::int64_t> prices{};
  /// A price of 1 means 2^-shift durations a byte.
  int shift = 0;
};

/// Events that hold the budget ask for nothing, whatever their price.
IntegerPrices round_prices(const CoverProblem& problem, std::span<const double> prices) {
  double largest = 0;
  for (const double price : prices) largest = std::max(largest, price);
  IntegerPrices result;
  if (largest > 0) {
    int exponent = 0;
    std::frexp(largest, &exponent);
    result.shift = std::clamp(kPriceBits - exponent, 0, kMaxCoverShift);
  }
  for (const double price : prices) {
    const double scaled = std::ldexp(std::max(0.0, price), result.shift);
    // A price out of all proportion is cut off; any price is valid.
    const bool asks = problem.excess[result.prices.size()] > Bytes(0);
    result.prices.push_back(asks ? static_cast<std::int64_t>(std::min(scaled, std::ldexp(1.0, kPriceBits + 1))) : 0);
  }
  return result;
}

Wide demand(const CoverProblem& problem, const IntegerPrices& rounded) {
  Wide total = 0;
  for (std::size_t k = 0; k < problem.excess.size(); ++k) {
    total += Wide{rounded.prices[k]} * problem.excess[k].count();
  }
  return total;
}

/// The reward of each item at the prices; at an event no more than its excess.
std::vector<Wide> rewards(const CoverProblem& problem, const IntegerPrices& rounded) {
  std::vector<Stage> priced;
  for (std::size_t k = 0; k < rounded.prices.size(); ++k) {
    if (rounded.prices[k] > 0) priced.push_back(Stage(k));
  }
  std::vector<Wide> result;
  for (const CoverItem& item : problem.items) {
    Wide reward = 0;
    item.for_each_stretch([&](Stage first, Stage last) {
      for (auto k = std::lower_bound(priced.begin(), priced.end(), first); k != priced.end() && *k <= last; ++k) {
        const auto event = at(*k);
        reward += Wide{rounded.prices[event]} * std::min(item.gain(*k), problem.excess[event]).count();
      }
    });
    result.push_back(reward);
  }
  return result;
}

}  // namespace

PricedBound priced_bound(const CoverProblem& problem, std::span<const double> prices) {
  const IntegerPrices rounded = round_prices(problem, prices);
  const auto earned = rewards(problem, rounded);
  const auto reduced = [&](std::size_t i) {
    return (Wide{problem.items[i].cost.count()} << rounded.shift) - earned[i];
  };
  Wide bound = demand(problem, rounded);
  std::vector<Wide> extra(problem.items.size(), 0);
  std::vector<Wide> sorted;
  problem.for_each_op([&](std::size_t begin, std::size_t end, std::size_t limit) {
    sorted.clear();
    for (std::size_t i = begin; i < end; ++i) sorted.push_back(std::min(Wide{0}, reduced(i)));
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t n = 0; n < limit; ++n) bound += sorted[n];
    // With item i in, the best limit - 1 of the others: the one that makes room is the last of the best `limit`.
    const Wide last_in = limit > 0 ? sorted[limit - 1] : Wide{0};
    for (std::size_t i = begin; i < end; ++i) extra[i] = std::max(Wide{0}, reduced(i) - last_in);
  });
  PricedBound result;
  // Costs are not negative: neither is the bound, from which the penalties are counted.
  const Wide whole = std::max(Wide{0}, cutoff(bound, rounded.shift));
  result.bound = Duration(static_cast<std::int64_t>(whole));
  for (const Wide more : extra) {
    const Wide with = std::max(Wide{0}, cutoff(bound + more, rounded.shift) - whole);
    result.penalties.emplace_back(static_cast<std::int64_t>(std::min(with, Wide{Duration::max().count()} / 4)));
  }
  return result;
}

bool proves_infeasible(const CoverProblem& problem, std::span<const double> prices) {
  const IntegerPrices rounded = round_prices(problem, prices);
  const auto earned = rewards(problem, rounded);
  Wide most = 0;
  std::vector<Wide> sorted;
  problem.for_each_op([&](std::size_t begin, std::size_t end, std::size_t limit) {
    sorted.assign(earned.begin() + static_cast<std::ptrdiff_t>(begin),
                  earned.begin() + static_cast<std::ptrdiff_t>(end));
    std::sort(sorted.rbegin(), sorted.rend());
    for (std::size_t n = 0; n < limit; ++n) most += sorted[n];
  });
  return most < demand(problem, rounded);
}

Duration safe_bound(double units, std::int64_t unit) {
  constexpr double kTolerance = 1e-3;
  constexpr double kRelativeError = 1e-9;
  const double safe = std::ceil(units * (1.0 - kRelativeError) - kTolerance);
  if (!(safe > 0)) return Duration(0);
  // For a program without solutions, CBC's value may exceed all durations.
  const double most = static_cast<double>(kSaturated);
  return Duration(saturating_product(static_cast<std::int64_t>(std::min(safe, most)), unit));
}

}  // namespace remora
