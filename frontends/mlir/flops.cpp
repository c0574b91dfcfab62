// SPDX-License-Identifier: Apache-2.0
#include "frontends/mlir/flops.hpp"

#include <algorithm>

#include "llvm/ADT/StringSwitch.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinTypes.h"
#include "model/saturating.hpp"

namespace remora::mlir_frontend {
namespace {

/// The product of static extents; nothing if one is dynamic.
std::optional<std::int64_t> product(llvm::ArrayRef<std::int64_t> extents) {
  std::int64_t result = 1;
  for (const std::int64_t extent : extents) {
    if (mlir::ShapedType::isDynamic(extent)) return std::nullopt;
    result = saturating_product(result, extent);
  }
  return result;
}

std::optional<std::int64_t> elements(mlir::Type type) {
  const auto shaped = mlir::dyn_cast<mlir::RankedTensorType>(type);
  return shaped ? product(shaped.getShape()) : std::optional<std::int64_t>(1);
}

/// As frontends/onnx counts them.
std::int64_t scalar_cost(mlir::Operation& op) {
  if (mlir::isa<mlir::linalg::YieldOp, mlir::tensor::YieldOp>(op)) return 0;
  return llvm::StringSwitch<std::int64_t>(op.getName().getStringRef())
      .Cases("arith.constant", "linalg.index", "arith.extf", "arith.truncf", "arith.bitcast", "arith.index_cast", 0)
      .Cases("math.exp", "math.exp2", "math.expm1", "math.log", "math.log2", "math.log1p", 4)
      .Cases("math.sin", "math.cos", "math.tan", "math.atan", "math.atan2", 6)
      .Cases("math.tanh", "math.sinh", "math.cosh", 6)
      .Cases("math.erf", "math.powf", 8)
      .Default(1);
}

std::int64_t body_cost(mlir::Operation& op) {
  std::int64_t total = 0;
  for (mlir::Region& region : op.getRegions()) {
    region.walk([&](mlir::Operation* inner) { total = saturating_sum(total, scalar_cost(*inner)); });
  }
  return std::max<std::int64_t>(1, total);
}

/// Of all its results, or of the source for insertions, which write only that.
std::optional<std::int64_t> moved_elements(mlir::Operation& op) {
  if (auto insertion = mlir::dyn_cast<mlir::tensor::InsertSliceOp>(op)) return elements(insertion.getSourceType());
  std::int64_t total = 0;
  for (const mlir::Type type : op.getResultTypes()) {
    const auto one = elements(type);
    if (!one) return std::nullopt;
    total = saturating_sum(total, *one);
  }
  return total;
}

/// What LLVM allocates for a number in an array: a power of two of bytes up to 16, multiples of 16 beyond.
std::int64_t allocated_bytes(unsigned bits) {
  constexpr std::int64_t kByte = 8;
  constexpr std::int64_t kWidest = 16;
  const std::int64_t bytes = (static_cast<std::int64_t>(bits) + kByte - 1) / kByte;
  if (bytes > kWidest) return (bytes + kWidest - 1) / kWidest * kWidest;
  std::int64_t result = 1;
  while (result < bytes) result *= 2;
  return result;
}

}  // namespace

std::optional<std::int64_t> flops(mlir::Operation& op) {
  if (auto structured = mlir::dyn_cast<mlir::linalg::LinalgOp>(op)) {
    const auto iterations = product(structured.getStaticLoopRanges());
    if (!iterations) return std::nullopt;
    return saturating_product(*iterations, body_cost(op));
  }
  const auto moved = moved_elements(op);
  if (!moved) return std::nullopt;
  if (mlir::isa<mlir::linalg::SoftmaxOp>(op)) {
    constexpr std::int64_t kSoftmax = 5;
    return saturating_product(kSoftmax, *moved);
  }
  if (mlir::isa<mlir::tensor::GenerateOp>(op)) return saturating_product(*moved, body_cost(op));
  if (mlir::isa<mlir::tensor::EmptyOp>(op)) return 0;
  const llvm::StringRef dialect = op.getName().getDialectNamespace();
  if (dialect == "tensor") return moved;
  // Whatever these do to tensors, they do to each element.
  if (dialect == "arith" || dialect == "math")
    return saturating_product(*moved, std::max<std::int64_t>(1, scalar_cost(op)));
  return std::nullopt;
}

std::optional<std::int64_t> tensor_bytes(mlir::Type type) {
  const auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || tensor.getEncoding()) return std::nullopt;
  mlir::Type element = tensor.getElementType();
  std::int64_t parts = 1;
  if (const auto complex = mlir::dyn_cast<mlir::ComplexType>(element)) {
    element = complex.getElementType();
    parts = 2;
  }
  constexpr std::int64_t kIndexBytes = 8;
  std::int64_t bytes = kIndexBytes;
  if (element.isIntOrFloat()) {
    bytes = allocated_bytes(element.getIntOrFloatBitWidth());
  } else if (!element.isIndex()) {
    return std::nullopt;
  }
  const std::int64_t total = saturating_product(saturating_product(bytes, parts), *product(tensor.getShape()));
  return total < kSaturated ? std::optional<std::int64_t>(total) : std::nullopt;
}

}  // namespace remora::mlir_frontend
