// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/curve.hpp"
#include "model/graph.hpp"
#include "model/schedule.hpp"

namespace remora::python {

/// A sweep's answer and the graph as it was when it was swept.
struct CurveAnswer {
  std::shared_ptr<const Graph> graph{};
  Curve curve{};
  /// By point, as far as they are there.
  std::vector<std::optional<Schedule>> schedules{};
};

}  // namespace remora::python
