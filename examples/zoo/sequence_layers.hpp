// SPDX-License-Identifier: Apache-2.0
//
// Layers of Transformers, on [batch, length, width].
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "examples/zoo/graph_builder.hpp"
#include "examples/zoo/settings.hpp"

namespace remora::zoo {

/// How layers are written that exporters write in several ways.
struct Dialect {
  /// LayerNormalization as elementary ops (before opset 17), not as one op.
  bool decompose_layer_norm = false;
  /// Gelu by its definition with Erf, not by the approximation with Tanh.
  bool erf_gelu = false;
};

/// Over the last axis.
Value layer_norm(GraphBuilder& graph, std::string_view name, const Value& x, const Dialect& dialect);

/// Elementary ops, as exporters of opset 17 write it.
Value gelu(GraphBuilder& graph, std::string_view name, const Value& x, const Dialect& dialect);

/// What attention adds to its scores so that no position sees a later one: [length, length], 0 and -10⁹. Computed from
/// integers, so that no reader takes it for a parameter.
Value causal_mask(GraphBuilder& graph, std::string_view name, std::int64_t length);

/// The embeddings of positions 0 to length - 1, from a table for all positions.
Value position_embedding(GraphBuilder& graph, std::string_view name, std::int64_t positions, std::int64_t length,
                         std::int64_t width);

/// The last axis in equal parts: [batch, length, heads, width / heads], heads before length.
Value split_heads(GraphBuilder& graph, std::string_view name, const Value& x, std::int64_t heads);

/// softmax(Q·Kᵀ / √d + mask)·V for each head, heads joined again. All three are [batch, length, width], key and value
/// of one length; `mask` is [query length, key length].
Value attention(GraphBuilder& graph, std::string_view name, const Value& query, const Value& key, const Value& value,
                std::int64_t heads, const std::optional<Value>& mask);

/// The parameter "layer-norm" of an architecture that normalizes layers.
Parameter layer_norm_parameter();

/// Throws UsageError unless `heads` divides `width`.
void require_heads(std::int64_t width, std::int64_t heads);

}  // namespace remora::zoo
