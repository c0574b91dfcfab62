// SPDX-License-Identifier: Apache-2.0
#include "model/placement.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <tuple>

#include "model/error.hpp"
#include "model/quote.hpp"
#include "model/types.hpp"

namespace remora {
namespace {

constexpr std::int64_t kLargestSum = kSaturated - 1;

std::string span_text(const Lifespan& span) {
  return std::to_string(span.lower) + " to " + std::to_string(span.upper);
}

void check_gaps(const Buffer& buffer, const std::string& place) {
  std::int64_t end = buffer.lifespan.lower;
  for (const Lifespan& gap : buffer.gaps) {
    if (gap.lower > gap.upper || gap.lower < end || gap.upper > buffer.lifespan.upper) {
      throw InputError(place, "the gap from " + span_text(gap) + " must lie in the lifespan from " +
                                  span_text(buffer.lifespan) + ", after the gaps before it");
    }
    end = gap.upper;
  }
}

void check_buffer(const Buffer& buffer) {
  const std::string place = "buffer " + quote(buffer.id);
  const auto number = [](Bytes bytes) { return std::to_string(bytes.count()); };
  if (buffer.lifespan.lower > buffer.lifespan.upper) {
    throw InputError(place, "its lifespan, " + span_text(buffer.lifespan) + ", ends before it begins");
  }
  check_gaps(buffer, place);
  if (buffer.size < Bytes()) throw InputError(place, "its size must not be negative, but is " + number(buffer.size));
  if (buffer.alignment < Bytes(1)) {
    throw InputError(place, "its alignment must be at least 1, but is " + number(buffer.alignment));
  }
  if (!buffer.offset) return;
  if (*buffer.offset < Bytes()) {
    throw InputError(place, "its offset must not be negative, but is " + number(*buffer.offset));
  }
  if (buffer.offset->count() % buffer.alignment.count() != 0) {
    throw InputError(place, "its offset, " + number(*buffer.offset) + ", is not a multiple of its alignment, " +
                                number(buffer.alignment));
  }
  if (saturating_sum(buffer.offset->count(), buffer.size.count()) > kLargestSum) {
    throw InputError(place, "its end is beyond 2^62");
  }
}

/// A buffer begins or ends to hold memory.
struct Change {
  std::int64_t time;
  bool begins;
  std::size_t buffer;

  /// Ends come before beginnings at the same time.
  friend bool operator<(const Change& a, const Change& b) {
    return std::tie(a.time, a.begins, a.buffer) < std::tie(b.time, b.begins, b.buffer);
  }
};

std::vector<Change> changes_of(std::span<const Buffer> buffers) {
  std::vector<Change> changes;
  changes.reserve(2 * buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    for (const Lifespan& span : alive(buffers[i])) {
      changes.push_back({span.lower, true, i});
      changes.push_back({span.upper, false, i});
    }
  }
  std::sort(changes.begin(), changes.end());
  return changes;
}

}  // namespace

void check_buffers(std::span<const Buffer> buffers) {
  std::int64_t sum = 0;
  std::int64_t highest = 0;
  for (const Buffer& buffer : buffers) {
    check_buffer(buffer);
    sum = saturating_sum(sum, saturating_sum(buffer.size.count(), buffer.alignment.count()));
    if (buffer.offset) highest = std::max(highest, buffer.offset->count() + buffer.size.count());
  }
  if (saturating_sum(sum, highest) > kLargestSum) {
    throw InputError("", "the buffers' sizes, alignments and fixed offsets add up to more than 2^62");
  }
}

void align(std::vector<Buffer>& buffers, Bytes alignment) {
  for (Buffer& buffer : buffers) {
    const std::int64_t factor = alignment.count() / std::gcd(buffer.alignment.count(), alignment.count());
    buffer.alignment = Bytes(saturating_product(buffer.alignment.count(), factor));
  }
}

std::vector<Lifespan> alive(const Buffer& buffer) {
  std::vector<Lifespan> stretches;
  if (buffer.size == Bytes()) return stretches;
  std::int64_t begin = buffer.lifespan.lower;
  const auto add = [&](std::int64_t end) {
    if (begin < end) stretches.push_back({begin, end});
  };
  for (const Lifespan& gap : buffer.gaps) {
    if (gap.lower == gap.upper) continue;
    add(gap.lower);
    begin = gap.upper;
  }
  add(buffer.lifespan.upper);
  return stretches;
}

Bytes largest_load(std::span<const Buffer> buffers) {
  Bytes load;
  Bytes largest;
  for (const Change& change : changes_of(buffers)) {
    const Bytes size = buffers[change.buffer].size;
    load = change.begins ? load + size : load - size;
    largest = std::max(largest, load);
  }
  return largest;
}

Bytes arena_of(std::span<const Buffer> buffers, std::span<const Bytes> offsets) {
  ensure(buffers.size() == offsets.size(), "placement: not as many offsets as buffers");
  Bytes arena;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!alive(buffers[i]).empty()) arena = std::max(arena, offsets[i] + buffers[i].size);
  }
  return arena;
}

std::string placement_fault(std::span<const Buffer> buffers, std::span<const Bytes> offsets, Bytes capacity) {
  if (buffers.size() != offsets.size()) {
    return std::to_string(offsets.size()) + " offsets for " + std::to_string(buffers.size()) + " buffers";
  }
  const auto number = [](Bytes bytes) { return std::to_string(bytes.count()); };
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    const auto what = [&] { return quote(buffer.id) + " at offset " + number(offsets[i]); };
    if (offsets[i] < Bytes()) return what() + ": offsets begin at 0";
    if (offsets[i].count() % buffer.alignment.count() != 0) {
      return what() + ": not a multiple of its alignment, " + number(buffer.alignment);
    }
    if (buffer.offset && *buffer.offset != offsets[i]) return what() + ": it has to lie at " + number(*buffer.offset);
    if (offsets[i] > capacity || buffer.size > capacity - offsets[i]) {
      if (!alive(buffer).empty()) return what() + ", size " + number(buffer.size) + ": ends beyond " + number(capacity);
    }
  }
  // Live buffers by offset: a beginning buffer must lie between its neighbors there.
  std::map<Bytes, std::size_t> resident;
  const auto end_of = [&](std::size_t i) { return offsets[i] + buffers[i].size; };
  for (const Change& change : changes_of(buffers)) {
    const std::size_t i = change.buffer;
    if (!change.begins) {
      resident.erase(offsets[i]);
      continue;
    }
    const auto above = resident.lower_bound(offsets[i]);
    auto clash = resident.end();
    if (above != resident.end() && above->first < end_of(i)) clash = above;
    if (above != resident.begin() && end_of(std::prev(above)->second) > offsets[i]) clash = std::prev(above);
    if (clash != resident.end()) {
      return quote(buffers[clash->second].id) + " and " + quote(buffers[i].id) + " share bytes at time " +
             std::to_string(change.time) + ": " + number(clash->first) + " to " + number(end_of(clash->second)) +
             " and " + number(offsets[i]) + " to " + number(end_of(i));
    }
    resident.emplace(offsets[i], i);
  }
  return "";
}

}  // namespace remora
