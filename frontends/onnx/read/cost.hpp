// SPDX-License-Identifier: Apache-2.0
//
// Durations of a network's nodes.
//
// Roofline: max(FLOPs / peak_flops, bytes moved / bandwidth) + launch_overhead, rounded up to whole nanoseconds.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "frontends/onnx/model/network.hpp"

namespace remora::onnx_frontend {

enum class CostModel { roofline, flops, unit };

/// "roofline", "flops" or "unit", as options and meta.cost_model call it.
std::string cost_model_name(CostModel model);

/// Ops that differ in the share of a device's peak that they reach.
enum class OpClass { product, convolution, attention, other };

/// Floating-point operations a second that ops of each class reach, by OpClass.
using Rates = std::array<double, 4>;

/// What a roofline needs to know of a device (`examples/devices/*.json`). Peaks are for the precision that training
/// runs in; real kernels reach a part of them, which changes durations by about the same factor for all ops.
struct Device {
  std::string name = "generic accelerator";
  double peak_flops = 19.5e12;    ///< floating-point operations a second
  double bandwidth = 1555e9;      ///< bytes a second
  double launch_overhead = 4e-6;  ///< seconds an op costs at least
  double power = 0;               ///< watts while an op runs; 0 where the file does not say
  /// By the width of the numbers: of 16 bits (and fewer), of more. Without them every op reaches peak_flops.
  std::optional<std::array<Rates, 2>> rates{};
  /// Where there are rates: products run in tiles, a tile on one multiprocessor; what the last ones leave idle is lost.
  int multiprocessors = 1;
};

/// Reads a device file: a JSON object with name, peak_flops (1/s), bandwidth (bytes/s), launch_overhead (s), and perhaps power (W).
/// Throws InputError with the file and the key.
Device read_device(const std::string& path);

/// A way between two devices, both ways (`examples/links/*.json`).
struct LinkModel {
  double bandwidth = 1;       ///< bytes a second
  double bandwidth_back = 1;  ///< the same, from the second device to the first
  double latency = 0;         ///< seconds a copy takes at least
  double power = 0;           ///< watts while it copies
};

/// Reads a link file: a JSON object with bandwidth (bytes/s), latency (s), and perhaps bandwidth_back and power (W). Throws
/// InputError with the file and the key.
LinkModel read_link(const std::string& path);

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
Duration duration(const Network& network, NodeId node, CostModel model, const Device& device);

/// "ns", "flop" or "op": what `meta.duration_unit` says of the graph.
std::string duration_unit(CostModel model);

}  // namespace remora::onnx_frontend
