// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "frontends/onnx/infer/constant_folding.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {
namespace {

/// One element of either kind; integers are exact.
struct Element {
  std::int64_t integer = 0;
  double real = 0;
};

/// Beyond this, integer arithmetic could overflow; such values (Slice's "to the end") are not folded further.
constexpr std::int64_t kLargestOperand = std::int64_t{1} << 31;

bool is_zero(double value) {
  return std::fpclassify(value) == FP_ZERO;
}

std::int64_t integer_quotient(std::int64_t a, std::int64_t b) {
  return a / b;
}

/// Mod of integers takes the sign of the divisor (fmod = 0).
std::int64_t integer_remainder(std::int64_t a, std::int64_t b) {
  const std::int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

/// The remainder with the sign of the dividend (fmod = 1).
std::int64_t dividends_remainder(std::int64_t a, std::int64_t b) {
  return a % b;
}

struct BinaryRow {
  std::int64_t (*integers)(std::int64_t, std::int64_t);
  double (*reals)(double, double);
  bool divides = false;
};

const std::map<std::string_view, BinaryRow, std::less<>>& arithmetic_table() {
  using I = std::int64_t;
  static const std::map<std::string_view, BinaryRow, std::less<>> kTable{
      {"Add", {[](I a, I b) { return a + b; }, [](double a, double b) { return a + b; }}},
      {"Sub", {[](I a, I b) { return a - b; }, [](double a, double b) { return a - b; }}},
      {"Mul", {[](I a, I b) { return a * b; }, [](double a, double b) { return a * b; }}},
      {"Div", {integer_quotient, [](double a, double b) { return a / b; }, true}},
      {"Mod", {integer_remainder, nullptr, true}},
      {"Min", {[](I a, I b) { return std::min(a, b); }, [](double a, double b) { return std::min(a, b); }}},
      {"Max", {[](I a, I b) { return std::max(a, b); }, [](double a, double b) { return std::max(a, b); }}},
      {"Pow", {nullptr, [](double a, double b) { return std::pow(a, b); }}},
      {"And", {[](I a, I b) { return I{a != 0 && b != 0}; }, nullptr}},
      {"Or", {[](I a, I b) { return I{a != 0 || b != 0}; }, nullptr}},
  };
  return kTable;
}

/// The row of an op, which may depend on its attributes: of real numbers, only Mod with fmod = 1 is defined.
BinaryRow arithmetic_row(const Node& node) {
  constexpr BinaryRow kFmod{dividends_remainder, [](double a, double b) { return std::fmod(a, b); }, true};
  if (node.type == "Mod" && node.attributes.get("fmod", std::int64_t{0}) != 0) return kFmod;
  return arithmetic_table().find(std::string_view(node.type))->second;
}

struct ComparisonRow {
  bool (*integers)(std::int64_t, std::int64_t);
  bool (*reals)(double, double);
};

template <class Compare>
ComparisonRow comparison(Compare) {
  return {[](std::int64_t a, std::int64_t b) { return Compare{}(a, b); },
          [](double a, double b) { return Compare{}(a, b); }};
}

const std::map<std::string_view, ComparisonRow, std::less<>>& comparison_table() {
  static const std::map<std::string_view, ComparisonRow, std::less<>> kTable{
      {"Equal", comparison(std::equal_to<>())},
      {"Less", comparison(std::less<>())},
      {"Greater", comparison(std::greater<>())},
      {"LessOrEqual", comparison(std::less_equal<>())},
      {"GreaterOrEqual", comparison(std::greater_equal<>())},
  };
  return kTable;
}

Element element(const Constant& constant, std::size_t k) {
  if (constant.real()) return {.real = constant.reals[k]};
  return {.integer = constant.integers[k], .real = static_cast<double>(constant.integers[k])};
}

bool usable(std::int64_t operand) {
  return operand <= kLargestOperand && operand >= -kLargestOperand;
}

/// Integers of 64 bits without sign stand as their bits: the upper half of them is not read as what it is.
bool readable(const Constant& constant) {
  return constant.type.data_type != onnx::TensorProto::UINT64 ||
         std::all_of(constant.integers.begin(), constant.integers.end(), [](std::int64_t k) { return k >= 0; });
}

bool inputs_readable(const FoldContext& context) {
  for (std::size_t k = 0; k < context.input_count(); ++k) {
    if (context.has(k) && !readable(context.input(k))) return false;
  }
  return true;
}

/// The integer that `bits` are in a type of this width: what does not fit is cut off, as the op does it.
std::int64_t wrapped(std::int64_t bits, int data_type) {
  switch (data_type) {
    case onnx::TensorProto::INT8:
      return static_cast<std::int8_t>(bits);
    case onnx::TensorProto::UINT8:
      return static_cast<std::uint8_t>(bits);
    case onnx::TensorProto::INT16:
      return static_cast<std::int16_t>(bits);
    case onnx::TensorProto::UINT16:
      return static_cast<std::uint16_t>(bits);
    case onnx::TensorProto::INT32:
      return static_cast<std::int32_t>(bits);
    case onnx::TensorProto::UINT32:
      return static_cast<std::uint32_t>(bits);
    default:
      return bits;
  }
}

bool combine(const BinaryRow& row, bool real, const Element& a, const Element& b, Element& result) {
  if (real) {
    if (row.reals == nullptr) return false;
    result.real = row.reals(a.real, b.real);
    return true;
  }
  if (row.integers == nullptr || !usable(a.integer) || !usable(b.integer)) return false;
  if (row.divides && b.integer == 0) return false;
  result.integer = row.integers(a.integer, b.integer);
  return true;
}

void store(Constant& result, const Element& value) {
  if (result.real()) {
    const bool single = result.type.data_type == onnx::TensorProto::FLOAT;
    result.reals.push_back(single ? static_cast<float>(value.real) : value.real);
  } else {
    result.integers.push_back(wrapped(value.integer, result.type.data_type));
  }
}

bool fold_comparison(const ComparisonRow& row, const FoldContext& context, Constant& result) {
  const Constant& left = context.input(0);
  const Constant& right = context.input(1);
  const auto count = static_cast<std::size_t>(element_count(result.type.shape));
  for (std::size_t k = 0; k < count; ++k) {
    const Element a = element(left, broadcast_index(k, left.type.shape, result.type.shape));
    const Element b = element(right, broadcast_index(k, right.type.shape, result.type.shape));
    const bool real = left.real() || right.real();
    result.integers.push_back((real ? row.reals(a.real, b.real) : row.integers(a.integer, b.integer)) ? 1 : 0);
  }
  return true;
}

bool all_present(const FoldContext& context, std::size_t least) {
  if (context.input_count() < least) return false;
  for (std::size_t k = 0; k < context.input_count(); ++k) {
    if (!context.has(k)) return false;
  }
  return true;
}

}  // namespace

/// Two inputs, or any number for Min and Max.
bool fold_elementwise(const FoldContext& context, Constant& result) {
  const std::string_view type = context.node.node.type;
  const bool variadic = type == "Min" || type == "Max";
  if (!all_present(context, variadic ? 1 : 2) || !inputs_readable(context)) return false;
  const auto comparison = comparison_table().find(type);
  if (comparison != comparison_table().end()) return fold_comparison(comparison->second, context, result);
  const BinaryRow row = arithmetic_row(context.node.node);
  const auto count = static_cast<std::size_t>(element_count(result.type.shape));
  for (std::size_t k = 0; k < count; ++k) {
    Element value;
    for (std::size_t operand = 0; operand < context.input_count(); ++operand) {
      const Constant& input = context.input(operand);
      if (input.real() != result.real()) return false;
      const Element next = element(input, broadcast_index(k, input.type.shape, result.type.shape));
      const Element before = value;
      if (operand == 0) {
        value = next;
      } else if (!combine(row, result.real(), before, next, value)) {
        return false;
      }
    }
    store(result, value);
  }
  return true;
}

bool fold_unary(const FoldContext& context, Constant& result) {
  using Function = double (*)(double);
  static const std::map<std::string_view, Function, std::less<>> kTable{
      {"Neg", [](double a) { return -a; }},
      {"Abs", [](double a) { return std::abs(a); }},
      {"Floor", [](double a) { return std::floor(a); }},
      {"Ceil", [](double a) { return std::ceil(a); }},
      {"Round", [](double a) { return std::nearbyint(a); }},
      {"Sqrt", [](double a) { return std::sqrt(a); }},
      {"Reciprocal", [](double a) { return 1 / a; }},
      {"Not", [](double a) { return is_zero(a) ? 1.0 : 0.0; }},
  };
  const Function function = kTable.find(std::string_view(context.node.node.type))->second;
  const Constant& input = context.input(0);
  if (input.real() != result.real() || !readable(input)) return false;
  for (std::size_t k = 0; k < input.size(); ++k) {
    const Element value = element(input, k);
    if (!input.real() && !usable(value.integer)) return false;
    const double computed = function(value.real);
    store(result, {.integer = input.real() ? 0 : static_cast<std::int64_t>(computed), .real = computed});
  }
  return true;
}

bool fold_cast(const FoldContext& context, Constant& result) {
  const Constant& input = context.input(0);
  const bool to_bool = result.type.data_type == onnx::TensorProto::BOOL;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!inputs_readable(context) && (to_bool || result.real())) return false;
  for (std::size_t k = 0; k < input.size(); ++k) {
    Element value = element(input, k);
    if (to_bool) {
      value.integer = is_zero(value.real) ? 0 : 1;
    } else if (input.real() && !result.real()) {
      if (!(std::abs(value.real) <= kExact)) return false;
      value.integer = static_cast<std::int64_t>(value.real);
      // ONNX does not define the conversion of a real number beyond the type's range.
      const bool unsigned_64 = result.type.data_type == onnx::TensorProto::UINT64;
      if (wrapped(value.integer, result.type.data_type) != value.integer || (unsigned_64 && value.integer < 0)) {
        return false;
      }
    }
    store(result, value);
  }
  return true;
}

