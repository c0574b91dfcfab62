// SPDX-License-Identifier: Apache-2.0
//
// What `mlir-opt --load-pass-plugin` calls.
#include "engine/base/version.hpp"
#include "frontends/mlir/rematerialize_pass.hpp"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "model/api.hpp"

extern "C" REMORA_API mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "remora", remora::version(), remora::mlir_frontend::register_rematerialize_pass};
}
