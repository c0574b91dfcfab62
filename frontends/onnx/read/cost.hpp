// SPDX-License-Identifier: Apache-2.0
//
// Durations of a network's nodes: by the roofline of a machine (frontends/machine), or by FLOPs.
#pragma once

#include <string>

#include "frontends/machine/machine.hpp"
#include "frontends/onnx/model/network.hpp"

namespace remora::onnx_frontend {

enum class CostModel { roofline, flops, unit };

/// "roofline", "flops" or "unit", as options and meta.cost_model call it.
std::string cost_model_name(CostModel model);

/// Floating-point operations of one run of the node: 2·m·n·k for a matrix product, 2·(output elements)·(kernel volume)·
/// (input channels / groups) for a convolution, a small constant an element for the rest. A backward node's come from
/// its forward node: once for each gradient of an operand (attribute gradient_of) for matrix products and the like,
/// twice for the rest; attribute duration_factor, where it is set, overrides both. Stops at 2^62 instead of
/// overflowing.
std::int64_t flops(const Network& network, NodeId node);

/// A backward node's is its forward node's.
OpClass op_class(const Network& network, NodeId node);

/// Bytes that one run of the node reads and writes: its distinct inputs, parameters included, and its outputs. Of a
/// table that it looks entries up in (Gather, Slice) it reads no more than it writes.
Bytes bytes_moved(const Network& network, NodeId node);

/// The node's duration: whole nanoseconds for roofline, FLOPs for flops, 1 for unit. A backward node with attribute
/// duration_factor takes that many times its forward node's duration.
Duration duration(const Network& network, NodeId node, CostModel model, const Machine& machine);

/// "ns", "flop" or "op": what `meta.duration_unit` says of the graph.
std::string duration_unit(CostModel model);

}  // namespace remora::onnx_frontend
