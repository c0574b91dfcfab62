// SPDX-License-Identifier: Apache-2.0
//
// The nodes of a `p remat2` text as they are written (remat2.hpp has the grammar), before anything is made of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/types.hpp"

namespace remora::interchange {

enum class Remat2Kind { normal, effectful, pointer };

struct Remat2Node {
  std::int64_t id = 0;
  /// Where it is written, from 1.
  int line = 0;
  /// Positions in the list of nodes, as written, repeats included.
  std::vector<std::size_t> dependencies{};
  Remat2Kind kind = Remat2Kind::normal;
  Duration duration{};
  Bytes size{};
  Bytes workspace{};
  bool target = false;
  bool loss = false;
};

struct Remat2Text {
  std::optional<std::int64_t> memory_limit{};
  /// In the order of the text; one or more.
  std::vector<Remat2Node> nodes{};
};

/// Throws InputError with the line of the first fault. O(text) expected time.
Remat2Text parse_remat2(std::string_view text);

}  // namespace remora::interchange
