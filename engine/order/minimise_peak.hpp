// SPDX-License-Identifier: Apache-2.0
//
// Orders of small peak that are made at once, without a search.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/order/order_problem.hpp"
#include "model/random.hpp"

namespace remora {

/// List scheduling: of the nodes that are ready, always the one after which least is resident; among equals the one
/// that takes least while it runs, then the one that became ready last. With `noise` > 0 what is resident is blurred by
/// up to that part of what the node writes, a random amount for each node. O(precedences * log(nodes)), but for looking
/// once through the readers of each buffer.
std::vector<NodeId> list_order(const OrderProblem& problem, double noise, Random& random);

/// Depth first from the ends: before a node all that it needs, one predecessor after the other. First comes the
/// predecessor that takes most beyond what it leaves, which for trees is the best of such orders (Liu 1986, On the
/// storage requirement in the out-of-core multifrontal method). On other graphs what a node takes is what it would take
/// if its predecessors shared nothing. With `noise` > 0 that is blurred by up to that part of it.
std::vector<NodeId> depth_first_order(const OrderProblem& problem, double noise, Random& random);

// Orders of small peak, each node once: what reordering alone can save, and a bound below which no order comes.
//
//     a few orders at once            list_order, depth_first_order
//     a bound by minimum cuts         peak_bound.hpp
//     then in turns
//       exactly, part by part         exact_order.hpp; with twice the work each time
//       in rounds                     annealers of different temperatures (order_workers.hpp), and windows of the
//                                     order by beam search, as TBB tasks: all are given the same order, and
//                                     what they find is merged in their order

struct OrderSettings {
  /// An order of at most this peak will do.
  Bytes target{};
  /// Units of work; with a limit the same seed gives the same order whatever the number of threads.
  std::int64_t work_limit = INT64_MAX;
  int threads = 1;
  std::uint64_t seed = 1;
  /// Told of every better order, from the thread that asked. May be empty.
  std::function<void(const std::vector<NodeId>&, Bytes peak)> improved{};
  /// Asked in every round, from the same thread, with the work done so far: true ends the search. May be empty.
  std::function<bool(std::int64_t work)> enough{};
};

struct OrderResult {
  /// The best order found, the given one if none is better.
  std::vector<NodeId> order{};
  Bytes peak{};
  /// No order has a lower peak.
  Bytes lower_bound{};
  std::int64_t work = 0;
};

/// Lowers the peak of the given order until it is at most the target or the lower bound, the work limit is reached,
/// `interrupted` holds or the settings' `enough` does. `interrupted` is asked from several threads. Without any limit
/// it may never end. Where all buffers together take 2^61 bytes or more, the orders made at once are all there is.
/// Memory: O(nodes + precedences) for each worker, and some 256 MB for the exact search.
OrderResult minimise_peak(const OrderProblem& problem, const OrderSettings& settings,
                          const std::function<bool()>& interrupted);

}  // namespace remora
