// SPDX-License-Identifier: Apache-2.0
//
// The truth about small problems over several devices, by brute force: a shortest path over states (how often each op ran, what
// is resident where, in the staged form the stage and its latest recompute). A move runs an op, copies a tensor, or releases one.
#pragma once

#include <optional>

#include "engine/devices/plan.hpp"

namespace remora::test {

/// The least value of the objective; nothing if there is no schedule. For up to 7 ops,
/// 27 pairs of a tensor and a device, and 3 computes.
std::optional<std::int64_t> device_optimum(const DeviceGraph& graph, const devices::Problem& problem);

/// Where copies overlap: over all sequences of runs, copies and releases, taken by the rules of docs/design/devices.md. States beside which
/// another has everything free no later are left out.
std::optional<std::int64_t> overlapped_optimum(const DeviceGraph& graph, const devices::Problem& problem);

}  // namespace remora::test
