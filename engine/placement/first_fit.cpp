// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/first_fit.hpp"

#include <algorithm>
#include <numeric>

namespace remora::placement {
namespace {

constexpr Units kNowhere = -1;

/// The largest load that every item meets.
std::vector<Units> crowds(const Part& part) {
  const std::vector<Units> loads = loads_of(part);
  // Largest loads of 2^k sections from each section on.
  std::vector<std::vector<Units>> table{loads};
  for (std::size_t width = 1; 2 * width <= loads.size(); width *= 2) {
    const std::vector<Units>& last = table.back();
    std::vector<Units> next(loads.size() - 2 * width + 1);
    for (std::size_t s = 0; s < next.size(); ++s) next[s] = std::max(last[s], last[s + width]);
    table.push_back(std::move(next));
  }
  std::vector<Units> crowd(part.items.size());
  for (std::size_t i = 0; i < part.items.size(); ++i) {
    for (const Sections& alive : part.items[i].alive) {
      std::size_t power = 0;
      while ((std::size_t{2} << power) <= at(alive.end - alive.first)) ++power;
      crowd[i] =
          std::max({crowd[i], table[power][at(alive.first)], table[power][at(alive.end) - (std::size_t{1} << power)]});
    }
  }
  return crowd;
}

/// The larger, the earlier in the order.
double weight_of(const Item& item, Key key, Units crowd) {
  const auto life = static_cast<double>(item.end() - item.first());
  switch (key) {
    case Key::area:
      return life * static_cast<double>(item.size);
    case Key::size:
      return static_cast<double>(item.size);
    case Key::life:
      return life;
    case Key::start:
      return -static_cast<double>(item.first());
    case Key::crowded:
      return static_cast<double>(crowd);
  }
  return 0;
}

}  // namespace

std::vector<int> order_by(const Part& part, const std::vector<Key>& keys) {
  const std::vector<Units> crowd = crowds(part);
  std::vector<int> order(part.items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    for (const Key key : keys) {
      const double of_a = weight_of(part.items[at(a)], key, crowd[at(a)]);
      const double of_b = weight_of(part.items[at(b)], key, crowd[at(b)]);
      if (of_a != of_b) return of_a > of_b;
    }
    return false;
  });
  return order;
}

std::vector<std::vector<Key>> usual_keys() {
  return {{Key::life, Key::area}, {Key::area, Key::size}, {Key::crowded, Key::area}, {Key::crowded, Key::life},
          {Key::size, Key::life}, {Key::life, Key::size}, {Key::crowded, Key::size}, {Key::start, Key::life}};
}

FirstFit::FirstFit(const Part& part, const std::vector<std::vector<int>>& overlaps)
    : part_(part), overlaps_(overlaps), offsets_(part.items.size(), kNowhere) {}

const std::vector<Units>& FirstFit::place(const std::vector<int>& order, Fit fit) {
  for (std::size_t i = 0; i < offsets_.size(); ++i) offsets_[i] = part_.items[i].fixed;
  for (const int item : order) {
    if (!part_.items[at(item)].is_fixed()) offsets_[at(item)] = offset_for(item, fit);
  }
  return offsets_;
}

Units FirstFit::offset_for(int item, Fit fit) {
  taken_.clear();
  for (const int other : overlaps_[at(item)]) {
    const Units offset = offsets_[at(other)];
    if (offset != kNowhere) taken_.push_back({offset, offset + part_.items[at(other)].size});
  }
  std::sort(taken_.begin(), taken_.end(), [](const Taken& a, const Taken& b) { return a.begin < b.begin; });
  const Units size = part_.items[at(item)].size;
  Units lowest = 0;
  Units best = kNowhere;
  Units best_room = 0;
  for (const Taken& taken : taken_) {
    const Units room = taken.begin - lowest;
    if (room >= size) {
      if (fit == Fit::lowest) return lowest;
      if (best == kNowhere || room < best_room) {
        best = lowest;
        best_room = room;
      }
    }
    lowest = std::max(lowest, part_.aligned(item, taken.end));
  }
  return best == kNowhere ? lowest : best;
}

}  // namespace remora::placement
