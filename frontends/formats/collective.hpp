// SPDX-License-Identifier: Apache-2.0
//
// Costs of collectives of a graph (remora-graph 3): `collective` of an op describes it, `collectives` of the graph has
// the costs.
//
//     "collectives": [{"kind": "all_gather", "group": 8, "latency": 5, "bytes": 100, "per": 1},
//                     {"kind": "reduce_scatter", "times": [[0, 6], [1000, 20]]}]
//     "collective": {"kind": "all_gather", "bytes": 1000, "group": 8}         5 + ceil(1000 * 1 / 100) = 15
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/formats/document.hpp"
#include "model/types.hpp"

namespace remora::json {

/// One op: `bytes` are those of a whole (of an all-gather what comes out, of a reduce-scatter what goes in), `group` how
/// many devices take part.
class Collective {
 public:
  /// Throws InputError with the place.
  explicit Collective(const Node& node);

  /// Gathered and sent data may be asked for again. What is summed over devices is summed once, where the file does not allow more.
  [[nodiscard]] bool may_run_again() const;

 private:
  friend class CollectiveTimes;

  std::string kind_;
  Bytes bytes_{};
  std::int64_t group_ = 1;
};

/// The graph's table.
class CollectiveTimes {
 public:
  CollectiveTimes() = default;
  /// Throws InputError with the place.
  explicit CollectiveTimes(const Node& root);

  /// By the first row of its kind and group (a row without a group is for all). Between two points of `times` on the line through both,
  /// rounded up; before the first as there; beyond the last in proportion to it. `node`: where the op says it, for errors.
  [[nodiscard]] Duration duration_of(const Collective& collective, const Node& node) const;

 private:
  struct Row {
    std::string kind{};
    std::optional<std::int64_t> group{};
    Duration latency{};
    Bytes bytes{1};
    Duration per{};
    /// Ascending; empty where the line is meant.
    std::vector<std::pair<Bytes, Duration>> times{};
  };
  static Row read_row(const Node& node);

  std::vector<Row> rows_;
};

}  // namespace remora::json
