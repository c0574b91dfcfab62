// SPDX-License-Identifier: Apache-2.0
//
// The keys of remora-graph 1, in the order in which they are written. Every other key is unknown, and kept.
#pragma once

#include <array>
#include <string_view>

#include "model/graph.hpp"

namespace remora::json {

inline constexpr std::array<std::string_view, 7> kGraphKeys = {"format",  "version", "name", "fixed_memory",
                                                               "tensors", "ops",     "meta"};

inline constexpr std::array<std::string_view, 3> kTensorKeys = {"name", "size", "keep"};

inline constexpr std::array<std::string_view, 11> kOpKeys = {"name",   "type",        "duration",  "workspace",
                                                             "inputs", "outputs",     "recompute", "max_computes",
                                                             "phase",  "backward_of", "after"};

struct PhaseName {
  Phase phase;
  std::string_view name;
};

/// Phase::none is the absence of the key.
inline constexpr std::array<PhaseName, 3> kPhaseNames = {{
    {Phase::forward, "forward"},
    {Phase::loss, "loss"},
    {Phase::backward, "backward"},
}};

}  // namespace remora::json
