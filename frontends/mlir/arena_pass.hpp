// SPDX-License-Identifier: Apache-2.0
//
// The pass `remora-arena`: the buffers of a bufferized function as views of one allocation.
//
//     %a = memref.alloc()                     %arena = memref.alloc() : memref<32768xi8>
//     linalg.exp ins(%x) outs(%a)             %a = memref.view %arena[%c0]
//     %b = memref.alloc()                     linalg.exp ins(%x) outs(%a)
//     linalg.exp ins(%a) outs(%b)             %b = memref.view %arena[%c16384]
//     memref.dealloc %a                       linalg.exp ins(%a) outs(%b)
//     %c = memref.alloc()                     %c = memref.view %arena[%c0]
//     linalg.exp ins(%b) outs(%c)             linalg.exp ins(%b) outs(%c)
//     ...                                     ...
//
// Addresses come after bufferization, for a tensor is a value that any pass may read again later, and a buffer is not:
// two tensors that share bytes would be right only as long as nobody moves an op. `remora-rematerialize{arena=true}` finds
// a schedule whose buffers fit an arena within the budget, and leaves on the function what the arena may take; this pass
// holds to it, or fails.
//
// A buffer lives from the first op of the block that uses it, or what may be the same memory, to the last one. A returned
// buffer lives to the end, and the arena with it. What may outlive its block unseen, is released by somebody else or
// belongs to a region keeps its own allocation.
#pragma once

namespace remora::mlir_frontend {

/// On a function: its own budget, as text, instead of the option's; "none" leaves the function alone.
inline constexpr const char* kBudgetAttribute = "remora.memory_budget";

/// On a function: a dictionary of `capacity`, the bytes that its allocations may take, and `alignment`.
inline constexpr const char* kArenaAttribute = "remora.arena";

}  // namespace remora::mlir_frontend
