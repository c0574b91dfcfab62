// SPDX-License-Identifier: Apache-2.0
//
// Tensors that are somebody else's memory. As a rule a tensor is a value: whoever reads it reads the same, however
// late. One that was made of a memref is that memref's buffer, and says so nowhere but at the op that made it:
//
//     %x = bufferization.to_tensor %m restrict      %x is %m's buffer
//     %a = linalg.exp ins(%x) ...                   has no effects, but reads %m
//     memref.store %v, %m[%i, %i]                   %a, moved behind this, is another tensor
#pragma once

#include "mlir/IR/Block.h"

namespace remora::mlir_frontend {

/// Whether the block, with all inside it, has both an op that turns memory into tensors or back, and one that may write
/// memory, that is, has effects other than to read and to allocate, or effects that MLIR does not know.
bool may_write_what_tensors_are_made_of(mlir::Block& block);

}  // namespace remora::mlir_frontend
