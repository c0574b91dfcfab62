// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "frontends/bench/comparison.hpp"
#include "frontends/report/plot.hpp"

namespace remora::bench {

struct NamedFigure {
  /// "overhead-time": of its file.
  std::string name{};
  report::Figure figure{};
};

/// The plots of a comparison: overhead over time (as in Moccasin's figure 5) and against time to solution, a
/// performance profile over overheads (Dolan and More 2002), overhead against budget and time against size where there
/// are several, and seconds of each phase against size where contenders tell them.
std::vector<NamedFigure> figures(const Comparison& comparison);

}  // namespace remora::bench
