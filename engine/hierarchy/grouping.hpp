// SPDX-License-Identifier: Apache-2.0
//
// What a solve's options say about groups, in the partition's own terms.
#pragma once

#include <memory>

#include "engine/hierarchy/partitioner.hpp"
#include "engine/options.hpp"

namespace remora {

/// The partitioner of that name.
std::unique_ptr<const Partitioner> make_partitioner(Grouping grouping);

/// M^l, M^t and alpha.
PartitionSettings partition_settings(const SolveOptions& options);

}  // namespace remora
