// SPDX-License-Identifier: Apache-2.0
#include "frontends/mlir/views.hpp"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinTypes.h"

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

}  // namespace remora::mlir_frontend
