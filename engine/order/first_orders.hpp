// SPDX-License-Identifier: Apache-2.0
//
// Orders of small peak that are made at once, without a search.
#pragma once

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

}  // namespace remora
