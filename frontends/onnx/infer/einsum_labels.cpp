// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/infer/einsum_labels.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include "model/error.hpp"

namespace remora::onnx_frontend {
namespace {

constexpr std::string_view kEllipsis = "...";

/// A label's extent, and in how many places of the operands it stands. An axis under an ellipsis has its distance from
/// the ellipsis' end as label, because those axes broadcast: "...2", "...1".
struct Label {
  std::int64_t extent = 1;
  int places = 0;
};

using Labels = std::map<std::string, Label>;

std::string hidden_label(std::size_t distance) {
  return std::string(kEllipsis) + std::to_string(distance);
}

/// The labels of a term one by one, an ellipsis standing for `hidden` axes.
std::vector<std::string> labels_of(const std::string& term, std::size_t hidden) {
  const std::size_t dots = term.find(kEllipsis);
  std::vector<std::string> labels;
  for (std::size_t k = 0; k < term.size(); ++k) {
    if (k != dots) {
      labels.emplace_back(1, term[k]);
      continue;
    }
    for (std::size_t distance = hidden; distance > 0; --distance) labels.push_back(hidden_label(distance));
    k += kEllipsis.size() - 1;
  }
  return labels;
}

struct Equation {
  std::vector<std::string> terms{};
  std::string result{};
  bool has_result = false;
};

Equation parse(std::string_view text) {
  Equation equation;
  const std::size_t arrow = text.find("->");
  equation.has_result = arrow != std::string_view::npos;
  equation.terms.emplace_back();
  for (const char character : text.substr(0, arrow)) {
    if (character == ',') {
      equation.terms.emplace_back();
    } else if (std::isspace(static_cast<unsigned char>(character)) == 0) {
      equation.terms.back() += character;
    }
  }
  if (!equation.has_result) return equation;
  for (const char character : text.substr(arrow + 2)) {
    if (std::isspace(static_cast<unsigned char>(character)) == 0) equation.result += character;
  }
  return equation;
}

/// The axes that an ellipsis in `term` stands for.
std::size_t hidden_axes(const std::string& term, const Shape& shape) {
  const bool dots = term.find(kEllipsis) != std::string::npos;
  const std::size_t letters = term.size() - (dots ? kEllipsis.size() : 0);
  if (letters > shape.size() || (!dots && letters != shape.size())) {
    throw InputError(
        "", "the equation's term " + term + " does not fit an operand of rank " + std::to_string(shape.size()));
  }
  return shape.size() - letters;
}

Labels read_labels(const Equation& equation, const std::vector<const Shape*>& operands) {
  if (equation.terms.size() != operands.size()) throw InputError("", "the equation does not fit the operands");
  Labels labels;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const Shape& shape = *operands[k];
    const auto names = labels_of(equation.terms[k], hidden_axes(equation.terms[k], shape));
    for (std::size_t axis = 0; axis < names.size(); ++axis) {
      Label& label = labels[names[axis]];
      ++label.places;
      if (shape[axis] != 1 && label.extent != 1 && shape[axis] != label.extent) {
        throw InputError("", "label " + names[axis] + " stands for axes of different extents");
      }
      if (label.extent == 1) label.extent = shape[axis];
    }
  }
  return labels;
}

}  // namespace

Shape einsum_shape(std::string_view text, const std::vector<const Shape*>& operands) {
  const Equation equation = parse(text);
  const Labels labels = read_labels(equation, operands);
  std::size_t hidden = 0;
  while (labels.contains(hidden_label(hidden + 1))) ++hidden;
  std::vector<std::string> result = labels_of(equation.has_result ? equation.result : std::string(kEllipsis), hidden);
  if (!equation.has_result) {
    for (const auto& [name, label] : labels) {
      if (name.size() == 1 && label.places == 1) result.push_back(name);
    }
  }
  Shape shape;
  for (const std::string& name : result) {
    const auto found = labels.find(name);
    if (found == labels.end()) throw InputError("", "label " + name + " of the result is in no operand");
    shape.push_back(found->second.extent);
  }
  return shape;
}

std::int64_t einsum_combinations(std::string_view text, const std::vector<const Shape*>& operands) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  std::int64_t combinations = 1;
  for (const auto& [name, label] : read_labels(parse(text), operands)) {
    if (label.extent == 0) return 0;
    combinations = combinations > kMost / label.extent ? kMost : combinations * label.extent;
  }
  return combinations;
}

}  // namespace remora::onnx_frontend
