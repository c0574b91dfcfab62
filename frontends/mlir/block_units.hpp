// SPDX-License-Identifier: Apache-2.0
//
// A block as a graph, and the schedule of that graph as a block again (apply_schedule.cpp).
#pragma once

#include <span>
#include <string>

#include "frontends/mlir/cost.hpp"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "model/graph.hpp"
#include "model/types.hpp"

namespace remora::mlir_frontend {

// A block's ops as bufferization will treat them, views among them, and the graph that they make.

// Which ops bufferization turns into another description of their source's buffer.
//
//     %s = tensor.extract_slice %x[0, 0] [64, 32] [1, 1]    every other half row of %x: a view, with strides
//     %c = tensor.collapse_shape %s [[0, 1]]                no description of that as one axis exists: a copy
//
// Buffers are taken to be in row-major order where they are made, at function boundaries, too
// (function-boundary-type-conversion=identity-layout-map).

/// True if the op's one result shares its source's buffer. Casts, slices and expansions always do.
bool is_view(mlir::Operation& op);

// A block's ops, grouped as bufferization will treat them. Every op but the terminator is one of these:
//
//     resident     constants, and scalar arithmetic on them and on arguments that cannot fault: comes before all else
//     view         expand_shape, extract_slice, ...: shares its source's buffer; a use of it is a use of the source; a
//                  unit instead where an op writes into the source, for then bufferization may have to copy
//     destination  tensor.empty, alloc_tensor, fill, ...: says what a buffer starts as; belongs to each op that writes
//                  into it; not where attributes tell its own cost
//     unit         everything else, together with its destinations: one op of the graph
//
//     %e = tensor.empty()                  destination  |
//     %f = linalg.fill outs(%e)            destination  | one unit, whose one buffer is %c's
//     %c = linalg.matmul outs(%f)          unit         |
//     %v = tensor.collapse_shape %c        view: reading it reads %c
//
// A tensor.empty or fill that several ops write into belongs to each of them: bufferization would have to copy it
// anyway.

struct Unit {
  /// The destinations in block order, then the op itself.
  llvm::SmallVector<mlir::Operation*> ops{};
  /// Total of all of them.
  OpCost cost{};
  /// Why the unit must not run again, for a remark; empty if it may, or if its author forbids it.
  std::string obstacle{};
  /// Reads or writes memory: keeps its place among its like.
  bool effects = false;
  /// May fault where an effect before it, an exit perhaps, keeps it from running: stays behind those.
  bool guarded = false;

  [[nodiscard]] mlir::Operation& op() const { return *ops.back(); }
};

struct BlockUnits {
  /// In block order.
  llvm::SmallVector<Unit> units{};
  llvm::DenseSet<mlir::Operation*> views{};
  llvm::DenseSet<mlir::Operation*> destinations{};
  llvm::DenseSet<mlir::Operation*> residents{};
  /// An attribute that cannot be read: at which op, and what about it.
  mlir::Operation* faulty = nullptr;
  std::string fault{};
};

/// Changes nothing. The block's ops must not be used outside of it.
BlockUnits find_units(mlir::Block& block);

/// The values from outside that an op reads, in its regions, too; each once.
llvm::SmallVector<mlir::Value> values_read(mlir::Operation& op);

// From the units of an SSA block to a graph: op k is unit k.
//
//   - Tensor results of units are the graph's tensors, with the bytes of their static types. What the terminator reads
//     is kept; through a view, its source is.
//   - Tensor arguments and constants are inputs of the graph: resident throughout, and counted. The caller owns the
//     one, the program's data section the other, and neither can go. For an arena, in which they do not lie, their sum
//     is the graph's fixed memory.
//   - Other results (scalars, tensors of unknown size) have 0 bytes and their unit runs once.
//   - Units with effects keep their order; those that may fault (divisions) stay behind the effects before them.
//   - An op's `location` says where it stands in its file.

/// Treatment of tensor arguments and constants.
enum class Residents { inputs, fixed_memory };

/// `name`: the graph's, as a rule the function's.
Graph graph_from_block(mlir::Block& block, const BlockUnits& units, std::string name, Residents residents);

/// True if no schedule's bytes or duration can exceed 64 bits.
bool sums_fit(const Graph& graph, int max_computes);

// Writes a schedule into its block: ops move into the order of the steps, a unit that runs again is cloned, and every
// use reads the copy that the latest step before it made, as the evaluator (model/evaluate.hpp) has it.
//
//     steps   A B C A D                    %a  = A
//                                          %b  = B(%a)
//     D reads A's second copy; the         %c  = C(%b)
//     first one's buffer goes after B      %a2 = A   {remora.copy = 5}
//                                          %d  = D(%c, %a2)
//
// Releases are not written: the buffer deallocation frees each buffer after its last use, and that is where the
// schedule releases it. What is not a unit is treated as follows.
//
//   - Each compute has destinations of its own (tensor.empty, fill), so that bufferization gives it its own buffer.
//   - A view is made anew for each copy of its source, where it is first needed.
//   - Clones and destinations carry `remora.copy`, a number of their own in the block: CSE merges only ops whose
//     attributes are equal, so it cannot undo the recompute.
//   - Resident ops stay where they are, before everything else.

inline constexpr const char* kCopyAttribute = "remora.copy";

/// True if each unit's destinations stand next to it, with at most residents and views in between, and so belong to no
/// other unit. If not, the block takes more memory than its graph says, and even its own order has to be written.
bool destinations_in_place(const BlockUnits& units);

/// `sequence`: the units by number, each at least once, in which what every one reads is computed earlier.
void apply_schedule(mlir::Block& block, const BlockUnits& units, std::span<const OpId> sequence);

}  // namespace remora::mlir_frontend
