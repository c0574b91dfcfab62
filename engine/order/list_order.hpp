// SPDX-License-Identifier: Apache-2.0
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

}  // namespace remora