bool fold_range(const FoldContext& context, Constant& result) {
  if (context.input(0).size() != 1 || context.input(2).size() != 1) return false;
  const Element start = element(context.input(0), 0);
  const Element step = element(context.input(2), 0);
  if (!usable(start.integer) || !usable(step.integer)) return false;
  for (std::int64_t k = 0; k < element_count(result.type.shape); ++k) {
    store(result,
          {.integer = start.integer + k * step.integer, .real = start.real + static_cast<double>(k) * step.real});
  }
  return true;
}

/// Axis by axis, the coordinates of the elements that are not zero.
bool fold_non_zero(const FoldContext& context, Constant& result) {
  const Constant& input = context.input(0);
  std::size_t stride = input.size();
  for (const std::int64_t extent : input.type.shape) {
    if (extent == 0) return false;
    stride /= static_cast<std::size_t>(extent);
    for (std::size_t k = 0; k < input.size(); ++k) {
      if (is_zero(element(input, k).real)) continue;
      result.integers.push_back(static_cast<std::int64_t>(k / stride % static_cast<std::size_t>(extent)));
    }
  }
  return true;
}

bool fold_where(const FoldContext& context, Constant& result) {
  if (!all_present(context, 3)) return false;
  const auto count = static_cast<std::size_t>(element_count(result.type.shape));
  for (std::size_t k = 0; k < count; ++k) {
    const Constant& condition = context.input(0);
    const std::size_t choice = broadcast_index(k, condition.type.shape, result.type.shape);
    const Constant& chosen = context.input(element(condition, choice).integer != 0 ? 1 : 2);
    if (chosen.real() != result.real()) return false;
    append(result, chosen, broadcast_index(k, chosen.type.shape, result.type.shape));
  }
  return true;
}

