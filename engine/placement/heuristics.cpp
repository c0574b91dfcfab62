// SPDX-License-Identifier: Apache-2.0

#include "engine/placement/heuristics.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

namespace remora::placement {
namespace {

constexpr Grains kNowhere = -1;

/// The largest load that every item meets.
std::vector<Grains> crowds(const Part& part) {
  const std::vector<Grains> loads = loads_of(part);
  // Largest loads of 2^k sections from each section on.
  std::vector<std::vector<Grains>> table{loads};
  for (std::size_t width = 1; 2 * width <= loads.size(); width *= 2) {
    const std::vector<Grains>& last = table.back();
    std::vector<Grains> next(loads.size() - 2 * width + 1);
    for (std::size_t s = 0; s < next.size(); ++s) next[s] = std::max(last[s], last[s + width]);
    table.push_back(std::move(next));
  }
  std::vector<Grains> crowd(part.items.size());
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
double weight_of(const Item& item, Key key, Grains crowd) {
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
  const std::vector<Grains> crowd = crowds(part);
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

const std::vector<Grains>& FirstFit::place(const std::vector<int>& order, Fit fit) {
  for (std::size_t i = 0; i < offsets_.size(); ++i) offsets_[i] = part_.items[i].fixed;
  for (const int item : order) {
    if (!part_.items[at(item)].is_fixed()) offsets_[at(item)] = offset_for(item, fit);
  }
  return offsets_;
}

Grains FirstFit::offset_for(int item, Fit fit) {
  taken_.clear();
  for (const int other : overlaps_[at(item)]) {
    const Grains offset = offsets_[at(other)];
    if (offset != kNowhere) taken_.push_back({offset, offset + part_.items[at(other)].size});
  }
  std::sort(taken_.begin(), taken_.end(), [](const Taken& a, const Taken& b) { return a.begin < b.begin; });
  const Grains size = part_.items[at(item)].size;
  Grains lowest = 0;
  Grains best = kNowhere;
  Grains best_room = 0;
  for (const Taken& taken : taken_) {
    const Grains room = taken.begin - lowest;
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

namespace {

/// The items not yet placed, by where they begin: asks for the best one inside a stretch of sections.
class Waiting {
 public:
  Waiting(const Part& part, const std::vector<Worth>& worth)
      : begins_(at(part.sections) + 1), order_(part.items.size()), place_(part.items.size()) {
    // By counting; those that begin together stand together, in their order.
    for (const Item& item : part.items) ++begins_[at(item.first()) + 1];
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    std::vector<std::size_t> next(begins_.begin(), begins_.end() - 1);
    for (int i = 0; i < part.count(); ++i) {
      place_[at(i)] = next[at(part.items[at(i)].first())]++;
      order_[place_[at(i)]] = i;
    }
    while (leaves_ < order_.size()) leaves_ *= 2;
    nodes_.resize(2 * leaves_);
    const std::vector<int> ranks = ranks_of(worth);
    for (std::size_t k = 0; k < order_.size(); ++k) {
      nodes_[leaves_ + k] = {part.items[at(order_[k])].end(), ranks[at(order_[k])]};
    }
    for (std::size_t node = leaves_ - 1; node > 0; --node) join(node);
  }

  /// The best of those that live within sections [first, end); -1 if there is none.
  [[nodiscard]] int best(int first, int end) const {
    Found found;
    seek(1, 0, leaves_, begins_[at(first)], begins_[at(end)], end, found);
    return found.place < order_.size() ? order_[found.place] : -1;
  }

  void remove(int item) {
    std::size_t node = leaves_ + place_[at(item)];
    nodes_[node] = {};
    for (node /= 2; node > 0 && join(node); node /= 2) {
    }
  }

 private:
  struct Node {
    int earliest_end = std::numeric_limits<int>::max();
    int most = -1;

    friend bool operator==(const Node&, const Node&) = default;
  };
  struct Found {
    int worth = -1;
    std::size_t place = std::numeric_limits<std::size_t>::max();
  };

  /// Small numbers in place of worths, equal ones where these are equal: nodes are compared far more often than there are items.
  static std::vector<int> ranks_of(const std::vector<Worth>& worth) {
    std::vector<std::pair<Worth, int>> sorted;
    sorted.reserve(worth.size());
    for (std::size_t i = 0; i < worth.size(); ++i) sorted.emplace_back(worth[i], static_cast<int>(i));
    std::sort(sorted.begin(), sorted.end());
    std::vector<int> ranks(worth.size());
    int rank = 0;
    for (std::size_t k = 0; k < sorted.size(); ++k) {
      if (k > 0 && sorted[k].first != sorted[k - 1].first) ++rank;
      ranks[at(sorted[k].second)] = rank;
    }
    return ranks;
  }

  /// Returns true if that changed it.
  bool join(std::size_t node) {
    const Node& a = nodes_[2 * node];
    const Node& b = nodes_[2 * node + 1];
    const Node joined{std::min(a.earliest_end, b.earliest_end), std::max(a.most, b.most)};
    return std::exchange(nodes_[node], joined) != joined;
  }

  /// Among the leaves [from, to) of a node that spans `width` of them from `begin` on.
  void seek(std::size_t node, std::size_t begin, std::size_t width, std::size_t from, std::size_t to, int end,
            Found& found) const {
    if (begin >= to || begin + width <= from) return;
    const Node& here = nodes_[node];
    if (here.earliest_end > end || here.most <= found.worth) return;
    if (width == 1) {
      found = {here.most, begin};
      return;
    }
    const std::size_t half = width / 2;
    const bool left_first = nodes_[2 * node].most >= nodes_[2 * node + 1].most;
    for (const bool left : {left_first, !left_first}) {
      seek(2 * node + (left ? 0 : 1), left ? begin : begin + half, half, from, to, end, found);
    }
  }

  /// By section, how many begin before it.
  std::vector<std::size_t> begins_;
  std::vector<int> order_;
  /// By item, its place in the order.
  std::vector<std::size_t> place_;
  std::size_t leaves_ = 1;
  std::vector<Node> nodes_;
};

/// The outline: terraces, which part the sections among them, lowest found first.
class Outline {
 public:
  struct Terrace {
    int first;
    int end;
    Grains height;
  };

  Outline(int sections, Grains height)
      : end_(at(sections), 0), height_(at(sections), kNowhere), first_before_(at(sections) + 1, 0) {
    add({0, sections, height});
  }

  /// The lowest terrace; the first of equal ones.
  [[nodiscard]] Terrace lowest() {
    while (height_[at(by_height_.top().second)] != by_height_.top().first) by_height_.pop();
    return terrace_at(by_height_.top().second);
  }

  /// The terrace's sections [first, end) rise to this height.
  void raise(const Terrace& terrace, int first, int end, Grains height) {
    drop(terrace);
    if (terrace.first < first) add({terrace.first, first, terrace.height});
    if (end < terrace.end) add({end, terrace.end, terrace.height});
    Terrace raised{first, end, height};
    // One with neighbours of the same height.
    if (at(end) < height_.size() && height_[at(end)] == height) {
      const Terrace other = terrace_at(end);
      drop(other);
      raised.end = other.end;
    }
    if (first > 0 && height_[at(first_before_[at(first)])] == height) {
      const Terrace other = terrace_at(first_before_[at(first)]);
      drop(other);
      raised.first = other.first;
    }
    add(raised);
  }

  /// Fills the terrace up to its lower neighbour.
  void fill(const Terrace& terrace) {
    Grains height = std::numeric_limits<Grains>::max();
    if (terrace.first > 0) height = height_[at(first_before_[at(terrace.first)])];
    if (at(terrace.end) < height_.size()) height = std::min(height, height_[at(terrace.end)]);
    raise(terrace, terrace.first, terrace.end, height);
  }

 private:
  [[nodiscard]] Terrace terrace_at(int first) const { return {first, end_[at(first)], height_[at(first)]}; }
  void add(const Terrace& terrace) {
    end_[at(terrace.first)] = terrace.end;
    height_[at(terrace.first)] = terrace.height;
    first_before_[at(terrace.end)] = terrace.first;
    by_height_.emplace(terrace.height, terrace.first);
  }
  /// Its entry by height stays until it is met.
  void drop(const Terrace& terrace) { height_[at(terrace.first)] = kNowhere; }

  /// By first section of a terrace: where it ends and how high it is, kNowhere where none begins.
  std::vector<int> end_;
  std::vector<Grains> height_;
  /// By section, where the terrace that ends there begins.
  std::vector<int> first_before_;
  using Entry = std::pair<Grains, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> by_height_;
};

/// Where what is fixed ends; items can be placed above it.
Grains top_of_fixed(const Part& part) {
  Grains top = 0;
  for (const Item& item : part.items) {
    if (item.is_fixed()) top = std::max(top, item.fixed + item.size);
  }
  return top;
}

}  // namespace

std::vector<Grains> pile(const Part& part) {
  std::vector<Grains> offsets(part.items.size());
  Grains top = top_of_fixed(part);
  for (int i = 0; i < part.count(); ++i) {
    const Item& item = part.items[at(i)];
    offsets[at(i)] = item.is_fixed() ? item.fixed : part.aligned(i, top);
    if (!item.is_fixed()) top = offsets[at(i)] + item.size;
  }
  return offsets;
}

std::vector<Worth> worth_by(const Part& part, Choice choice) {
  std::vector<Worth> worth;
  worth.reserve(part.items.size());
  for (const Item& item : part.items) {
    const auto life = static_cast<double>(item.end() - item.first());
    const auto size = static_cast<double>(item.size);
    worth.push_back(choice == Choice::longest ? Worth{life, size} : Worth{size, life});
  }
  return worth;
}

std::optional<std::vector<Grains>> valley_fit(const Part& part, const std::vector<Worth>& worth,
                                              const std::function<bool()>& stopped) {
  std::vector<Grains> offsets(part.items.size());
  Waiting waiting(part, worth);
  std::size_t left = 0;
  for (int i = 0; i < part.count(); ++i) {
    const Item& item = part.items[at(i)];
    if (!item.is_fixed()) {
      ++left;
      continue;
    }
    offsets[at(i)] = item.fixed;
    waiting.remove(i);
  }
  Outline outline(part.sections, top_of_fixed(part));
  for (std::size_t looked = 0; left > 0;) {
    constexpr std::size_t kBetweenClocks = 1024;
    if (++looked % kBetweenClocks == 0 && stopped()) return std::nullopt;
    const Outline::Terrace valley = outline.lowest();
    const int item = waiting.best(valley.first, valley.end);
    if (item < 0) {
      outline.fill(valley);
      continue;
    }
    const Item& placed = part.items[at(item)];
    offsets[at(item)] = part.aligned(item, valley.height);
    outline.raise(valley, placed.first(), placed.end(), offsets[at(item)] + placed.size);
    waiting.remove(item);
    --left;
  }
  return offsets;
}

}  // namespace remora::placement
