// SPDX-License-Identifier: Apache-2.0
//
// Order and recomputes together: the search of problems in free order (Moccasin, section 2.1).
//
//     an order of small peak, without recompute            minimise_peak: within the budget, nothing is left to pay
//     then in turns, by what each has brought of late:
//       recomputes along one order                         all that searches along an input order (OrderView),
//                                                          of the file, of small peak, of the incumbent
//       both at once, on the incumbent                     free_workers.hpp; the free-order constraint program on
//                                                          neighbourhoods or, if small, on all
//
// One incumbent is handed from turn to turn. The bound is that of the free order: a relaxation of one order says
// nothing about another.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/allowance.hpp"
#include "engine/base/callbacks.hpp"
#include "engine/base/deadline.hpp"
#include "engine/base/options.hpp"
#include "engine/search/search.hpp"
#include "model/instance.hpp"
#include "model/sequence.hpp"
#include "model/types.hpp"

namespace remora {

/// The crew of the joint turns.
Mix free_order_crew(const Instance& instance, const SolveOptions& options, SearchPhase phase);

/// Searches until the whole, of a problem in free order and with the crew above, is settled or a limit of its options
/// is reached. `blocks`: as in SolveCallbacks.
void search_free_order(Search& whole, const Deadline& deadline, BlockStore* blocks);

// One order of a free-order problem as a problem of the staged form, whose input order is that order: what searches
// along an input order can then search it. A sequence of the view is one of the free problem with the same amounts.

class OrderView {
 public:
  /// `order`: a topological order of the instance's ops that `after` permits.
  OrderView(const Instance& free, Order order);

  /// Problem of the staged form; its op i is the free problem's op order()[i].
  [[nodiscard]] const Instance& staged() const { return staged_; }
  [[nodiscard]] const Order& order() const { return order_; }

  /// The view's runs in the free problem's numbers.
  [[nodiscard]] std::vector<Compute> sequence_of(std::vector<Compute> runs) const;
  /// The runs of a free sequence whose first computes come in the view's order: each recompute stays in its stage,
  /// where they run in the view's order, so that the peak may differ.
  [[nodiscard]] std::vector<Compute> staged_runs(std::span<const Compute> sequence) const;

 private:
  Order order_;
  Table<OpId, OpId> places_;
  Instance staged_;
};

/// A search along one order, for a search of the free problem: what it finds the whole is offered, and the listener of
/// the whole is told of its rounds.
class ViewSearch {
 public:
  /// `options`: its limits are what the first session may take.
  ViewSearch(Search& whole, OrderView view, const SolveOptions& options, std::vector<Start> starts);

  [[nodiscard]] const Order& order() const { return view_.order(); }
  /// Its best schedule is proved to be the best of this order, or there is none within the budget.
  [[nodiscard]] bool is_decided() const { return search_.is_decided(); }

  /// Takes over the recomputes of a free sequence whose first computes come in this order, if that is better.
  void learn(std::span<const Compute> sequence);
  /// Searches for so much more.
  void run_session(const Limits& limits);

 private:
  /// Unless the whole has been offered it before: to evaluate it takes a third of a second where ops read millions.
  void offer_best();

  Search& whole_;
  OrderView view_;
  Search search_;
  /// When the session at hand began.
  Work before_{};
  /// Peak and extra time of what the whole was offered last.
  std::optional<std::pair<Bytes, Duration>> offered_;
};

}  // namespace remora
