// SPDX-License-Identifier: Apache-2.0
#include "frontends/tflite/model.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "frontends/tflite/schema.hpp"
#include "model/error.hpp"

namespace remora::tflite {
namespace {

using flatbuffer::Position;
using flatbuffer::Reader;
using flatbuffer::Vector;

constexpr std::string_view kIdentifier = "TFL3";
constexpr std::uint32_t kVersion = 3;
/// The reference to the model, and the identifier.
constexpr std::size_t kHeader = 8;

/// Bytes of one element, by type; 0 for those that have no size of their own (texts and variants). Resources are
/// handles of 4 bytes, and 4-bit numbers get a byte each.
constexpr std::array<std::int64_t, 19> kElementBytes{4, 2, 4, 1, 8, 0, 1, 2, 8, 1, 8, 16, 8, 4, 0, 4, 2, 1, 2};
constexpr std::uint8_t kFloat = 0;
constexpr std::uint8_t kHalf = 1;
constexpr std::uint8_t kDouble = 10;
constexpr std::uint8_t kResource = 13;
constexpr std::uint8_t kFourBits = 17;
constexpr std::uint8_t kBfloat = 18;

/// By code.
constexpr std::string_view kNames =
    "ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR "
    "FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION "
    "LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH "
    "CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER "
    "BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE "
    "BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM "
    "ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE "
    "TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK "
    "LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL "
    "FLOOR_MOD "
    "RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N "
    "GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH";

Position model_of(const Reader& reader, std::string_view bytes) {
  if (!looks_like_model(bytes)) reader.fail("is not a TFLite model: it has no TFL3 identifier");
  const Position model = reader.target(0);
  if (model < kHeader) reader.fail("refers to its own header as a model: damaged");
  const auto version = reader.number_in<std::uint32_t>(model, field::model::version);
  if (version != kVersion) reader.fail("has schema version " + std::to_string(version) + "; 3 is what is read");
  expect_valid(bytes, reader.source());
  // Fields 8 and 9 are data in other files, which no microcontroller has.
  for (std::size_t i = field::model::count; i < reader.field_count(model); ++i) {
    if (reader.field(model, i)) reader.fail("has field " + std::to_string(i) + " of a model, which is not known here");
  }
  return model;
}

class ModelReader {
 public:
  ModelReader(std::string_view bytes, const std::string& source) : model_{.reader = Reader(bytes, source)} {
    model_.table = model_of(model_.reader, bytes);
  }

