// SPDX-License-Identifier: Apache-2.0
#include "model/placement.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/error.hpp"
#include "model/random.hpp"
#include "tests/support/placement_oracle.hpp"
#include "tests/support/refusal.hpp"

namespace remora {
namespace {

Buffer make(const std::string& id, std::int64_t lower, std::int64_t upper, std::int64_t size) {
  return {.id = id, .lifespan = {lower, upper}, .size = Bytes(size)};
}

std::vector<Bytes> bytes_of(const std::vector<std::int64_t>& counts) {
  std::vector<Bytes> result;
  for (const std::int64_t count : counts) result.emplace_back(count);
  return result;
}

std::string refusal(const Buffer& buffer) {
  return remora::test::refusal_of([&] { check_buffers(std::vector{buffer}); });
}

TEST(BufferChecks, SayWhichBufferAndWhatIsWrong) {
  Buffer buffer = make("a", 0, 10, 8);
  EXPECT_EQ(refusal(buffer), "");
  buffer.lifespan = {4, 3};
  EXPECT_EQ(refusal(buffer), R"(buffer "a": its lifespan, 4 to 3, ends before it begins)");
  buffer = make("a", 0, 10, -1);
  EXPECT_EQ(refusal(buffer), R"(buffer "a": its size must not be negative, but is -1)");
  buffer = make("a", 0, 10, 8);
  buffer.alignment = Bytes(0);
  EXPECT_EQ(refusal(buffer), R"(buffer "a": its alignment must be at least 1, but is 0)");
  buffer.alignment = Bytes(4);
  buffer.offset = Bytes(6);
  EXPECT_EQ(refusal(buffer), R"(buffer "a": its offset, 6, is not a multiple of its alignment, 4)");
  buffer.offset = Bytes(-4);
  EXPECT_EQ(refusal(buffer), R"(buffer "a": its offset must not be negative, but is -4)");
  buffer.offset.reset();
  for (const std::vector<Lifespan>& gaps :
       {std::vector<Lifespan>{{4, 3}}, {{-1, 2}}, {{9, 11}}, {{4, 6}, {5, 7}}, {{6, 7}, {2, 3}}}) {
    buffer.gaps = gaps;
    EXPECT_NE(refusal(buffer).find("must lie in the lifespan from 0 to 10, after the gaps before it"),
              std::string::npos)
        << refusal(buffer);
  }
  buffer.gaps = {{0, 0}, {2, 3}, {3, 10}};
  EXPECT_EQ(refusal(buffer), "");
}

TEST(BufferChecks, RefuseSumsThatCouldOverflow) {
  const std::int64_t half = std::int64_t{1} << 61;
  EXPECT_THROW(check_buffers(std::vector{make("a", 0, 1, half), make("b", 2, 3, half)}), InputError);
  Buffer high = make("a", 0, 1, 1);
  high.offset = Bytes(std::int64_t{1} << 62);
  EXPECT_NE(refusal(high).find("2^62"), std::string::npos);
  EXPECT_NO_THROW(check_buffers(std::vector{make("a", 0, 1, half)}));
}

TEST(PlacementFault, NamesWhatIsWrong) {
  std::vector<Buffer> buffers{make("a", 0, 3, 2), make("b", 1, 4, 1), make("c", 3, 4, 2)};
  EXPECT_EQ(placement_fault(buffers, bytes_of({0, 2, 0})), "");
  EXPECT_EQ(arena_of(buffers, bytes_of({0, 2, 0})), Bytes(3));
  EXPECT_EQ(largest_load(buffers), Bytes(3));
  EXPECT_EQ(placement_fault(buffers, bytes_of({0, 2, 0}), Bytes(3)), "");
  EXPECT_EQ(placement_fault(buffers, bytes_of({0, 2, 0}), Bytes(2)), R"("b" at offset 2, size 1: ends beyond 2)");
  EXPECT_EQ(placement_fault(buffers, bytes_of({0, 1, 0})), R"("a" and "b" share bytes at time 1: 0 to 2 and 1 to 2)");
  EXPECT_EQ(placement_fault(buffers, bytes_of({0, 2, 1})), R"("b" and "c" share bytes at time 3: 2 to 3 and 1 to 3)");
  EXPECT_EQ(placement_fault(buffers, bytes_of({0, -2, 0})), R"("b" at offset -2: offsets begin at 0)");
  EXPECT_EQ(placement_fault(buffers, bytes_of({0, 2})), "2 offsets for 3 buffers");
  buffers[1].alignment = Bytes(4);
  EXPECT_EQ(placement_fault(buffers, bytes_of({0, 2, 0})), R"("b" at offset 2: not a multiple of its alignment, 4)");
  buffers[1].offset = Bytes(8);
  EXPECT_EQ(placement_fault(buffers, bytes_of({0, 4, 0})), R"("b" at offset 4: it has to lie at 8)");
  EXPECT_NE(placement_fault(buffers, bytes_of({INT64_MAX - 1, 8, 0}), Bytes(100)), "");
}

TEST(PlacementFault, LetsOthersIntoGaps) {
  std::vector<Buffer> buffers{make("a", 0, 9, 4), make("b", 3, 6, 4)};
  EXPECT_NE(placement_fault(buffers, bytes_of({0, 0})), "");
  buffers[0].gaps = {{3, 6}};
  EXPECT_EQ(placement_fault(buffers, bytes_of({0, 0})), "");
  buffers[0].gaps = {{3, 5}};
  EXPECT_NE(placement_fault(buffers, bytes_of({0, 0})), "");
}

/// By comparing all pairs at all times.
bool overlap_somewhere(const std::vector<Buffer>& buffers, const std::vector<Bytes>& offsets) {
  const auto holds = [&](std::size_t i, std::int64_t time) {
    const auto within = [&](const Lifespan& span) { return span.lower <= time && time < span.upper; };
    return within(buffers[i].lifespan) && std::none_of(buffers[i].gaps.begin(), buffers[i].gaps.end(), within);
  };
  for (std::int64_t time = 0; time < 64; ++time) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (holds(i, time) && holds(j, time) && offsets[i] < offsets[j] + buffers[j].size &&
            offsets[j] < offsets[i] + buffers[i].size) {
          return true;
        }
      }
    }
  }
  return false;
}

TEST(PlacementFault, IsThatOfAllPairsAtAllTimes) {
  Random random(1);
  int good = 0;
  for (int i = 0; i < 5000; ++i) {
    std::vector<Buffer> buffers = test::random_buffers(random, {.most_buffers = 5, .fixed = false});
    std::vector<Bytes> offsets;
    for (Buffer& buffer : buffers) {
      if (buffer.size == Bytes()) buffer.size = Bytes(1);
      offsets.emplace_back(static_cast<std::int64_t>(random.below(8)) * buffer.alignment.count());
    }
    const std::string fault = placement_fault(buffers, offsets);
    ASSERT_EQ(fault.empty(), !overlap_somewhere(buffers, offsets)) << fault << "\n" << test::text_of(buffers);
    good += fault.empty() ? 1 : 0;
  }
  EXPECT_GT(good, 500);
  EXPECT_LT(good, 4500);
}

}  // namespace
}  // namespace remora
