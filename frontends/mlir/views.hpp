// SPDX-License-Identifier: Apache-2.0
//
// Which ops bufferization turns into another description of their source's buffer.
//
//     %s = tensor.extract_slice %x[0, 0] [64, 32] [1, 1]    every other half row of %x: a view, with strides
//     %c = tensor.collapse_shape %s [[0, 1]]                no description of that as one axis exists: a copy
//
// Buffers are taken to be in row-major order where they are made, at function boundaries, too
// (function-boundary-type-conversion=identity-layout-map).
#pragma once

#include "mlir/IR/Operation.h"

namespace remora::mlir_frontend {

/// Whether the op's one result shares its source's buffer. Casts, slices and expansions always do.
bool is_view(mlir::Operation& op);

}  // namespace remora::mlir_frontend