  Model read() {
    const Tables graphs(model_.reader, model_.table, field::model::subgraphs);
    if (graphs.size() != 1) {
      fail("has " + std::to_string(graphs.size()) +
           " subgraphs; versions of TFLite Micro take the first one's offsets for all, so a plan is for models of one");
    }
    model_.subgraph = graphs.at(0);
    read_tensors();
    const Tables ops(model_.reader, model_.subgraph, field::subgraph::operators);
    for (std::size_t i = 0; i < ops.size(); ++i) read_operator(ops.at(i));
    model_.inputs = tensors_in(model_.subgraph, field::subgraph::inputs);
    model_.outputs = tensors_in(model_.subgraph, field::subgraph::outputs);
    return std::move(model_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { model_.reader.fail(what); }

  void read_tensors() {
    const Reader& reader = model_.reader;
    const Tables tensors(reader, model_.subgraph, field::subgraph::tensors);
    const Tables buffers(reader, model_.table, field::model::buffers);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Position table = tensors.at(i);
      TensorInfo info{.name = std::string(reader.text_in(table, field::tensor::name)),
                      .type = reader.number_in<std::uint8_t>(table, field::tensor::type),
                      .table = table};
      const Vector shape = reader.vector_in(table, field::tensor::shape);
      for (std::size_t k = 0; k < shape.length; ++k) {
        info.shape.push_back(reader.number<std::int32_t>(shape.first + k * sizeof(std::int32_t)));
      }
      const auto data = reader.number_in<std::uint32_t>(table, field::tensor::buffer);
      const std::size_t filled = reader.vector_in(buffers.at(data), field::buffer::data, 1).length;
      info.is_constant = filled > 0;
      info.is_variable = reader.number_in<std::uint8_t>(table, field::tensor::is_variable) != 0;
      model_.tensors.push_back(std::move(info));
      if (filled > 0) expect_filled(static_cast<std::int32_t>(i), filled);
    }
  }

  /// A constant has all its elements in its buffer, as the runtime expects; two 4-bit numbers share a byte.
  void expect_filled(std::int32_t number, std::size_t bytes) const {
    const TensorInfo& info = model_.tensor(number);
    if (info.type == kResource || model_.reader.field(info.table, field::tensor::sparsity)) return;
    const std::int64_t size = model_.bytes(number).value_or(0);
    const std::int64_t needed = info.type == kFourBits ? (size + 1) / 2 : size;
    if (std::cmp_greater_equal(bytes, needed)) return;
    fail("tensor " + model_.name(number) + " is a constant of " + std::to_string(needed) +
         " bytes, and its buffer has " + std::to_string(bytes));
  }

  void read_operator(Position table) {
    const Reader& reader = model_.reader;
    const Tables codes(reader, model_.table, field::model::operator_codes);
    const Position code = codes.at(reader.number_in<std::uint32_t>(table, field::operation::code));
    // Old files have the first, which has one byte.
    const auto deprecated = reader.number_in<std::int8_t>(code, field::code::deprecated);
    const auto builtin = reader.number_in<std::int32_t>(code, field::code::builtin);
    const auto options = reader.field(table, field::operation::options);
    model_.operators.push_back({.code = static_cast<Code>(std::max<std::int32_t>(deprecated, builtin)),
                                .inputs = tensors_in(table, field::operation::inputs),
                                .outputs = tensors_in(table, field::operation::outputs),
                                .table = table,
                                .options = options ? reader.target(*options) : 0});
  }

  std::vector<std::int32_t> tensors_in(Position table, std::size_t field) {
    const Vector indices = model_.reader.vector_in(table, field);
    // Vectors are not shared, so a file has no more of these than its bytes hold; a damaged one may say so.
    visited_ += indices.length;
    if (visited_ > model_.reader.size()) fail("refers to more tensors than it has bytes: damaged");
    std::vector<std::int32_t> numbers;
    for (std::size_t k = 0; k < indices.length; ++k) {
      const auto number = model_.reader.number<std::int32_t>(indices.first + k * sizeof(std::int32_t));
      if (number < -1 || std::cmp_greater_equal(number, model_.tensors.size())) {
        fail("refers to tensor " + std::to_string(number) + " of " + std::to_string(model_.tensors.size()));
      }
      numbers.push_back(number);
    }
    return numbers;
  }

  Model model_;
  std::size_t visited_ = 0;
};

}  // namespace

bool TensorInfo::is_floating() const {
  return type == kFloat || type == kHalf || type == kDouble || type == kBfloat;
}

std::int64_t Model::element_bytes(std::int32_t number) const {
  const std::size_t type = tensor(number).type;
  return type < kElementBytes.size() ? kElementBytes[type] : 0;
}

std::string Model::name(std::int32_t number) const {
  return tensor(number).name + "#" + std::to_string(number);
}

std::optional<std::int64_t> Model::bytes(std::int32_t number) const {
  std::int64_t size = element_bytes(number);
  if (size == 0) return std::nullopt;
  for (const std::int64_t dimension : tensor(number).shape) {
    if (dimension < 0) reader.fail("tensor " + name(number) + " has a dimension of " + std::to_string(dimension));
    if (dimension > 0 && size > kMaximum / dimension) reader.fail("tensor " + name(number) + " has 2 GiB or more");
    size *= dimension;
  }
  return size;
}

std::optional<std::vector<std::int64_t>> Model::integers(std::int32_t number) const {
  constexpr std::uint8_t kInt32 = 2;
  constexpr std::uint8_t kInt64 = 4;
  const TensorInfo& info = tensor(number);
  if (!info.is_constant || (info.type != kInt32 && info.type != kInt64)) return std::nullopt;
  const std::size_t size = info.type == kInt64 ? sizeof(std::int64_t) : sizeof(std::int32_t);
  const auto data = reader.number_in<std::uint32_t>(info.table, field::tensor::buffer);
  const Vector data_bytes =
      reader.vector_in(Tables(reader, table, field::model::buffers).at(data), field::buffer::data, 1);
  std::vector<std::int64_t> elements(static_cast<std::size_t>(*bytes(number)) / size);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const Position place = data_bytes.first + i * size;
    elements[i] = info.type == kInt64 ? reader.number<std::int64_t>(place) : reader.number<std::int32_t>(place);
  }
  return elements;
}

bool looks_like_model(std::string_view bytes) {
  return bytes.substr(std::min<std::size_t>(4, bytes.size()), 4) == kIdentifier;
}

Model read_model(std::string_view bytes, const std::string& source) {
  return ModelReader(bytes, source).read();
}

std::string name_of(Code code) {
  std::string_view rest = kNames;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(code) && !rest.empty(); ++i) {
    rest.remove_prefix(std::min(rest.size(), rest.find(' ')));
    rest.remove_prefix(std::min<std::size_t>(rest.size(), 1));
  }
  if (rest.empty()) return "operator " + std::to_string(static_cast<std::int32_t>(code));
  return std::string(rest.substr(0, rest.find(' ')));
}

}  // namespace remora::tflite
