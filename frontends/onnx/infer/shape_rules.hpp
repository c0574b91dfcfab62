// SPDX-License-Identifier: Apache-2.0
//
// Remora's own shape rules, one per op type, for what Debian's libonnx (opset 17) does not know or knows in an older
// form: ops that came later (Gelu, RMSNormalization, Attention), ops whose definition changed since (Split with
// num_outputs, reductions with axes as input), and frequent ops of com.microsoft. Before them: what a rule may know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/onnx/model/network.hpp"
#include "model/error.hpp"

namespace onnx {
class TensorProto;
}  // namespace onnx

namespace remora::onnx_frontend {

// Facts about a tensor while a model is being read: the exact data type, the shape and, of small ones (target
// shapes, slice bounds, scales), the elements.

/// An extent that depends on data, for which the user gave no upper bound.
class ExtentOfData : public InputError {
 public:
  using InputError::InputError;
};

/// The inputs do not fit the op, so that no runtime computes the node, whatever shape the file states for its output.
class Misfit : public InputError {
 public:
  using InputError::InputError;
};

/// A node has results of which nobody can say the size before the model runs: it depends on data, or they are no tensors.
class UnknownSize : public InputError {
 public:
  using InputError::InputError;
};

/// TensorProto.DataType's number (newer numbers than the installed library's included) and a fully known shape.
struct TensorType {
  int data_type = 0;
  Shape shape{};

  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// Width and kind of the elements; none for strings and for numbers that ONNX does not define.
std::optional<ElementType> element_type(int data_type);

/// "float", "int64", ...; "data type 99" for an unknown number.
std::string data_type_name(int data_type);

/// "1x3x224x224"; "scalar" for the empty shape.
std::string shape_text(const Shape& shape);

/// Elements in row-major order. Integers and Booleans stand in `integers`, real numbers in `reals`; the other is empty.
struct Constant {
  TensorType type{};
  std::vector<std::int64_t> integers{};
  std::vector<double> reals{};

  [[nodiscard]] bool real() const;
  [[nodiscard]] std::size_t size() const { return real() ? reals.size() : integers.size(); }
};

/// Constants with more elements are not kept: nothing that decides a shape is that long.
inline constexpr std::int64_t kLargestConstant = 1 << 16;

/// The data type and dims of an initializer. Throws InputError for strings and negative dims.
TensorType type_of(const onnx::TensorProto& tensor);

/// The elements of a small tensor that is stored in the file; none if it is large, stored elsewhere, or of a type with
/// no use in shapes (float16, complex, ...). Throws InputError where data and dims disagree.
std::optional<Constant> read_constant(const onnx::TensorProto& tensor);

/// The same as protobuf message, for the library's shape inference.
onnx::TensorProto to_proto(const Constant& constant);

/// One node whose output types are wanted.
struct RuleContext {
  const Node& node;
  std::int64_t opset = 0;
  /// By position; null where an optional input is left out.
  std::vector<const TensorType*> inputs{};
  /// By position; null where the elements are not known.
  std::vector<const Constant*> constants{};
  std::size_t output_count = 0;
  /// The user's upper bound for an extent that depends on data, to be had from user_bound.
  std::optional<std::int64_t> bound{};
  /// False where shapes may be bounds or guesses, so that two need not fit although the model runs.
  bool is_exact = true;
  /// Set once a rule needs the bound; may be null.
  bool* needs_bound = nullptr;
  /// An input of the model on whose elements a short list of integers among the inputs depends; empty without one.
  std::string list_from{};

