// SPDX-License-Identifier: Apache-2.0
//
// A rewritten model beside its original in onnxruntime (`remora rewrite --check`). The runs are those of
// examples/rewrite_onnx/runtime.py, whose text is part of the program: `PYTHON -c TEXT compare ORIGINAL REWRITTEN SHAPES`.
#pragma once

#include <iosfwd>
#include <string>

#include "frontends/cli/reading/graph_source.hpp"

namespace remora::cli {

/// Throws InputError where the program cannot be run, or has no onnxruntime.
void expect_onnxruntime(const std::string& python);

/// Runs both, with inputs of the extents that the model was read with, and writes what they say: whether outputs are equal in every bit
/// and by how much they differ, the memory that a run of either takes, and a word if that of `rewritten` is not less. Throws InputError
/// where one does not run, and, once all is printed, where an output differs on which two runs of the original agree.
void check_rewritten(std::ostream& out, const std::string& python, const LoadedModel& original,
                     const std::string& rewritten, bool in_slices);

}  // namespace remora::cli
