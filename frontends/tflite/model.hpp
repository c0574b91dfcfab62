// SPDX-License-Identifier: Apache-2.0
//
// The one subgraph of a TFLite model as plain data, and where its parts stand in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/tflite/flatbuffer.hpp"

namespace remora::tflite {

/// Operators by their numbers in the schema, as far as they are named here.
enum class Code : std::int32_t {
  add = 0,
  average_pool = 1,
  concatenation = 2,
  conv = 3,
  depthwise_conv = 4,
  fully_connected = 9,
  max_pool = 17,
  softmax = 25,
  custom = 32,
  pad = 34,
  transpose = 39,
  log_softmax = 50,
  pad_v2 = 60,
  slice = 65,
  resize_nearest = 97,
};

/// How a convolution or a pool pads its input.
inline constexpr std::uint8_t kSame = 0;
inline constexpr std::uint8_t kValid = 1;

/// No model, tensor or arena has more bytes.
inline constexpr std::int64_t kMaximum = std::numeric_limits<std::int32_t>::max();

using Shape = std::vector<std::int64_t>;

struct TensorInfo {
  /// As in the file; may be empty, and that of another.
  std::string name{};
  Shape shape{};
  std::uint8_t type = 0;
  /// Its elements are in the file.
  bool is_constant = false;
  bool is_variable = false;
  flatbuffer::Position table = 0;

  [[nodiscard]] bool is_floating() const;
  /// True for a tensor that is neither a constant nor a variable.
  [[nodiscard]] bool is_activation() const { return !is_constant && !is_variable; }
};

struct Operator {
  Code code{};
  /// Numbers of tensors; -1 for an input that is left out.
  std::vector<std::int32_t> inputs{};
  std::vector<std::int32_t> outputs{};
  flatbuffer::Position table = 0;
  /// The options' table, or 0.
  flatbuffer::Position options = 0;
};

struct Model {
  /// Reads the file's bytes, which outlive it.
  flatbuffer::Reader reader;
  flatbuffer::Position table = 0;
  flatbuffer::Position subgraph = 0;
  std::vector<TensorInfo> tensors{};
  std::vector<Operator> operators{};
  std::vector<std::int32_t> inputs{};
  std::vector<std::int32_t> outputs{};

  [[nodiscard]] const TensorInfo& tensor(std::int32_t number) const {
    return tensors[static_cast<std::size_t>(number)];
  }
  /// A number among an operator's options; `usual` where it has none.
  template <class Number>
  [[nodiscard]] Number option(const Operator& op, std::size_t field, Number usual = 0) const {
    return op.options == 0 ? usual : reader.number_in<Number>(op.options, field, usual);
  }
  /// Bytes of all elements; none for types whose elements have no size of their own, or no known one. Throws InputError
  /// for extents that are not known, and for 2 GiB and more.
  [[nodiscard]] std::optional<std::int64_t> bytes(std::int32_t tensor) const;
  /// The same of one element.
  [[nodiscard]] std::int64_t element_bytes(std::int32_t tensor) const;
  /// "relu#3".
  [[nodiscard]] std::string name(std::int32_t tensor) const;
  /// The elements of a constant of integers of 4 or 8 bytes; none for another tensor.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::int32_t tensor) const;
};

/// Alias of an index that is checked.
inline std::size_t at(std::int32_t number) {
  return static_cast<std::size_t>(number);
}

/// True if the bytes begin as a TFLite model does.
bool looks_like_model(std::string_view bytes);

/// Reads a model of one subgraph; `bytes` outlive it. Throws InputError that names `source` for what is damaged, for
/// another number of subgraphs, a constant without all its elements, and fields that are not known here, such as data
/// in other files. Time: linear in the file.
Model read_model(std::string_view bytes, const std::string& source);

/// "CONV_2D", or "operator 163" for one that has no name here.
std::string name_of(Code code);

// The numbers of the fields of the schema's tables that are read or written.
namespace field {
namespace model {
enum : std::size_t { version = 0, operator_codes = 1, subgraphs = 2, buffers = 4, metadata = 6, count = 8 };
}
namespace code {
enum : std::size_t { deprecated, custom, version, builtin };
}
namespace subgraph {
enum : std::size_t { tensors, inputs, outputs, operators, name, debug, count };
}
namespace tensor {
enum : std::size_t { shape, type, buffer, name, quantization, is_variable, sparsity, signature, has_rank, count };
}
namespace operation {
enum : std::size_t {
  code = 0,
  inputs = 1,
  outputs = 2,
  options_type = 3,
  options = 4,
  outside = 9,
  outside_size = 10,
  count = 13
};
}
namespace buffer {
enum : std::size_t { data, outside };
}
namespace metadata {
enum : std::size_t { name, buffer };
}
}  // namespace field

/// The elements of a vector of references to tables.
class Tables {
 public:
  Tables(const flatbuffer::Reader& reader, flatbuffer::Position table, std::size_t field)
      : reader_(reader), all_(reader.vector_in(table, field)) {}
  [[nodiscard]] std::size_t size() const { return all_.length; }
  [[nodiscard]] flatbuffer::Position at(std::size_t i) const {
    if (i >= all_.length) reader_.fail("refers to element " + std::to_string(i) + " of " + std::to_string(all_.length));
    return reader_.target(all_.first + i * sizeof(std::uint32_t));
  }

 private:
  const flatbuffer::Reader& reader_;
  flatbuffer::Vector all_;
};

}  // namespace remora::tflite
