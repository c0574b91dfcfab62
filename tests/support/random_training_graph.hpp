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

/// Appends an op with one output, of its name, one byte and one unit of time; returns the output.
TensorId add_unit_op(Graph& graph, Op op);

/// Three forward ops in a chain and their backward ops, where the weight gradient of the last waits for the end.
std::shared_ptr<const Graph> late_weight_gradient();

}  // namespace remora::test
