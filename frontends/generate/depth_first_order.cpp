// SPDX-License-Identifier: Apache-2.0
#include "frontends/generate/depth_first_order.hpp"

#include <cassert>
#include <cstddef>

namespace remora::generate {

std::vector<int> depth_first_order(const std::vector<std::vector<int>>& predecessors, Random& random) {
  const std::size_t count = predecessors.size();
  std::vector<std::vector<int>> successors(count);
  std::vector<std::size_t> missing(count);
  std::vector<int> ready;
  for (std::size_t op = 0; op < count; ++op) {
    missing[op] = predecessors[op].size();
    if (missing[op] == 0) ready.push_back(static_cast<int>(op));
    for (const int before : predecessors[op])
      successors[static_cast<std::size_t>(before)].push_back(static_cast<int>(op));
  }
  random.shuffle(ready);
  std::vector<int> order;
  order.reserve(count);
  std::vector<int> made_ready;
  while (!ready.empty()) {
    order.push_back(ready.back());
    ready.pop_back();
    made_ready.clear();
    for (const int after : successors[static_cast<std::size_t>(order.back())]) {
      if (--missing[static_cast<std::size_t>(after)] == 0) made_ready.push_back(after);
    }
    random.shuffle(made_ready);
    ready.insert(ready.end(), made_ready.begin(), made_ready.end());
  }
  assert(order.size() == count);
  return order;
}

}  // namespace remora::generate
