// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/part.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "model/error.hpp"

namespace remora::placement {
namespace {

/// The grain of the header's text, for the buffers of one part.
Bytes grain_of(std::span<const Buffer> buffers, std::span<const std::size_t> members) {
  std::int64_t alignments = 0;
  std::int64_t sizes = 0;
  for (const std::size_t i : members) {
    alignments = std::gcd(alignments, buffers[i].alignment.count());
    if (buffers[i].offset) sizes = std::gcd(sizes, buffers[i].offset->count());
  }
  // Rounded up to what all alignments have in common.
  for (const std::size_t i : members) {
    sizes = std::gcd(sizes, (buffers[i].size.count() + alignments - 1) / alignments * alignments);
  }
  // An alignment that does not divide the grain has to be a multiple of it.
  for (bool changed = true; changed;) {
    changed = false;
    for (const std::size_t i : members) {
      const std::int64_t alignment = buffers[i].alignment.count();
      if (sizes % alignment == 0 || alignment % sizes == 0) continue;
      sizes = std::gcd(sizes, alignment);
      changed = true;
    }
  }
  return Bytes(sizes);
}

/// Makes one part of the members, whose stretches of life are given.
Part make_part(std::span<const Buffer> buffers, std::span<const std::size_t> members,
               const std::vector<std::vector<Lifespan>>& lives) {
  Part part{.grain = grain_of(buffers, members)};
  const std::int64_t grain = part.grain.count();
  std::vector<std::int64_t> times;
  for (const std::size_t i : members) {
    for (const Lifespan& life : lives[i]) {
      times.push_back(life.lower);
      times.push_back(life.upper);
    }
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  part.sections = static_cast<int>(times.size()) - 1;
  const auto section_at = [&](std::int64_t time) {
    return static_cast<int>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  part.items.reserve(members.size());
  for (const std::size_t i : members) {
    const Buffer& buffer = buffers[i];
    Item item{.buffer = i,
              .size = (buffer.size.count() + grain - 1) / grain,
              .alignment = grain % buffer.alignment.count() == 0 ? 1 : buffer.alignment.count() / grain,
              .fixed = buffer.offset ? buffer.offset->count() / grain : -1,
              .bytes = buffer.size};
    for (const Lifespan& life : lives[i]) item.alive.push_back({section_at(life.lower), section_at(life.upper)});
    part.items.push_back(std::move(item));
  }
  return part;
}

/// The largest load of the items whose alignment is a multiple of this, sizes rounded up to it but for the one in each
/// section that rounding adds most to: whatever lies above another one begins at a multiple.
Bytes aligned_load(const Part& part, Grains alignment) {
  std::vector<int> order;
  for (int i = 0; i < part.count(); ++i) {
    if (part.items[at(i)].alignment % alignment == 0) order.push_back(i);
  }
  const auto rounded = [&](int i) {
    return part.bytes((part.items[at(i)].size + alignment - 1) / alignment * alignment);
  };
  const auto added = [&](int i) { return rounded(i) - part.items[at(i)].bytes; };
  std::vector<Bytes> loads(at(part.sections) + 1);
  for (const int i : order) {
    for (const Sections& alive : part.items[at(i)].alive) {
      loads[at(alive.first)] += rounded(i);
      loads[at(alive.end)] -= rounded(i);
    }
  }
  // Items by what rounding adds, largest first, each given to the sections that have none yet.
  std::erase_if(order, [&](int i) { return added(i) == Bytes(); });
  std::sort(order.begin(), order.end(), [&](int a, int b) { return added(a) > added(b); });
  std::vector<Bytes> largest(at(part.sections));
  // next[s]: the first section from s on that has none yet.
  std::vector<int> next(at(part.sections) + 1);
  std::iota(next.begin(), next.end(), 0);
  const auto find = [&](int s) {
    while (next[at(s)] != s) s = next[at(s)] = next[at(next[at(s)])];
    return s;
  };
  for (const int i : order) {
    for (const Sections& alive : part.items[at(i)].alive) {
      for (int s = find(alive.first); s < alive.end; s = find(s)) {
        largest[at(s)] = added(i);
        next[at(s)] = s + 1;
      }
    }
  }
  Bytes bound;
  Bytes load;
  for (int s = 0; s < part.sections; ++s) {
    load += loads[at(s)];
    bound = std::max(bound, load - largest[at(s)]);
  }
  return bound;
}

Bytes lower_bound_of(const Part& part) {
  std::set<Grains> alignments{1};
  for (const Item& item : part.items) alignments.insert(item.alignment);
  Bytes bound;
  int looked = 0;
  for (const Grains alignment : alignments) {
    // Those of programs are few.
    constexpr int kMaxAlignments = 20;
    if (++looked <= kMaxAlignments) bound = std::max(bound, aligned_load(part, alignment));
  }
  for (const Item& item : part.items) {
    if (item.is_fixed()) bound = std::max(bound, part.bytes(item.fixed) + item.bytes);
  }
  return bound;
}

}  // namespace

Grains Part::highest(int item, Bytes capacity) const {
  const Item& that = items[at(item)];
  if (that.bytes > capacity) return -1;
  const Grains offset = (capacity - that.bytes).count() / grain.count();
  return offset / that.alignment * that.alignment;
}

Bytes Part::arena(std::span<const Grains> offsets) const {
  Bytes end;
  for (std::size_t i = 0; i < items.size(); ++i) end = std::max(end, bytes(offsets[i]) + items[i].bytes);
  return end;
}

std::vector<Part> parts_of(std::span<const Buffer> buffers) {
  std::vector<std::vector<Lifespan>> lives(buffers.size());
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    lives[i] = alive(buffers[i]);
    if (!lives[i].empty()) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lives[a].front().lower < lives[b].front().lower; });
  std::vector<Part> parts;
  std::vector<std::size_t> members;
  std::int64_t end = 0;
  const auto close = [&] {
    if (members.empty()) return;
    parts.push_back(make_part(buffers, members, lives));
    parts.back().lower_bound = lower_bound_of(parts.back());
    members.clear();
  };
  for (const std::size_t i : order) {
    if (!members.empty() && lives[i].front().lower >= end) close();
    end = members.empty() ? lives[i].back().upper : std::max(end, lives[i].back().upper);
    members.push_back(i);
  }
  close();
  return parts;
}

std::vector<std::vector<int>> overlaps_of(const Part& part) {
  // By sections: whoever begins meets all that are alive.
  std::vector<std::vector<int>> begins(at(part.sections) + 1);
  std::vector<std::vector<int>> ends(at(part.sections) + 1);
  for (int i = 0; i < part.count(); ++i) {
    for (const Sections& alive : part.items[at(i)].alive) {
      begins[at(alive.first)].push_back(i);
      ends[at(alive.end)].push_back(i);
    }
  }
  std::vector<std::vector<int>> overlaps(at(part.count()));
  std::vector<int> resident;
  std::vector<std::size_t> place(at(part.count()));
  for (int s = 0; s < part.sections; ++s) {
    for (const int i : ends[at(s)]) {
      const std::size_t hole = place[at(i)];
      place[at(resident.back())] = hole;
      resident[hole] = resident.back();
      resident.pop_back();
    }
    for (const int i : begins[at(s)]) {
      for (const int j : resident) {
        overlaps[at(i)].push_back(j);
        overlaps[at(j)].push_back(i);
      }
      place[at(i)] = resident.size();
      resident.push_back(i);
    }
  }
  for (std::vector<int>& list : overlaps) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return overlaps;
}

std::int64_t overlap_count(const Part& part) {
  std::vector<std::int64_t> change(at(part.sections) + 1);
  for (const Item& item : part.items) --change[at(item.end())];
  std::vector<std::int64_t> begins(at(part.sections) + 1);
  for (const Item& item : part.items) ++begins[at(item.first())];
  std::int64_t resident = 0;
  std::int64_t pairs = 0;
  for (int s = 0; s < part.sections; ++s) {
    resident += change[at(s)];
    pairs += begins[at(s)] * resident + begins[at(s)] * (begins[at(s)] - 1) / 2;
    resident += begins[at(s)];
  }
  return 2 * pairs;
}

std::vector<Grains> loads_of(const Part& part) {
  std::vector<Grains> loads(at(part.sections) + 1);
  for (const Item& item : part.items) {
    for (const Sections& alive : item.alive) {
      loads[at(alive.first)] += item.size;
      loads[at(alive.end)] -= item.size;
    }
  }
  std::partial_sum(loads.begin(), loads.end(), loads.begin());
  loads.pop_back();
  return loads;
}

}  // namespace remora::placement
