// SPDX-License-Identifier: Apache-2.0
//
// One order of a free-order problem as a problem of the staged form, whose input order is that order: what searches
// along an input order can then search it. A sequence of the view is one of the free problem with the same amounts.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/search/search.hpp"
#include "model/instance.hpp"
#include "model/recompute_plan.hpp"
#include "model/types.hpp"

namespace remora {

class OrderView {
 public:
  /// `order`: a topological order of the instance's ops that `after` permits.
  OrderView(const Instance& free, std::vector<OpId> order);

  /// Of the staged form; its op i is the free problem's op order()[i].
  [[nodiscard]] const Instance& staged() const { return staged_; }
  [[nodiscard]] const std::vector<OpId>& order() const { return order_; }

  /// The view's sequence in the free problem's numbers.
  [[nodiscard]] std::vector<OpId> sequence_of(std::span<const Recompute> plan) const;
  /// The recomputes of a free sequence whose first computes come in the view's order: each stays in its stage, where
  /// they run in the view's order, so that the peak may differ.
  [[nodiscard]] RecomputePlan plan_of(std::span<const OpId> sequence) const;

 private:
  std::vector<OpId> order_;
  Table<OpId, OpId> places_;
  Instance staged_;
};

/// A search along one order, for a search of the free problem: what it finds the whole is offered, and the listener of
/// the whole is told of its rounds.
class ViewSearch {
 public:
  /// `options`: its limits are what the first sitting may take. `starts`: see SearchParts.
  ViewSearch(Search& whole, OrderView view, const SolveOptions& options,
             std::vector<std::function<void(Search&)>> starts);

  [[nodiscard]] const std::vector<OpId>& order() const { return view_.order(); }
  /// Its best schedule is proved to be the best of this order, or there is none within the budget.
  [[nodiscard]] bool settled() const { return search_.settled(); }

  /// Takes over the recomputes of a free sequence whose first computes come in this order, if that is better.
  void learn(std::span<const OpId> sequence);
  /// Searches for so many seconds and units of work more.
  void sit(double seconds, Work work);

 private:
  void offer_best();

  Search& whole_;
  OrderView view_;
  Search search_;
  /// When the sitting at hand began.
  Work before_{};
};

}  // namespace remora
