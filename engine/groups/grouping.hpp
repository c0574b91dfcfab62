// SPDX-License-Identifier: Apache-2.0
//
// What a solve's options say about groups, in the partition's own terms.
#pragma once

#include <memory>

#include "engine/base/options.hpp"
#include "engine/groups/partitioner.hpp"

namespace remora {

/// The partitioner of that name.
std::unique_ptr<const Partitioner> make_partitioner(Grouping grouping);

/// M^l, M^t and alpha.
PartitionSettings partition_settings(const SolveOptions& options);

}  // namespace remora
