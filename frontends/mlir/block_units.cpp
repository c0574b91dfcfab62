// SPDX-License-Identifier: Apache-2.0
#include "frontends/mlir/block_units.hpp"

#include "frontends/mlir/cost.hpp"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"
#include "model/types.hpp"

namespace remora::mlir_frontend {
namespace {

using mlir::memref::CollapseShapeOp;
using mlir::memref::ExpandShapeOp;
using mlir::memref::SubViewOp;

mlir::MemRefType row_major(mlir::Value value) {
  const auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
  return mlir::MemRefType::get(type.getShape(), type.getElementType());
}

/// The type of the buffer that bufferization will give the value, a ranked tensor.
mlir::MemRefType buffer_of(mlir::Value value) {
  if (auto slice = value.getDefiningOp<mlir::tensor::ExtractSliceOp>()) {
    return mlir::cast<mlir::MemRefType>(
        SubViewOp::inferRankReducedResultType(slice.getType().getShape(), buffer_of(slice.getSource()),
                                              slice.getMixedOffsets(), slice.getMixedSizes(), slice.getMixedStrides()));
  }
  if (auto expansion = value.getDefiningOp<mlir::tensor::ExpandShapeOp>()) {
    const auto type = ExpandShapeOp::computeExpandedType(
        buffer_of(expansion.getSrc()), expansion.getResultType().getShape(), expansion.getReassociationIndices());
    if (mlir::succeeded(type)) return *type;
  }
  if (auto collapse = value.getDefiningOp<mlir::tensor::CollapseShapeOp>(); collapse && is_view(*collapse)) {
    return CollapseShapeOp::computeCollapsedType(buffer_of(collapse.getSrc()), collapse.getReassociationIndices());
  }
  auto cast = value.getDefiningOp<mlir::tensor::CastOp>();
  if (cast && mlir::isa<mlir::RankedTensorType>(cast.getSource().getType())) return buffer_of(cast.getSource());
  return row_major(value);
}

}  // namespace

bool is_view(mlir::Operation& op) {
  if (auto collapse = mlir::dyn_cast<mlir::tensor::CollapseShapeOp>(op)) {
    return CollapseShapeOp::isGuaranteedCollapsible(buffer_of(collapse.getSrc()), collapse.getReassociationIndices());
  }
  if (auto reshape = mlir::dyn_cast<mlir::tensor::ReshapeOp>(op)) {
    const mlir::Value source = reshape.getSource();
    return mlir::isa<mlir::RankedTensorType>(source.getType()) && buffer_of(source).getLayout().isIdentity();
  }
  return mlir::isa<mlir::tensor::CastOp, mlir::tensor::ExpandShapeOp, mlir::tensor::ExtractSliceOp>(op);
}

namespace {

using mlir::tensor::InsertSliceOp;

/// Whether the op is nothing but a value known now. Traits would say so, but a template's type id is made from its name
/// as the compiler spells it, and MLIR may come from another compiler: no hasTrait here.
bool is_constant(mlir::Operation& op) {
  if (op.getNumOperands() != 0 || op.getNumRegions() != 0 || !mlir::isMemoryEffectFree(&op)) return false;
  llvm::SmallVector<mlir::OpFoldResult> folded;
  return mlir::succeeded(op.fold({}, folded)) && folded.size() == 1 && mlir::isa<mlir::Attribute>(folded.front());
}

/// Makes a buffer whose contents nobody knows.
bool makes_undefined(mlir::Operation& op) {
  return mlir::isa<mlir::tensor::EmptyOp>(op) ||
         (op.getName().getStringRef() == "bufferization.alloc_tensor" && op.getNumOperands() == 0);
}

/// Whether the operand is what the op writes its result into.
bool is_destination_of(mlir::OpOperand& use) {
  auto style = mlir::dyn_cast<mlir::DestinationStyleOpInterface>(use.getOwner());
  return style && style.isDpsInit(&use);
}

class Grouping {
 public:
  explicit Grouping(mlir::Block& block) : block_(block) {}

  BlockUnits run() {
    for (mlir::Operation& op : block_.without_terminator()) {
      if (is_resident(op)) {
        result_.residents.insert(&op);
      } else if (!op.use_empty() && is_view(op) && !source_is_overwritten(op)) {
        result_.views.insert(&op);
      } else if (is_destination(op)) {
        result_.destinations.insert(&op);
      }
    }
    for (mlir::Operation& op : block_.without_terminator()) {
      if (!result_.residents.contains(&op) && !result_.views.contains(&op) && !result_.destinations.contains(&op)) {
        add_unit(op);
      }
    }
    return std::move(result_);
  }

 private:
  bool is_resident(mlir::Operation& op) const {
    if (is_constant(op)) return true;
    const auto is_tensor = [](mlir::Type type) { return mlir::isa<mlir::TensorType>(type); };
    return op.getNumRegions() == 0 && mlir::isPure(&op) && op.getNumResults() > 0 &&
           llvm::none_of(op.getResultTypes(), is_tensor) &&
           llvm::all_of(op.getOperands(), [&](mlir::Value value) { return stays(value); });
  }

