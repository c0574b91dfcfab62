// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "model/types.hpp"

namespace remora::cp {

/// No recompute of the op in the stages first .. last (staged form): known from outside, by a bound for example.
struct StageBan {
  OpId op{};
  Stage first = 0;
  Stage last = -1;
};

}  // namespace remora::cp
