// SPDX-License-Identifier: Apache-2.0
//
// A model with other operators, before it is written: old tensors and operators by their numbers, new ones behind them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frontends/tflite/model.hpp"

namespace remora::tflite {

/// A tensor that the file does not have.
struct NewTensor {
  std::string name{};
  Shape shape{};
  /// An old one of the same type and quantization; -1 of a constant.
  std::int32_t like = -1;
  /// Elements of a constant.
  std::vector<std::int32_t> elements{};
};

/// An operator of the new model.
struct DraftOperator {
  /// The old one that gives it everything but its tensors; -1 of one that is not in the file.
  std::int32_t like = -1;
  Code code{};
  std::vector<std::int32_t> inputs{};
  std::vector<std::int32_t> outputs{};
  /// Windows have no padding, whatever the options of the old one say.
  bool is_valid = false;
  /// The axis of a new CONCATENATION.
  std::int32_t axis = 0;
};

class Draft {
 public:
  explicit Draft(const Model& model) : model_(model) {}

  /// The number of the tensor.
  std::int32_t add_tensor(NewTensor tensor);
  /// A constant of 32-bit integers; the same one for the same elements.
  std::int32_t constant(const std::vector<std::int64_t>& elements, const Shape& shape);
  void add_operator(DraftOperator op) { operators_.push_back(std::move(op)); }

  [[nodiscard]] const Shape& shape(std::int32_t tensor) const;
  /// An old tensor of the same type and quantization.
  [[nodiscard]] std::int32_t like(std::int32_t tensor) const;

  /// The file of the model.
  [[nodiscard]] std::string write(std::string_view bytes) const;

 private:
  const Model& model_;
  std::vector<NewTensor> tensors_;
  std::vector<DraftOperator> operators_;
  std::map<std::pair<Shape, std::vector<std::int64_t>>, std::int32_t> constants_;
};

}  // namespace remora::tflite