  [[nodiscard]] bool has_input(std::size_t k) const { return k < inputs.size() && inputs[k] != nullptr; }
  /// Throws InputError if input k is left out.
  [[nodiscard]] const TensorType& input(std::size_t k) const;
  /// The integers of input k; none if it is left out. Throws InputError if it is there but not known.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::size_t k) const;
  /// The same of an input of one element. Throws InputError if it has more or none.
  [[nodiscard]] std::optional<std::int64_t> integer(std::size_t k) const;
  [[nodiscard]] std::int64_t attribute(std::string_view name, std::int64_t otherwise) const;
  /// Empty if it is left out.
  [[nodiscard]] std::vector<std::int64_t> attribute_list(std::string_view name) const;
  /// The user's bound, for a size that depends on data; none without one.
  [[nodiscard]] std::optional<std::int64_t> user_bound() const;
  /// The bound, or `most` where no data give more. Throws ExtentOfData, which tells how to give a bound, if there is none.
  [[nodiscard]] std::int64_t extent_of_data(std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
};

/// Types of the outputs by position; none for one that the rule does not know.
using OutputTypes = std::vector<std::optional<TensorType>>;

struct ShapeRule {
  /// From this opset on the rule comes before libonnx's, which knows an older definition; below it only if libonnx
  /// gives no shape.
  std::int64_t preferred_from = 0;
  /// Throws InputError where it knows no shape: Misfit if that is since the inputs do not fit the op.
  std::function<OutputTypes(const RuleContext&)> infer{};
  /// It gives no shapes, but compares inputs that libonnx does not compare.
  bool checks_inputs = false;
};

/// The rule of an op type, null if there is none. `domain` is empty for the default one.
const ShapeRule* find_shape_rule(std::string_view domain, std::string_view op_type);

/// As NumPy broadcasts them. Throws Misfit where it does not.
Shape broadcast_shape(const std::vector<const Shape*>& shapes);

/// `axis` counted from the front. Throws InputError outside [-rank, rank).
std::size_t normalized_axis(std::int64_t axis, std::size_t rank);

// The rules that find_shape_rule's table lists, grouped by what they do. Each throws InputError if inputs do not fit.

// shape_rules.cpp: the shape of an input.
OutputTypes same_as_first(const RuleContext& context);
OutputTypes cast(const RuleContext& context);
OutputTypes broadcast(const RuleContext& context);
OutputTypes compare(const RuleContext& context);
OutputTypes quantized_broadcast(const RuleContext& context);
OutputTypes layer_normalization(const RuleContext& context);
OutputTypes quantize(const RuleContext& context);
OutputTypes dequantize(const RuleContext& context);

// shape_rules.cpp: extents cut, joined, grown, counted.
OutputTypes reduce(const RuleContext& context);
OutputTypes split(const RuleContext& context);
OutputTypes slice(const RuleContext& context);
OutputTypes squeeze(const RuleContext& context);
OutputTypes gather_nd(const RuleContext& context);
OutputTypes pad(const RuleContext& context);
OutputTypes non_zero(const RuleContext& context);
OutputTypes non_max_suppression(const RuleContext& context);
OutputTypes compress(const RuleContext& context);
OutputTypes unique(const RuleContext& context);
OutputTypes one_hot(const RuleContext& context);
OutputTypes stft(const RuleContext& context);
OutputTypes concat(const RuleContext& context);
OutputTypes quantized_concat(const RuleContext& context);
OutputTypes center_crop_pad(const RuleContext& context);
OutputTypes range(const RuleContext& context);

// shape_rules_products.cpp: images and volumes, products.
OutputTypes pool(const RuleContext& context);
OutputTypes unpool(const RuleContext& context);
OutputTypes resize(const RuleContext& context);
OutputTypes convolution(const RuleContext& context);
OutputTypes global_pool(const RuleContext& context);
OutputTypes column_to_image(const RuleContext& context);
OutputTypes grid_sample(const RuleContext& context);
OutputTypes affine_grid(const RuleContext& context);
OutputTypes attention(const RuleContext& context);
OutputTypes fused_attention(const RuleContext& context);
OutputTypes multi_head_attention(const RuleContext& context);
OutputTypes group_query_attention(const RuleContext& context);
OutputTypes embedding_normalization(const RuleContext& context);
OutputTypes low_bit_product(const RuleContext& context);
OutputTypes matrix_product(const RuleContext& context);
OutputTypes gemm(const RuleContext& context);
OutputTypes einsum(const RuleContext& context);

// The labels of an Einsum equation with the operands' extents:
//
//     "bij,bjk->bik" of 2x3x4 and 2x4x5:    b = 2, i = 3, j = 4, k = 5;    result 2x3x5, 120 combinations

/// The result's shape. Without an arrow it has the ellipsis and then, in alphabetical order, the labels that occur
/// once. Throws InputError for an equation that does not fit the operands.
Shape einsum_shape(std::string_view equation, const std::vector<const Shape*>& operands);

/// The number of combinations of all labels, the axes of an ellipsis included; stops at 2^62. Throws InputError like
/// einsum_shape.
std::int64_t einsum_combinations(std::string_view equation, const std::vector<const Shape*>& operands);

}  // namespace remora::onnx_frontend
