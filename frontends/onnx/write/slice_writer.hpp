// SPDX-License-Identifier: Apache-2.0
//
// The nodes of ops that are computed in slices (docs/design/slices.md).
//
//     Conv: x -> y, rows 32 .. 63 of 128 in the second of four slices; y is assembled
//
//     Slice: x, rows 31 .. 64 -> x#1      Conv without padding of rows: x#1 -> y#1
//     Reshape: y#1 -> blocks of rows      ScatterND: y so far, blocks -> y so far, in its memory
//
// What all readers read in the same slices is not put together. The first rows are padded to all of them, and a last
// Reshape, a view, gives the whole its shape and name. Terms of a sum are added in its memory. Weights are cut in the
// file.
#pragma once

#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "frontends/onnx/model/model_proto.hpp"
#include "frontends/onnx/read/onnx_reader.hpp"
#include "frontends/onnx/write/node_copies.hpp"
#include "model/slices.hpp"
#include "model/table.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {

/// Roles of a graph's nodes, by position.
struct NodeTable {
  std::vector<NodeRole> roles{};
  /// Names of ops.
  std::vector<std::string> names{};
};

struct SlicedNodes {
  NodeTable table{};
  /// By op of the sliced graph: the positions of the nodes that compute it, in their order.
  Table<OpId, std::vector<int>> nodes{};
  /// Values that take over the memory of their node's first input.
  std::unordered_set<std::string> in_place{};
  /// Size of the slices' constants, beyond those of the graph.
  Bytes constants{};
};

/// Replaces the nodes of the ops that are in slices. `lowered` has writable axes, `regions` are of its graph, `sliced`
/// is the graph in them, and `table` is of the nodes. Throws UnevenSlices (onnx_writer.hpp), placed at the first node,
/// and InputError for a node that reads what is in slices now, such as its shape.
SlicedNodes write_slices(onnx::GraphProto& graph, const LoweredModel& lowered, std::span<const Region> regions,
                         const SlicedGraph& sliced, const NodeTable& table, FreshNames& fresh);

}  // namespace remora::onnx_frontend
