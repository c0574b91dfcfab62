// SPDX-License-Identifier: Apache-2.0
#include "frontends/generate/layers.hpp"

#include <algorithm>
#include <cmath>

namespace remora::generate {

Layers::Layers(const std::vector<int>& widths) {
  firsts_.reserve(widths.size() + 1);
  firsts_.push_back(0);
  for (const int width : widths) firsts_.push_back(firsts_.back() + width);
}

Layers draw_layers(int ops, double mean, Random& random) {
  constexpr double kVariability = 0.75;
  const int least = std::max(1, static_cast<int>(std::ceil((1 - kVariability) * mean)));
  const int most = std::max(least, static_cast<int>(std::floor((1 + kVariability) * mean)));
  std::vector<int> widths{1};
  int left = ops - 2;
  while (left > 0) {
    const int width = least + static_cast<int>(random.below(static_cast<std::size_t>(most - least) + 1));
    widths.push_back(std::min(width, left));
    left -= widths.back();
  }
  widths.push_back(1);
  return Layers(widths);
}

}  // namespace remora::generate
