// SPDX-License-Identifier: Apache-2.0
//
// The modes of an op (remora-graph 4), between JSON and the model.
//
//     "modes": [{"duration": 14, "output_sizes": [0]}, null], "follows": "F", "unread": ["x"]
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/formats/document.hpp"
#include "frontends/formats/json_text.hpp"
#include "model/graph.hpp"

namespace remora::json {

/// The modes that the keys of an op state; `op` has its inputs and outputs, the graph its tensors. None without such a
/// key. Throws InputError with the place.
std::optional<OpModes> read_modes(const Node& node, const Op& op, const NameTable<TensorId>& tensors,
                                  const NameTable<OpId>& ops, const Graph& graph);

/// Writes those keys, but for what is as by default.
void write_modes(ObjectText& object, std::string& out, const Op& op, const Graph& graph);

}  // namespace remora::json