namespace {

/// How two elements become one. Sums and products of real numbers depend on the order that a runtime takes them in.
BinaryRow reduction_row(const Node& node) {
  static const std::map<std::string_view, std::string_view, std::less<>> kFunctions{
      {"ReduceProd", "Mul"}, {"ReduceSum", "Add"}, {"ReduceMax", "Max"}, {"ReduceMin", "Min"}};
  const auto function = kFunctions.find(std::string_view(node.type));
  BinaryRow row = arithmetic_table().find(function->second)->second;
  if (node.type == "ReduceProd" || node.type == "ReduceSum") row.reals = nullptr;
  return row;
}

/// The axes that are gone, or 1, in the result. Throws InputError for an axis out of range.
std::vector<bool> reduced_axes(const FoldContext& context) {
  const Node& node = context.node.node;
  const std::size_t rank = context.input(0).type.shape.size();
  const std::vector<std::int64_t> axes =
      context.has(1) ? context.input(1).integers : node.attributes.get("axes", std::vector<std::int64_t>{});
  const bool all = axes.empty() && node.attributes.get("noop_with_empty_axes", std::int64_t{0}) == 0;
  std::vector<bool> reduced(rank, all);
  for (const std::int64_t axis : axes) reduced[normalized_axis(axis, rank)] = true;
  return reduced;
}

/// Element `flat` of `shape` counts towards this one of the result.
std::size_t reduced_index(std::size_t flat, const Shape& shape, const std::vector<bool>& reduced) {
  std::size_t index = 0;
  std::size_t stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    const auto extent = static_cast<std::size_t>(shape[axis]);
    if (!reduced[axis]) {
      index += flat % extent * stride;
      stride *= extent;
    }
    flat /= extent;
  }
  return index;
}

}  // namespace

/// Over any axes.
bool fold_reduce(const FoldContext& context, Constant& result) {
  const Constant& input = context.input(0);
  if (input.size() == 0 || input.real() != result.real() || !readable(input)) return false;
  const BinaryRow row = reduction_row(context.node.node);
  const std::vector<bool> reduced = reduced_axes(context);
  std::vector<std::optional<Element>> values(static_cast<std::size_t>(element_count(result.type.shape)));
  for (std::size_t k = 0; k < input.size(); ++k) {
    const std::size_t place = reduced_index(k, input.type.shape, reduced);
    if (place >= values.size()) return false;
    const Element next = element(input, k);
    if (!values[place]) {
      values[place] = next;
      continue;
    }
    const Element before = *values[place];
    if (!combine(row, input.real(), before, next, *values[place])) return false;
  }
  for (const std::optional<Element>& value : values) {
    if (!value) return false;
    store(result, *value);
  }
  return true;
}

}  // namespace remora::onnx_frontend
