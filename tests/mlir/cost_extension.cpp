// SPDX-License-Identifier: Apache-2.0
//
// Somebody else's shared object, for cost_test.py: gives the ops of tosa a cost, without a link to Remora.
#include <cstdint>
#include <optional>

#include "frontends/mlir/cost_interface.hpp"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "model/api.hpp"

namespace {

using remora::mlir_frontend::OpCost;

/// tosa.exp costs 1000 and may run again, tosa.log costs 500 and must not; of the rest it knows nothing.
class TosaCosts : public remora::mlir_frontend::CostInterface {
 public:
  using CostInterface::CostInterface;

  [[nodiscard]] std::optional<OpCost> cost(mlir::Operation& op) const override {
    if (mlir::isa<mlir::tosa::ExpOp>(op)) return OpCost{.duration = 1000, .workspace = 64, .recompute = true};
    if (mlir::isa<mlir::tosa::LogOp>(op)) return OpCost{.duration = 500, .workspace = 0, .recompute = false};
    return std::nullopt;
  }
};

void add_costs(mlir::MLIRContext*, mlir::tosa::TosaDialect* dialect) {
  dialect->addInterfaces<TosaCosts>();
}

}  // namespace

extern "C" REMORA_API mlir::DialectPluginLibraryInfo mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "cost_extension", "1",
          [](mlir::DialectRegistry* registry) { registry->addExtension(add_costs); }};
}
