// SPDX-License-Identifier: Apache-2.0
//
// The pass `remora-rematerialize`: reads a function's block (block_units.hpp, graph_from_block.hpp), asks the engine
// for a schedule within the budget (plan.hpp), and writes it back (apply_schedule.hpp).
//
//     mlir-opt-19 --load-pass-plugin=libremora_mlir.so
//                 --pass-pipeline='builtin.module(func.func(remora-rematerialize{memory-budget=80%}))'
#pragma once

namespace remora::mlir_frontend {

/// A function's own budget, as text, instead of the option's; "none" leaves the function alone.
inline constexpr const char* kBudgetAttribute = "remora.memory_budget";

/// Makes the pass known to the tool's pass registry.
void register_rematerialize_pass();

}  // namespace remora::mlir_frontend