  /// Whether somebody writes into the buffer that the view would share. Bufferization then copies what is viewed, where
  /// the view stands, or what is written.
  static bool source_is_overwritten(mlir::Operation& view) {
    mlir::Value source = view.getOperand(0);
    while (source.getDefiningOp() != nullptr && is_view(*source.getDefiningOp())) {
      source = source.getDefiningOp()->getOperand(0);
    }
    return llvm::any_of(source.getUses(), is_destination_of);
  }

  /// Whether the value is there throughout.
  bool stays(mlir::Value value) const {
    mlir::Operation* const producer = value.getDefiningOp();
    return producer == nullptr || result_.residents.contains(producer);
  }

  bool used_in_block_only_by_ops(mlir::Operation& op) const {
    return llvm::all_of(op.getUsers(), [&](mlir::Operation* user) {
      return user->getBlock() == &block_ && user != block_.getTerminator();
    });
  }

  bool only_written_into(mlir::Operation& op) const {
    return used_in_block_only_by_ops(op) && llvm::all_of(op.getUses(), is_destination_of);
  }

  /// Decided in block order: what an op is written into comes before it.
  bool is_destination(mlir::Operation& op) const {
    if (op.use_empty() || op.getNumResults() != 1 || has_cost_attribute(op)) return false;
    if (makes_undefined(op)) {
      // Nobody can tell one undefined tensor from another, so every kind of use gets its own.
      return used_in_block_only_by_ops(op) &&
             llvm::none_of(op.getUsers(), [](mlir::Operation* user) { return is_view(*user); });
    }
    if (!only_written_into(op)) return false;
    auto style = mlir::dyn_cast<mlir::DestinationStyleOpInterface>(op);
    if (!style || !written_into_destination(style)) return false;
    if (mlir::isa<mlir::linalg::FillOp>(op)) return true;
    if (!op.hasOneUse()) return false;
    if (mlir::isa<InsertSliceOp>(op)) return mlir::isa<InsertSliceOp>(*op.user_begin());
    return mlir::isa<mlir::linalg::LinalgOp>(op) && free_of_effects(op) &&
           llvm::all_of(style.getDpsInputs(), [&](mlir::Value value) { return stays(value); });
  }

  bool written_into_destination(mlir::DestinationStyleOpInterface style) const {
    return llvm::all_of(style.getDpsInits(), [&](mlir::Value value) {
      return value.getDefiningOp() != nullptr && result_.destinations.contains(value.getDefiningOp());
    });
  }

  void add_unit(mlir::Operation& op) {
    Unit unit;
    llvm::SetVector<mlir::Operation*> ops;
    collect(op, ops);
    unit.ops.assign(ops.begin(), ops.end());
    JudgedOp judged = judge(op);
    if (!judged.error.empty() && result_.faulty == nullptr) {
      result_.faulty = &op;
      result_.fault = judged.error;
    }
    unit.cost = judged.cost;
    unit.obstacle = std::move(judged.obstacle);
    unit.effects = !free_of_effects(op) && !judged.cost.recompute;
    unit.guarded = !mlir::isSpeculatable(&op);
    for (mlir::Operation* const destination : llvm::ArrayRef(unit.ops).drop_back()) {
      unit.cost.duration = saturating_sum(unit.cost.duration, flops(*destination).value_or(0));
    }
    unit.cost.workspace = saturating_sum(unit.cost.workspace, read_empties(op));
    result_.units.push_back(std::move(unit));
  }

  /// The op's destinations, theirs first.
  void collect(mlir::Operation& op, llvm::SetVector<mlir::Operation*>& ops) const {
    for (const mlir::Value value : op.getOperands()) {
      mlir::Operation* const producer = value.getDefiningOp();
      if (producer != nullptr && result_.destinations.contains(producer)) collect(*producer, ops);
    }
    ops.insert(&op);
  }

  /// Empty tensors that the op does not write into get a buffer beside its results: the window of a pooling op.
  static std::int64_t read_empties(mlir::Operation& op) {
    std::int64_t total = 0;
    for (mlir::OpOperand& use : op.getOpOperands()) {
      mlir::Operation* const producer = use.get().getDefiningOp();
      if (producer == nullptr || !makes_undefined(*producer) || is_destination_of(use)) continue;
      total = saturating_sum(total, tensor_bytes(use.get().getType()).value_or(0));
    }
    return total;
  }

  mlir::Block& block_;
  BlockUnits result_{};
};

}  // namespace

BlockUnits find_units(mlir::Block& block) {
  return Grouping(block).run();
}

llvm::SmallVector<mlir::Value> values_read(mlir::Operation& op) {
  llvm::SetVector<mlir::Value> values(op.operand_begin(), op.operand_end());
  mlir::getUsedValuesDefinedAbove(op.getRegions(), values);
  return values.takeVector();
}

}  // namespace remora::mlir_frontend
