// SPDX-License-Identifier: Apache-2.0
#include "tests/support/placement_oracle.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <utility>

namespace remora::test {
namespace {

constexpr int kTimes = 64;
constexpr int kBytes = 63;

/// Whether the buffers from `next` on can be added to the bytes in use, all ending within `arena`.
bool fits(const std::vector<Buffer>& buffers, std::size_t next, int arena, std::array<std::uint64_t, kTimes>& used) {
  if (next == buffers.size()) return true;
  const Buffer& buffer = buffers[next];
  const auto size = static_cast<int>(buffer.size.count());
  std::vector<std::size_t> times;
  for (std::int64_t t = buffer.lifespan.lower; t < buffer.lifespan.upper; ++t) {
    const bool in_gap = std::any_of(buffer.gaps.begin(), buffer.gaps.end(),
                                    [&](const Lifespan& gap) { return gap.lower <= t && t < gap.upper; });
    if (!in_gap) times.push_back(static_cast<std::size_t>(t));
  }
  if (size == 0 || times.empty()) return fits(buffers, next + 1, arena, used);
  for (int offset = 0; offset + size <= arena; ++offset) {
    if (offset % buffer.alignment.count() != 0) continue;
    if (buffer.offset && buffer.offset->count() != offset) continue;
    const std::uint64_t mask = ((std::uint64_t{1} << static_cast<unsigned>(size)) - 1) << static_cast<unsigned>(offset);
    if (std::any_of(times.begin(), times.end(), [&](std::size_t t) { return (used[t] & mask) != 0; })) continue;
    for (const std::size_t t : times) used[t] |= mask;
    const bool found = fits(buffers, next + 1, arena, used);
    for (const std::size_t t : times) used[t] &= ~mask;
    if (found) return true;
  }
  return false;
}

}  // namespace

Bytes smallest_arena(const std::vector<Buffer>& buffers) {
  // Fixed ones, then large ones first: what does not fit is seen early. The arena does not depend on it.
  std::vector<Buffer> sorted = buffers;
  std::sort(sorted.begin(), sorted.end(), [](const Buffer& a, const Buffer& b) {
    return std::pair(a.offset.has_value(), a.size) > std::pair(b.offset.has_value(), b.size);
  });
  for (int arena = 0; arena <= kBytes; ++arena) {
    if (Bytes(arena) < largest_load(buffers)) continue;
    std::array<std::uint64_t, kTimes> used{};
    if (fits(sorted, 0, arena, used)) return Bytes(arena);
  }
  return Bytes::max();
}

std::optional<std::int64_t> least_bank_cost(const BankProblem& problem) {
  // By bank and the set of buffers in it, whether they fit.
  std::map<std::pair<std::size_t, unsigned>, bool> known;
  const auto fits_in = [&](std::size_t bank, unsigned members) {
    const auto [entry, is_new] = known.emplace(std::pair{bank, members}, false);
    if (!is_new) return entry->second;
    std::vector<Buffer> buffers;
    for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
      if ((members >> i & 1U) != 0) buffers.push_back(problem.buffers[i]);
    }
    return entry->second = smallest_arena(buffers) <= problem.banks[bank].capacity;
  };
  std::optional<std::int64_t> best;
  std::vector<std::size_t> chosen(problem.buffers.size());
  for (bool left = true; left;) {
    std::int64_t cost = 0;
    std::vector<unsigned> members(problem.banks.size());
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      cost += problem.choices[i][chosen[i]].cost;
      members[problem.choices[i][chosen[i]].bank] |= 1U << i;
    }
    bool fits = !best || cost < *best;
    for (std::size_t b = 0; b < members.size() && fits; ++b) fits = fits_in(b, members[b]);
    if (fits) best = cost;
    left = false;
    for (std::size_t i = 0; i < chosen.size() && !left; ++i) {
      left = ++chosen[i] < problem.choices[i].size();
      if (!left) chosen[i] = 0;
    }
  }
  return best;
}

BankProblem random_bank_problem(Random& random, const BufferShape& shape) {
  BankProblem problem{.buffers = random_buffers(random, shape)};
  const std::int64_t load = largest_load(problem.buffers).count();
  const std::size_t banks = 1 + random.below(3);
  for (std::size_t b = 0; b < banks; ++b) {
    const auto capacity = static_cast<std::int64_t>(random.below(static_cast<std::size_t>(load) + 3));
    problem.banks.push_back({.name = "bank" + std::to_string(b), .capacity = Bytes(capacity)});
  }
  // Every other problem has a memory that holds everything, at a cost.
  if (random.unit() < 0.5) problem.banks.back().capacity = Bytes(40);
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    std::vector<BankChoice>& choices = problem.choices.emplace_back();
    for (std::size_t b = 0; b < banks; ++b) {
      if (random.unit() < 0.2) continue;
      choices.push_back({.bank = b, .cost = static_cast<std::int64_t>(b * random.below(10) + random.below(3))});
    }
    if (choices.empty()) choices.push_back({.bank = banks - 1, .cost = 1});
  }
  return problem;
}

