// SPDX-License-Identifier: Apache-2.0
//
// Preconditions of libonnx's inference functions, checked before one of them is called.
//
// They are written for nodes as the operators' definitions have them. Most check what they index or divide by; some do
// not, and a file can make those crash, write where they must not, or not return:
//
//     GRU, opset 3     batch_size = input.dim(1)        a vector has no dim(1): reads behind its end, crashes
//     Gemm, opset 6    output = a.dim(0), b.dim(1)      likewise
//     MaxRoiPool       height = pooled_shape[1]         data of rank 3 has one entry: reads behind its end
//     Einsum           ++count[letter - 'a']            a capital letter writes in front of the array
//     DepthToSpace     depth / (block * block)          a block of 2^32 is squared to 0: divides by it
//     Conv, auto_pad   while (rest >= stride) ...       an extent of 2^60: subtracts for years
//     Expand           for (each entry) add_dim()       an unknown shape of 2^31 entries: fills the memory
//
// A node that breaks what its op takes for granted is wrong in any case: here that is an error of the node. The table
// is made from libonnx 1.12 (onnx/defs at v1.12.0), every inference function of every opset read, and every schema run
// on mutated nodes, with the library instrumented too (mutated_nodes_test.cpp, docs/develop/reliability.md).
#pragma once

#include <string>

#include "frontends/onnx/infer/shape_rules.hpp"

namespace onnx {
class NodeProto;
class OpSchema;
}  // namespace onnx

namespace remora::onnx_frontend {

/// Why libonnx must not infer this node's outputs, one line; empty if it may. `node` has passed the schema's Verify,
/// `context` is what has been read of the same node.
std::string schema_objection(const onnx::OpSchema& schema, const onnx::NodeProto& node, const RuleContext& context);

}  // namespace remora::onnx_frontend
