// SPDX-License-Identifier: Apache-2.0
//
// Random moves of nodes in an order.
#pragma once

#include <vector>

#include "engine/order/order_profile.hpp"
#include "model/random.hpp"

namespace remora {

/// Into `places` those that are above the profile's target, ascending.
void list_overflowing(const OrderProfile& profile, std::vector<int>& places);

/// From 1 to `most`, small ones more often: each order of magnitude is as likely.
int draw_distance(int most, Random& random);

/// A place that the node may move to while all others stay in their order, near ones more often, earlier or later with
/// the same chance; its own place where it can't move that way.
int draw_goal(const OrderProfile& profile, NodeId node, Random& random);

}  // namespace remora
