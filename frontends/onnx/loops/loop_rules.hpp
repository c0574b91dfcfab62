// SPDX-License-Identifier: Apache-2.0
//
// The loops of each op type, one rule each. An op without a rule has none: it is not cut.
//
// A rule says what is independent, whatever the values are: a row of the result reads the stated rows of the inputs,
// and a sum adds up terms. tests/onnxruntime/axes_test.py runs every row of the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "frontends/onnx/loops/loop_nest.hpp"
#include "frontends/onnx/model/network.hpp"

namespace remora::onnx_frontend {

/// A forward node whose loops are wanted: its own, or those of its backward node.
struct LoopContext {
  const Network& network;
  const Node& node;
  /// The network is a training step: normalizations use the statistics of the batch.
  bool training = false;
  /// Positions of the inputs whose gradients the backward node computes; empty of the forward node.
  std::vector<std::int64_t> gradients_of{};
  bool backward = false;

  [[nodiscard]] bool has_input(std::size_t k) const { return k < node.inputs.size() && node.inputs[k].valid(); }
  [[nodiscard]] bool has_output(std::size_t k) const { return k < node.outputs.size() && node.outputs[k].valid(); }
  /// Empty of what is left out.
  [[nodiscard]] const Shape& input(std::size_t k) const { return has_input(k) ? shape(node.inputs[k]) : kNoShape; }
  [[nodiscard]] const Shape& output(std::size_t k) const { return has_output(k) ? shape(node.outputs[k]) : kNoShape; }
  [[nodiscard]] std::int64_t attribute(std::string_view name, std::int64_t otherwise) const {
    return node.attributes.get(name, otherwise);
  }
  [[nodiscard]] std::vector<std::int64_t> list(std::string_view name) const {
    return node.attributes.get(name, std::vector<std::int64_t>{});
  }
  /// So many of `otherwise` where the attribute is left out.
  [[nodiscard]] std::vector<std::int64_t> list_or(std::string_view name, std::size_t count,
                                                  std::int64_t otherwise) const {
    std::vector<std::int64_t> found = list(name);
    if (found.empty()) found.assign(count, otherwise);
    return found;
  }
  /// The elements of a small constant input; none where they are not known.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> constant(std::size_t k) const;
  /// An attribute in old opsets, an input in new ones; none where it is not known. Empty where it is left out.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> setting(std::string_view name, std::size_t k) const;
  [[nodiscard]] bool wants_gradient_of(std::int64_t k) const;

 private:
  static inline const Shape kNoShape{};
  [[nodiscard]] const Shape& shape(ValueId value) const { return network.values[value].shape; }
};

/// The loops of the context's node; none where no rule says it.
std::optional<LoopNest> find_loops(const LoopContext& context);

// For the rules.

/// A nest without loops, with a place for every input and output.
LoopNest empty_nest(const LoopContext& context);

/// A loop for each dimension but those of `uncut`.
LoopDims loop_over(LoopNest& nest, const Shape& shape, const std::vector<std::size_t>& uncut = {});

/// Dimensions without loops.
LoopDims uncut_dims(const Shape& shape);

/// A tensor that broadcasts to one with these dimensions; none where it does not.
std::optional<LoopDims> broadcast_dims(const Shape& shape, const LoopDims& to);

/// How rows of an output read those of an input: row o the `length` rows from o * stride - before on.
struct RowWindow {
  std::int64_t input = 1;
  std::int64_t output = 1;
  std::int64_t stride = 1;
  std::int64_t before = 0;
  std::int64_t length = 1;
};

/// True if its numbers are so small that sums and products of them stay within 64 bits.
bool is_moderate(const RowWindow& window);

struct WindowDims {
  LoopDim input{};
  LoopDim output{};
  /// The input's gradient.
  LoopDim gradient{};
};

/// A loop over the output's rows or, where `to_input`, over the rows of the input's gradient. `reads_windows`: such an
/// iteration reads the windows of all rows of the output that it reads, as a maximum's does, and not only the rows of
/// the input that are its own.
WindowDims window_loop(LoopNest& nest, const RowWindow& window, bool to_input, bool reads_windows);

/// For iterations over `input` rows of an input, `output` of an output each, of which one reads the rows from `offset`
/// on: the same from the input's side.
LoopDim seen_from_input(std::int64_t rows, std::int64_t input, std::int64_t output, std::int64_t offset,
                        std::int64_t length);

// loop_rules_layers.cpp: products, windows, attention, losses.
std::optional<LoopNest> loops_of_product(const LoopContext& context);
std::optional<LoopNest> loops_of_gemm(const LoopContext& context);
std::optional<LoopNest> loops_of_einsum(const LoopContext& context);
std::optional<LoopNest> loops_of_convolution(const LoopContext& context);
std::optional<LoopNest> loops_of_transposed_convolution(const LoopContext& context);
std::optional<LoopNest> loops_of_pool(const LoopContext& context);
std::optional<LoopNest> loops_of_global_average(const LoopContext& context);
std::optional<LoopNest> loops_of_global_pool(const LoopContext& context);
std::optional<LoopNest> loops_of_resize(const LoopContext& context);
std::optional<LoopNest> loops_of_attention(const LoopContext& context);
std::optional<LoopNest> loops_of_multi_head_attention(const LoopContext& context);
std::optional<LoopNest> loops_of_recurrence(const LoopContext& context);
std::optional<LoopNest> loops_of_cross_entropy(const LoopContext& context);
std::optional<LoopNest> loops_of_likelihood(const LoopContext& context);
std::optional<LoopNest> loops_of_loss(const LoopContext& context);

}  // namespace remora::onnx_frontend
