// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "engine/order/order_problem.hpp"

namespace remora::test {

/// The least peak over every order, each tried out: for up to 9 nodes. It counts memory by itself, buffer by buffer,
/// and knows nothing of sets that many orders share.
Bytes least_peak(const OrderProblem& problem);

/// The same by a table over all sets of nodes, for up to 16 nodes: from the empty set on, one node more at a time.
Bytes least_peak_by_sets(const OrderProblem& problem);

/// The largest, over the nodes, of the least memory while the node runs over all sets of nodes that may have run
/// before. For up to 16 nodes.
Bytes node_bound(const OrderProblem& problem);

/// Of each node, whether it comes before or after every other one in every order.
std::vector<bool> fixed(const OrderProblem& problem);

}  // namespace remora::test
