// SPDX-License-Identifier: Apache-2.0
//
// Local functions of a model (ModelProto.functions), as newer exporters write them for every module, are replaced by
// their bodies. Names inside a body get the call's name as prefix:
//
//     encoder = MyBlock(x)   with  MyBlock(a) = { t = Relu(a); y = Exp(t) }
//     becomes  encoder/t = Relu(x);  encoder = Exp(encoder/t)
//
// A name that the model has already, wherever, gets a number: encoder/t#2.
#pragma once

#include <string>
#include <vector>

#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {

/// Replaces every call of a local function, nested calls too. Throws InputError for a function that calls itself,
/// for calls nested deeper than 200, and for models that would grow by more than a million nodes and calls, counted
/// before anything is written, or beyond twice the file and 256 MiB. Appends a line to `warnings` where a function states another version
/// of the default operator set than the model (the model's is used).
void inline_functions(onnx::ModelProto& model, std::vector<std::string>& warnings);

}  // namespace remora::onnx_frontend
