// SPDX-License-Identifier: Apache-2.0
//
// Both passes for pipelines that are built in C++; link libremora_mlir.so:
//
//     mlir::PassManager pipeline(&context);
//     pipeline.addNestedPass<mlir::func::FuncOp>(
//         remora::mlir_frontend::create_rematerialize_pass({.budget = "80%", .threads = 1}));
//
// Without a link, `mlir::PassPlugin::load` and `mlir::parsePassPipeline` give the same. This header needs nothing
// of Remora but options.hpp beside it.
#pragma once

#include <memory>

#include "mlir/Pass/Pass.h"
#include "options.hpp"

namespace remora::mlir_frontend {

/// Reorders and recomputes tensor ops so that a function's tensors fit a memory budget.
[[gnu::visibility("default")]] std::unique_ptr<mlir::Pass> create_rematerialize_pass(
    const RematerializeOptions& options = {});

/// Places the buffers of a bufferized function in one allocation.
[[gnu::visibility("default")]] std::unique_ptr<mlir::Pass> create_arena_pass(const ArenaOptions& options = {});

}  // namespace remora::mlir_frontend
