// SPDX-License-Identifier: Apache-2.0
//
// Local search, complete search and the relaxation's programs on one incumbent, one thing at a time: the first two in turns of
// growing length, the last in turns too, or in a thread of its own.
#pragma once

#include <functional>
#include <memory>

#include "engine/devices/sliced_search.hpp"

namespace remora::devices {

/// `interrupted` ends what is done before the first turn.
std::unique_ptr<SlicedSearch> sequential_search(const DeviceGraph& graph, const Problem& problem,
                                                const Options& options, const std::function<bool()>& interrupted,
                                                bool shares);

}  // namespace remora::devices
