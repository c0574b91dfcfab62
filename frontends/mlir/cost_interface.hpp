// SPDX-License-Identifier: Apache-2.0
//
// How other dialects tell remora-rematerialize what their ops cost. Two ways, both without linking to the plugin:
//
// Attributes on one op, as text or from C++; they go before everything else:
//
//     %b = "my.attention"(%a) {remora.cost = 4096 : i64, remora.workspace = 1024 : i64, remora.recompute = true} : ...
//
// A dialect interface, attached by the dialect itself or by somebody else's extension:
//
//     struct MyCosts : remora::mlir_frontend::CostInterface {
//       using CostInterface::CostInterface;
//       std::optional<OpCost> cost(mlir::Operation& op) const override { return OpCost{.duration = 4096}; }
//     };
//     registry.addExtension(+[](mlir::MLIRContext*, MyDialect* dialect) { dialect->addInterfaces<MyCosts>(); });
//
// MLIR tells interfaces apart by the type's name, so the plugin finds what another shared object registered. This
// header needs nothing of Remora beyond itself.
#pragma once

#include <cstdint>
#include <optional>

#include "mlir/IR/DialectInterface.h"
#include "mlir/IR/Operation.h"

namespace remora::mlir_frontend {

/// The attributes' names.
inline constexpr const char* kCostAttribute = "remora.cost";
inline constexpr const char* kWorkspaceAttribute = "remora.workspace";
inline constexpr const char* kRecomputeAttribute = "remora.recompute";

struct OpCost {
  /// In the unit of all others: linalg ops count one per scalar operation, as a rule (docs/guide/mlir.md).
  std::int64_t duration = 0;
  /// Bytes of scratch memory that live only while the op runs.
  std::int64_t workspace = 0;
  /// True if the op may run again. True vouches that it gives the same results each time, for ops whose effects MLIR
  /// does not know, too. Dynamic shapes and results that are no tensors forbid it in any case.
  bool recompute = true;
};

class CostInterface : public mlir::DialectInterface::Base<CostInterface> {
 public:
  explicit CostInterface(mlir::Dialect* of) : Base(of) {}

  /// The cost of an op of the dialect, or nothing to leave it to Remora. Called from several threads at once; must not
  /// change the op.
  [[nodiscard]] virtual std::optional<OpCost> cost(mlir::Operation& op) const = 0;
};

}  // namespace remora::mlir_frontend
