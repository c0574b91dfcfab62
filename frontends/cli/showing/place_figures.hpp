// SPDX-License-Identifier: Apache-2.0
//
// Results of `remora place`.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "engine/placement/place.hpp"
#include "model/banks.hpp"
#include "model/types.hpp"

namespace remora::cli {

struct PlaceFigures {
  const std::vector<Buffer>& buffers;
  /// Problem of several memories, otherwise null.
  const BankProblem* banks = nullptr;
  std::optional<Bytes> capacity{};
  const PlaceResult& result;
  double seconds = 0;
  std::int64_t seed = 0;
  int threads = 0;
};

/// For people.
void print_place_text(std::ostream& stream, const PlaceFigures& figures, int width);

/// Why there is no placement, on one line; for a result without one.
std::string refused_placement(const PlaceFigures& figures);

/// One JSON object; docs/guide/place.md and formats.md list its keys.
void print_place_json(std::ostream& out, const PlaceFigures& figures);

}  // namespace remora::cli
