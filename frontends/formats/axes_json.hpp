// SPDX-License-Identifier: Apache-2.0
//
// Axes of an op (remora-graph 4).
//
//     "axes": [{"extent": 64, "cut": [{"tensor": "x"}, {"tensor": "y"}], "sum": ["s"]}]
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "frontends/formats/document.hpp"
#include "frontends/formats/json_text.hpp"
#include "model/graph.hpp"

namespace remora::json {

/// The numbers of a cut; what a writer leaves out follows from the extent and the tensor's size.
struct CutNumbers {
  std::optional<std::int64_t> rows{};
  std::optional<std::int64_t> stride{};
  std::int64_t step = 1;
  std::int64_t offset = 0;
  std::optional<std::int64_t> length{};
};

/// By default, iterations have `step` rows each, rows make up the whole tensor, and the length is the step. `validate`
/// says what is wrong.
Cut complete_cut(TensorId tensor, Bytes size, std::int64_t extent, const CutNumbers& numbers);

/// The list under `axes`; the graph has its tensors. Throws InputError with the place.
std::vector<Axis> read_axes(const Node& node, const NameTable<TensorId>& tensors, const Graph& graph);

/// Writes the member `axes`, without numbers that follow from others.
void write_axes(ObjectText& object, std::string& out, const Op& op, const Graph& graph);

}  // namespace remora::json
