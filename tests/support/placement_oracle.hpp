// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/banks.hpp"
#include "model/placement.hpp"
#include "model/random.hpp"

namespace remora::test {

/// The smallest arena of a few small buffers, by trying every offset of every buffer on a map of the bytes in use at every
/// time. Times are from 0 to 63 and no arena above 63 bytes is looked at; a problem that needs more, or whose fixed buffers
/// share bytes, gives Bytes::max().
Bytes smallest_arena(const std::vector<Buffer>& buffers);

/// The least cost of a few small buffers in banks, by trying every bank of every buffer; nothing if none has room for all.
std::optional<std::int64_t> least_bank_cost(const BankProblem& problem);

struct BufferShape {
  int most_buffers = 9;
  int times = 8;
  int most_size = 7;
  bool alignments = true;
  bool gaps = true;
  bool fixed = true;
};

/// At least one buffer, small enough for smallest_arena nearly always.
std::vector<Buffer> random_buffers(Random& random, const BufferShape& shape = {});

/// One to three banks for such buffers, with costs; those of one bank may be fixed.
BankProblem random_bank_problem(Random& random, const BufferShape& shape = {.most_buffers = 7});

/// A rectangle of `times` by `capacity`, cut into about `count` buffers, the largest again and again, in random order:
/// together they fill the capacity at every time. `fixed` of them have the offset that they were cut at.
std::vector<Buffer> cut_buffers(Random& random, int count, int fixed, std::int64_t times, std::int64_t capacity);

/// "a: 0..3, 4 bytes, ..." a line each, to print beside a failure.
std::string text_of(const std::vector<Buffer>& buffers);

}  // namespace remora::test
