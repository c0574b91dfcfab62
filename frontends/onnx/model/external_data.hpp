// SPDX-License-Identifier: Apache-2.0
//
// Weights outside the model's file: their places are relative to the folder that the file is in. Nothing here opens them.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace onnx {
class ModelProto;
}  // namespace onnx

namespace remora::onnx_frontend {

/// Throws InputError with the first tensor whose data lies outside the model's folder: an absolute place, one that leaves
/// it by `..`, or a link that leads out of it. Links are looked at where `folder`, the model's, is given.
void check_external_data(onnx::ModelProto& model, const std::optional<std::filesystem::path>& folder);

/// The files that the model's data is in, read from the folder `from`; one that several tensors share may be there more
/// than once. They need not exist.
std::vector<std::filesystem::path> external_files(onnx::ModelProto& model, const std::filesystem::path& from);

/// Makes the places right for a model that is read from the folder `from` and written to the folder `to` (none: not to
/// a file). A place is only changed if it has to be. Throws InputError with the tensor for data that no place relative
/// to `to` reaches without leaving it.
void move_external_data(onnx::ModelProto& model, const std::filesystem::path& from,
                        const std::optional<std::filesystem::path>& to);

}  // namespace remora::onnx_frontend
