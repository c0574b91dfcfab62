// SPDX-License-Identifier: Apache-2.0
//
// A compiler of somebody else, for plugin_test.py: its pipeline is built in C++, from both passes.
//
//     pipeline_program FILE BUDGET REPORT        prints the module
#include <cstdlib>

#include "frontends/mlir/passes.hpp"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

int main(int count, char** words) {
  if (count != 4) return EXIT_FAILURE;
  mlir::MLIRContext context;
  context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                      mlir::tensor::TensorDialect>();
  mlir::OwningOpRef<mlir::ModuleOp> network = mlir::parseSourceFile<mlir::ModuleOp>(words[1], &context);
  if (!network) return EXIT_FAILURE;
  mlir::PassManager pipeline(&context);
  pipeline.addNestedPass<mlir::func::FuncOp>(remora::mlir_frontend::create_rematerialize_pass(
      {.budget = words[2], .time_limit = 60, .work_limit = 20'000, .threads = 1, .report = words[3]}));
  pipeline.addNestedPass<mlir::func::FuncOp>(remora::mlir_frontend::create_arena_pass({.alignment = 128}));
  if (mlir::failed(pipeline.run(*network))) return EXIT_FAILURE;
  network->print(llvm::outs());
  return EXIT_SUCCESS;
}
