// SPDX-License-Identifier: Apache-2.0
//
// The words of remora-schedule 1.
#pragma once

#include <array>
#include <string_view>

#include "model/schedule.hpp"

namespace remora::json {

template <class Value>
struct Word {
  Value value;
  std::string_view text;
};

inline constexpr std::array<Word<Status>, 4> kStatusWords = {{
    {Status::optimal, "optimal"},
    {Status::feasible, "feasible"},
    {Status::infeasible, "infeasible"},
    {Status::unknown, "unknown"},
}};

inline constexpr std::array<Word<OrderMode>, 2> kOrderWords = {{
    {OrderMode::input, "input"},
    {OrderMode::free, "free"},
}};

}  // namespace remora::json
