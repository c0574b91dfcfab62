// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <random>

#include "model/graph.hpp"

namespace remora::test {

/// A small random training graph: up to `most_forward` forward ops, mostly a chain with a few skips, then one backward
/// op for most of them in reverse, which reads the gradient so far and some of its op's inputs and output. Some tensors
/// are kept, some ops run only once, some backward ops lack `backward_of`, some have two outputs or workspace.
std::shared_ptr<const Graph> random_training_graph(std::mt19937& random, int most_forward);

}  // namespace remora::test
