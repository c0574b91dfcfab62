// SPDX-License-Identifier: Apache-2.0
//
// Checks a TFLite model against its schema, as the runtime does before it runs one.
#pragma once

#include <string>
#include <string_view>

namespace remora::tflite {

/// Checks what FlatBuffers' own verifier checks of a model (`tflite::VerifyModelBuffer`): all tables that can be
/// reached and their fields, vectors and texts lie inside of the file and are aligned, and texts end with a zero byte.
/// Throws InputError that names `source` and the place: "model.subgraphs[0].tensors[3].name". Time: linear in the
/// tables that are reached, of which there may be a million, as in the runtime.
void expect_valid(std::string_view bytes, const std::string& source);

}  // namespace remora::tflite
