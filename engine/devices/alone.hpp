// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "engine/devices/sliced_search.hpp"

namespace remora::devices {

/// Everything on that device, in the staged form, by the search for one device; null where some op cannot run there. What is limited
/// beside memory and what is minimised is not regarded. The graph and the problem must outlive it; of the options, the limits are a
/// first session's. `chooses`: it also looks whether more computes pay, and begins from the options' start.
std::unique_ptr<Member> one_device_alone(const DeviceGraph& graph, const Problem& problem, DeviceId device,
                                         const Options& options, bool chooses);

}  // namespace remora::devices
