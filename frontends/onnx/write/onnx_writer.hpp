// SPDX-License-Identifier: Apache-2.0
//
// A model whose nodes stand in the order of a schedule, recomputed ones again under fresh names.
//
//     model   A: x -> a   B: a -> b   C: b, a -> c                      schedule  A B A C
//     result  A: x -> a   B: a -> b   A#2: x -> a#2   C: b, a#2 -> c
//
// Everything else stays as it is: initializers, inputs and outputs, operator sets, functions, metadata, also what this
// version of ONNX does not know. Fresh values get the type of the value that they are a copy of, where the file states
// it. Calls of the model's own functions are written as the functions' bodies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "frontends/onnx/read/onnx_reader.hpp"
#include "model/error.hpp"
#include "model/schedule.hpp"
#include "model/slices.hpp"

namespace remora::onnx_frontend {

/// Where a model comes from and where it goes, for data outside the file (model/model_proto.hpp).
struct ModelFolders {
  std::filesystem::path from{};
  std::optional<std::filesystem::path> to{};
};

/// The files beside the model's that its data is in; `folder`: the model's. Throws InputError for bytes that are no
/// model.
std::vector<std::filesystem::path> data_files(std::string_view content, const std::filesystem::path& folder);

/// The bytes of the rewritten model. `content`: of the model's file; `lowered`: what lower_onnx made of it, without
/// training; `sequence`: the ops of a valid schedule of its graph, in order. Throws InputError for external data that
/// would be lost, functions that cannot be written inline, an order in which a shape is needed before the value that
/// has it, and a result of 2 GiB or more.
std::string rewrite_model(std::string_view content, const LoweredModel& lowered, std::span<const OpId> sequence,
                          const ModelFolders& folders);

/// Slices of a model's graph, which has writable axes.
struct ModelSlices {
  std::vector<Region> regions{};
  /// The graph in them.
  const SlicedGraph& sliced;
  /// OnnxOptions::dimensions: slices have these extents alone.
  std::map<std::string, std::int64_t> dimensions{};
};

struct SlicedModel {
  std::string bytes{};
  /// Values that take over the memory of the first input of their node.
  std::unordered_set<std::string> in_place{};
  /// Size of the file's constants beyond those of the original: indices and settings of the slices.
  Bytes constants{};
};

/// Slices that are too uneven: the indices that put their results together would be large.
class UnevenSlices : public InputError {
 public:
  UnevenSlices(const std::string& place, const std::string& what, std::vector<SlicedOp> ops)
      : InputError(place, what), ops_(std::move(ops)) {}

  /// All such ops and their axes; ops ascend.
  [[nodiscard]] const std::vector<SlicedOp>& ops() const { return ops_; }

 private:
  std::vector<SlicedOp> ops_;
};

/// The same in slices: `sequence` is of the ops of the sliced graph. Throws UnevenSlices, too.
SlicedModel rewrite_in_slices(std::string_view content, const LoweredModel& lowered, const ModelSlices& slices,
                              std::span<const OpId> sequence, const ModelFolders& folders);

/// Reads the rewritten model and checks that its nodes in the order of the file, each released after its last reader,
/// take no more memory and no more time than the schedule says. A broken invariant (std::logic_error) otherwise.
void check_rewritten(std::string_view rewritten, const std::string& source, const OnnxOptions& options,
                     const Schedule& schedule);
/// The same of the memory of a model in slices, beside their constants.
void check_rewritten(const SlicedModel& rewritten, const std::string& source, const OnnxOptions& options,
                     const Schedule& schedule);

// A schedule told in the names of the model (remora-runtime-schedule 1, docs/guide/rewrite.md), for a runtime to execute:
// what every node reads and writes, which values share memory, and for each step what is allocated, run and released.
// A training step cannot be written as a model: ONNX has no nodes for its backward pass.

/// The JSON text. `schedule`: a valid one of the graph. Throws InputError for a name that is not UTF-8.
std::string runtime_schedule(const LoweredModel& lowered, const Schedule& schedule);

}  // namespace remora::onnx_frontend
