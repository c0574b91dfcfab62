// SPDX-License-Identifier: Apache-2.0
//
// A region of a graph computed in slices: the rewriting (docs/design/slices.md).
//
//     parts {mm rows, relu rows, sum rows}, 2 slices              x: input, s: summed
//
//     x -> mm -> y -> relu -> z -> sum -> s                       mm#0 relu#0 sum#0   mm#1 relu#1 sum#1
//                                                                 y#0, z#0, y#1, z#1: half the size; s#0, s: the whole,
//                                                                 s takes over the storage of s#0
//
// The result is an ordinary graph. What is not independent by the axes is rejected.
#pragma once

#include <span>
#include <vector>

#include "model/api.hpp"
#include "model/graph.hpp"
#include "model/table.hpp"
#include "model/types.hpp"

namespace remora {

/// An op of a region, and the number of the axis along which it is cut.
struct SlicedOp {
  OpId op{};
  int axis = 0;

  friend bool operator==(const SlicedOp&, const SlicedOp&) = default;
};

/// Ops that run together, slice by slice, in the graph's order.
using RegionPart = std::vector<SlicedOp>;

struct Region {
  std::vector<RegionPart> parts{};
  /// How many, at least 1; fewer where an axis has fewer iterations.
  int slices = 1;

  friend bool operator==(const Region&, const Region&) = default;
};

/// More are rejected where a number is read.
inline constexpr int kMaxSlices = 65'536;

/// How slices run, as far as the graph does not say it.
struct SliceRun {
  /// Added to the duration of every slice of an op that is not free, such as the launch of a kernel.
  Duration overhead{};
  /// A slice computes its rows of a result that is assembled, or its term of a sum but the first, into a temporary,
  /// which counts as workspace.
  bool temporaries = false;
  /// A slice reads its rows of a tensor of which there is more from a copy, which counts as workspace.
  bool copies = false;
  /// Bytes that are read or written in a unit of duration, for what a slice does beyond its share of the op: it reads
  /// and writes all of a sum, but for the first term, and copies its rows from and to others. This costs nothing if 0.
  Bytes bandwidth{};

  friend bool operator==(const SliceRun&, const SliceRun&) = default;
};

/// The source of an op of a sliced graph.
struct OpSource {
  OpId op{};
  /// From 0; -1 of an op that is not cut.
  int slice = -1;
  /// The slice's iterations; empty of an op that is not cut.
  Range iterations{};

  friend bool operator==(const OpSource&, const OpSource&) = default;
};

/// The source of a tensor of a sliced graph.
struct TensorSource {
  TensorId tensor{};
  /// From 0: of a slice of the tensor, or of what is assembled or summed of the whole tensor so far, which has the
  /// tensor's size. -1 of a tensor that no slice writes.
  int slice = -1;
  /// The bytes of each block (model/axes.hpp) that the slice has; empty of a whole tensor.
  Range bytes{};

  friend bool operator==(const TensorSource&, const TensorSource&) = default;
};

struct SlicedGraph {
  Graph graph{};
  /// By op and tensor of `graph`. Slices of an op ascend in its order.
  Table<OpId, OpSource> ops{};
  Table<TensorId, TensorSource> tensors{};
  /// How many there are: 1 if nothing is cut.
  int slices = 1;
};

/// The graph with the region in slices. Ops that are not cut keep their axes; slices have none. Names of slices are
/// those of op and tensor with "#" and the slice; the last version of a tensor that slices assemble or add up keeps
/// its name.
///
/// `graph` must be sound (`validate`); so is the result but for sums beyond 64 bits, which Instance rejects. Throws
/// InputError with the path ("parts[0][2]") for an unknown op or axis, an op that occurs twice, a part without ops,
/// and where slices would not be independent: a part whose op needs all slices of what the part writes, whose ops are
/// ordered by `after`, or that must run before and behind another op, and an op whose slices would add a term to a sum
/// twice, compute a row again though it may run only once, or have nothing to compute.
/// O(tensors + edges + slices x edges of the region), with logarithms.
REMORA_API SlicedGraph slice(const Graph& graph, const Region& region, const SliceRun& run = {});

/// The same of several regions without a common op, one after the other; ops and axes are those of `graph`. Throws
/// InputError with the path ("regions[1].parts[0][2]"); `slices` is the largest number.
REMORA_API SlicedGraph slice(const Graph& graph, std::span<const Region> regions, const SliceRun& run = {});

}  // namespace remora
