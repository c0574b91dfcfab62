// SPDX-License-Identifier: Apache-2.0
#include "engine/order/order_moves.hpp"

#include <algorithm>
#include <cmath>

namespace remora {

void list_overflowing(const OrderProfile& profile, std::vector<int>& places) {
  places.clear();
  for (int i = 0; i < profile.size(); ++i) {
    if (profile.memory(i) > profile.target()) places.push_back(i);
  }
}

int draw_distance(int most, Random& random) {
  return std::min(most, static_cast<int>(std::exp(random.unit() * std::log(static_cast<double>(most) + 1))));
}

int draw_goal(const OrderProfile& profile, NodeId node, Random& random) {
  const int from = profile.place(node);
  const bool late = random.below(2) == 0;
  const int room = late ? profile.latest(node) - from : from - profile.earliest(node);
  if (room == 0) return from;
  return late ? from + draw_distance(room, random) : from - draw_distance(room, random);
}

}  // namespace remora
