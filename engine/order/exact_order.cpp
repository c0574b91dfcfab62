// SPDX-License-Identifier: Apache-2.0
#include "engine/order/exact_order.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/order/order_within.hpp"
#include "engine/order/peak_bound.hpp"

namespace remora {
namespace {

/// What a limit may cost in the first round; then four times as much each.
constexpr std::int64_t kFirstShare = 1 << 14;

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
    for (std::int64_t share = kFirstShare; wanted() && round(share);) {
      share = share < std::numeric_limits<std::int64_t>::max() / 4 ? 4 * share : share;
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool wanted() const { return !result_.proved() && result_.peak > settings_.enough; }

  [[nodiscard]] std::int64_t work_left() const {
    if (settings_.work_limit == 0) return std::numeric_limits<std::int64_t>::max();
    return settings_.work_limit - result_.work;
  }

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
  /// Whether in this round some limit was given up for want of work.
  bool starved_ = false;
  ExactOrderResult result_;
};

}  // namespace

ExactOrderResult exact_order(const OrderProblem& problem, const ExactOrderSettings& settings) {
  return LimitSearch(problem, settings).run();
}

}  // namespace remora
