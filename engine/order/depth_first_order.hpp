// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "engine/order/order_problem.hpp"
#include "model/random.hpp"

namespace remora {

/// Depth first from the ends: before a node all that it needs, one predecessor after the other. First comes the
/// predecessor that takes most beyond what it leaves, which for trees is the best of such orders (Liu 1986, On the
/// storage requirement in the out-of-core multifrontal method). On other graphs what a node takes is what it would take
/// if its predecessors shared nothing. With `noise` > 0 that is blurred by up to that part of it.
std::vector<NodeId> depth_first_order(const OrderProblem& problem, double noise, Random& random);

}  // namespace remora