std::vector<Buffer> random_buffers(Random& random, const BufferShape& shape) {
  const auto up_to = [&](int most) {
    return static_cast<std::int64_t>(random.below(static_cast<std::size_t>(most) + 1));
  };
  std::vector<Buffer> buffers(1 + random.below(static_cast<std::size_t>(shape.most_buffers)));
  // Of one problem: how often something is special, and which alignments there are.
  const double often = random.unit() < 0.3 ? 0 : 0.5 * random.unit();
  const std::vector<std::vector<int>> families{{1, 2, 4}, {2, 4}, {4}, {1, 3}, {2, 3}, {1, 6}};
  const std::vector<int>& family = families[random.below(families.size())];
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    Buffer& buffer = buffers[i];
    buffer.id = "b" + std::to_string(i);
    buffer.lifespan.lower = up_to(shape.times - 1);
    buffer.lifespan.upper =
        buffer.lifespan.lower + 1 + up_to(shape.times - 1 - static_cast<int>(buffer.lifespan.lower));
    buffer.size = Bytes(random.unit() < 0.03 ? 0 : 1 + up_to(shape.most_size - 1));
    if (shape.alignments && random.unit() < 2 * often) buffer.alignment = Bytes(family[random.below(family.size())]);
    if (shape.fixed && random.unit() < often / 2) {
      buffer.offset = Bytes(up_to(12) / buffer.alignment.count() * buffer.alignment.count());
    }
    std::int64_t time = buffer.lifespan.lower;
    while (shape.gaps && random.unit() < often && time < buffer.lifespan.upper) {
      const std::int64_t begin = time + up_to(static_cast<int>(buffer.lifespan.upper - time));
      const std::int64_t end = begin + up_to(static_cast<int>(buffer.lifespan.upper - begin));
      buffer.gaps.push_back({begin, end});
      time = end;
    }
  }
  return buffers;
}

std::vector<Buffer> cut_buffers(Random& random, int count, int fixed, std::int64_t times, std::int64_t capacity) {
  struct Rectangle {
    Lifespan time;
    Lifespan bytes;
    [[nodiscard]] std::int64_t area() const { return (time.upper - time.lower) * (bytes.upper - bytes.lower); }
  };
  const auto inside = [&](const Lifespan& span) {
    return span.lower + 1 +
           static_cast<std::int64_t>(random.below(static_cast<std::size_t>(span.upper - span.lower - 1)));
  };
  std::vector<Rectangle> cut{{{0, times}, {0, capacity}}};
  while (static_cast<int>(cut.size()) < count) {
    const auto largest = std::max_element(cut.begin(), cut.end(),
                                          [](const Rectangle& a, const Rectangle& b) { return a.area() < b.area(); });
    Rectangle rest = *largest;
    const std::int64_t life = rest.time.upper - rest.time.lower;
    const std::int64_t size = rest.bytes.upper - rest.bytes.lower;
    if (life > 1 && (size == 1 || life * capacity > size * times)) {
      largest->time.upper = rest.time.lower = inside(rest.time);
    } else if (size > 1) {
      largest->bytes.upper = rest.bytes.lower = inside(rest.bytes);
    } else {
      break;
    }
    cut.push_back(rest);
  }
  for (std::size_t i = cut.size(); i > 1; --i) std::swap(cut[i - 1], cut[random.below(i)]);
  std::vector<Buffer> buffers;
  for (const Rectangle& one : cut) {
    buffers.push_back({.id = "b" + std::to_string(buffers.size()),
                       .lifespan = one.time,
                       .size = Bytes(one.bytes.upper - one.bytes.lower)});
    if (static_cast<int>(buffers.size()) <= fixed) buffers.back().offset = Bytes(one.bytes.lower);
  }
  return buffers;
}

std::string text_of(const std::vector<Buffer>& buffers) {
  std::ostringstream out;
  for (const Buffer& buffer : buffers) {
    out << buffer.id << ": " << buffer.lifespan.lower << ".." << buffer.lifespan.upper << ", " << buffer.size.count()
        << " bytes, alignment " << buffer.alignment.count();
    if (buffer.offset) out << ", at " << buffer.offset->count();
    for (const Lifespan& gap : buffer.gaps) out << ", gap " << gap.lower << ".." << gap.upper;
    out << "\n";
  }
  return out.str();
}

}  // namespace remora::test
