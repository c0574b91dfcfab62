// SPDX-License-Identifier: Apache-2.0
#include "frontends/tflite/axes.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "model/slice_more.hpp"

namespace remora::tflite {
namespace {

constexpr std::size_t kImageRank = 4;

/// An operator with its shapes.
class View {
 public:
  View(const Model& model, const Operator& op) : model_(model), op_(op) {}

  [[nodiscard]] const Model& model() const { return model_; }
  [[nodiscard]] const Operator& op() const { return op_; }
  [[nodiscard]] std::size_t input_count() const { return op_.inputs.size(); }
  [[nodiscard]] bool has_input(std::size_t k) const { return k < op_.inputs.size() && op_.inputs[k] >= 0; }
  [[nodiscard]] const TensorInfo& input(std::size_t k) const { return model_.tensor(op_.inputs[k]); }
  [[nodiscard]] const Shape& shape(std::size_t k) const { return input(k).shape; }
  [[nodiscard]] const Shape& output() const { return model_.tensor(op_.outputs[0]).shape; }
  /// A constant input of integers.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::size_t k) const {
    return has_input(k) ? model_.integers(op_.inputs[k]) : std::nullopt;
  }

  /// An axis of so many iterations, each a row of the output.
  [[nodiscard]] OpAxis axis(std::size_t dim) const {
    return {.extent = output()[dim],
            .inputs = std::vector<std::optional<DimCut>>(input_count()),
            .output = {.dim = dim, .rows = output()[dim]}};
  }

 private:
  const Model& model_;
  const Operator& op_;
};

using Axes = std::vector<OpAxis>;

/// Rows of the input for as many of the output.
DimCut plain(const Shape& shape, std::size_t dim) {
  return {.dim = dim, .rows = shape[dim]};
}

/// Each window has a row that is no padding: a slice has one, too.
bool has_rows(const OpAxis& axis, const DimCut& cut) {
  return -cut.offset < cut.length && (axis.extent - 1) * cut.step + cut.offset < cut.rows;
}

/// Along each dimension of the output but the last ones: inputs have its rows, or one row for all of them.
Axes over_rows(const View& view, std::size_t kept = 0) {
  Axes axes;
  const Shape& y = view.output();
  for (std::size_t dim = 0; dim + kept < y.size(); ++dim) {
    OpAxis axis = view.axis(dim);
    const auto cut = [&](std::size_t k) {
      if (!view.has_input(k)) return true;
      const Shape& x = view.shape(k);
      const std::size_t missing = y.size() - std::min(y.size(), x.size());
      if (x.size() > y.size() || dim < missing || x[dim - missing] == 1) return x.size() <= y.size();
      axis.inputs[k] = plain(x, dim - missing);
      return x[dim - missing] == y[dim] && view.input(k).is_activation();
    };
    bool fits = true;
    for (std::size_t k = 0; k < view.input_count(); ++k) fits = fits && cut(k);
    if (fits) axes.push_back(std::move(axis));
  }
  return axes;
}

Axes elementwise(const View& view) {
  return over_rows(view);
}

Axes softmax(const View& view) {
  return over_rows(view, 1);
}

/// Numbers that are quantized as they are read, with one scale for all of them, have another in a slice.
bool is_hybrid(const View& view) {
  return view.input(0).is_floating() != view.input(1).is_floating();
}

bool is_moderate(const Window& window) {
  return window.stride >= 1 && window.stride <= kMaxAxisNumber && window.length >= 1 && window.length <= kMaxAxisNumber;
}

/// Images, and rows and columns of windows; the other inputs are read whole.
Axes windows(const View& view) {
  const Shape& x = view.shape(0);
  const Shape& y = view.output();
  Axes axes;
  if (x.size() != kImageRank || y.size() != kImageRank) return axes;
  axes.push_back(view.axis(0));
  axes.back().inputs[0] = plain(x, 0);
  for (const std::size_t dim : {std::size_t{1}, std::size_t{2}}) {
    const Window window = window_of(view.model(), view.op(), dim);
    if (!is_moderate(window)) return {};
    OpAxis axis = view.axis(dim);
    axis.inputs[0] = {
        .dim = dim, .rows = x[dim], .step = window.stride, .offset = -window.before, .length = window.length};
    if (has_rows(axis, *axis.inputs[0])) axes.push_back(std::move(axis));
  }
  return axes;
}

Axes convolution(const View& view) {
  if (!view.has_input(1) || view.shape(1).size() != kImageRank || is_hybrid(view)) return {};
  return windows(view);
}

/// Rows beyond the edge count in no mean and no maximum, and a slice has no such edge.
Axes pool(const View& view) {
  const Shape& x = view.shape(0);
  const Shape& y = view.output();
  if (x.size() != kImageRank || y.size() != kImageRank) return {};
  for (const std::size_t dim : {std::size_t{1}, std::size_t{2}}) {
    const Window window = window_of(view.model(), view.op(), dim);
    if (!is_moderate(window) || window.before > 0 || (y[dim] - 1) * window.stride + window.length > x[dim]) return {};
  }
  return windows(view);
}

Axes fully_connected(const View& view) {
  const bool has_rows = view.has_input(1) && view.shape(0).size() == 2 && view.output().size() == 2 &&
                        view.shape(0)[0] == view.output()[0];
  if (!has_rows || is_hybrid(view)) return {};
  OpAxis axis = view.axis(0);
  axis.inputs[0] = plain(view.shape(0), 0);
  return {axis};
}

/// An iteration has as many rows as leave none without a row of the input.
Axes pad(const View& view) {
  const Shape& x = view.shape(0);
  const Shape& y = view.output();
  const auto paddings = view.integers(1);
  if (!paddings || paddings->size() != 2 * x.size() || x.size() != y.size()) return {};
  Axes axes;
  for (std::size_t dim = 0; dim < y.size(); ++dim) {
    const std::int64_t before = (*paddings)[2 * dim];
    const std::int64_t after = (*paddings)[2 * dim + 1];
    if (before < 0 || after < 0 || before > y[dim] - x[dim] || x[dim] + before + after != y[dim]) return {};
    const auto count = [&](std::int64_t step) { return quotient_up(y[dim], step); };
    constexpr std::int64_t kTries = 64;
    std::int64_t step = before + 1;
    while (step < before + kTries && y[dim] - (count(step) - 1) * step <= after) ++step;
    if (y[dim] - (count(step) - 1) * step <= after) continue;
    OpAxis axis = view.axis(dim);
    axis.extent = count(step);
    axis.output.step = axis.output.length = step;
    axis.inputs[0] = {.dim = dim, .rows = x[dim], .step = step, .offset = -before, .length = step};
    axes.push_back(std::move(axis));
  }
  return axes;
}

/// Along all dimensions but that in which inputs follow each other.
Axes concatenation(const View& view) {
  const auto rank = static_cast<std::int64_t>(view.output().size());
  const std::int64_t given = view.model().option<std::int32_t>(view.op(), 0);
  const std::int64_t along = given < 0 ? given + rank : given;
  Axes axes;
  for (std::size_t dim = 0; dim < view.output().size(); ++dim) {
    if (static_cast<std::int64_t>(dim) == along) continue;
    OpAxis axis = view.axis(dim);
    bool fits = true;
    for (std::size_t k = 0; k < view.input_count(); ++k) {
      fits = fits && view.has_input(k) && view.input(k).is_activation() &&
             view.shape(k).size() == view.output().size() && view.shape(k)[dim] == view.output()[dim];
      if (fits) axis.inputs[k] = plain(view.shape(k), dim);
    }
    if (fits) axes.push_back(std::move(axis));
  }
  return axes;
}

Axes transpose(const View& view) {
  const auto order = view.integers(1);
  const Shape& y = view.output();
  if (!order || order->size() != y.size() || view.shape(0).size() != y.size()) return {};
  Axes axes;
  for (std::size_t dim = 0; dim < y.size(); ++dim) {
    const std::int64_t from = (*order)[dim];
    if (from < 0 || from >= static_cast<std::int64_t>(y.size())) return {};
    OpAxis axis = view.axis(dim);
    axis.inputs[0] = plain(view.shape(0), static_cast<std::size_t>(from));
    axes.push_back(std::move(axis));
  }
  return axes;
}

/// A power of two times as many rows: then places of rows are exact, wherever a slice begins.
Axes resize_nearest(const View& view) {
  const Shape& x = view.shape(0);
  const Shape& y = view.output();
  const bool aligns_corners = view.model().option<std::uint8_t>(view.op(), 0) != 0;
  if (aligns_corners || x.size() != kImageRank || y.size() != kImageRank || !view.integers(1)) return {};
  Axes axes;
  for (const std::size_t dim : {std::size_t{1}, std::size_t{2}}) {
    const std::int64_t factor = x[dim] > 0 ? y[dim] / x[dim] : 0;
    if (factor < 1 || factor * x[dim] != y[dim] || (factor & (factor - 1)) != 0) continue;
    OpAxis axis = view.axis(dim);
    axis.extent = x[dim];
    axis.output.step = axis.output.length = factor;
    axis.inputs[0] = plain(x, dim);
    axes.push_back(std::move(axis));
  }
  return axes;
}

using Rule = Axes (*)(const View&);

constexpr std::string_view kElementwise =
    "ADD SUB MUL DIV MAXIMUM MINIMUM SQUARED_DIFFERENCE RELU RELU_N1_TO_1 RELU6 LEAKY_RELU PRELU ELU HARD_SWISH "
    "LOGISTIC "
    "TANH ABS NEG EXP LOG SQRT RSQRT SQUARE SIN COS FLOOR CEIL ROUND QUANTIZE DEQUANTIZE CAST";

const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> kRules = [] {
    std::map<std::string, Rule> all{{"CONV_2D", convolution},
                                    {"DEPTHWISE_CONV_2D", convolution},
                                    {"AVERAGE_POOL_2D", pool},
                                    {"MAX_POOL_2D", pool},
                                    {"FULLY_CONNECTED", fully_connected},
                                    {"PAD", pad},
                                    {"PADV2", pad},
                                    {"CONCATENATION", concatenation},
                                    {"TRANSPOSE", transpose},
                                    {"RESIZE_NEAREST_NEIGHBOR", resize_nearest},
                                    {"SOFTMAX", softmax},
                                    {"LOG_SOFTMAX", softmax}};
    std::string_view rest = kElementwise;
    while (!rest.empty()) {
      const std::string_view name = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
      all.emplace(name, elementwise);
    }
    return all;
  }();
  return kRules;
}

}  // namespace

Range DimCut::window_of(Range iterations) const {
  return {iterations.begin * step + offset, (iterations.end - 1) * step + offset + length};
}

Range DimCut::rows_of(Range iterations) const {
  const Range window = window_of(iterations);
  return {std::max<std::int64_t>(0, window.begin), std::min(rows, window.end)};
}

std::vector<OpAxis> axes_of(const Model& model, const Operator& op) {
  const auto rule = rules().find(name_of(op.code));
  const bool is_plain = rule != rules().end() && op.outputs.size() == 1 && op.outputs[0] >= 0 && !op.inputs.empty() &&
                        op.inputs[0] >= 0 && model.tensor(op.inputs[0]).is_activation();
  if (!is_plain) return {};
  std::vector<OpAxis> axes = rule->second(View(model, op));
  std::erase_if(axes, [](const OpAxis& axis) { return axis.extent < 2; });
  return axes;
}

Window window_of(const Model& model, const Operator& op, std::size_t dim) {
  const bool is_row = dim == 1;
  Window window{.stride = model.option<std::int32_t>(op, is_row ? 2 : 1)};
  if (op.code == Code::conv || op.code == Code::depthwise_conv) {
    const std::size_t dilations = op.code == Code::conv ? 4 : 5;
    const std::int64_t dilation = model.option<std::int32_t>(op, dilations + (is_row ? 1 : 0), 1);
    window.length = (model.tensor(op.inputs[1]).shape[dim] - 1) * dilation + 1;
  } else {
    window.length = model.option<std::int32_t>(op, is_row ? 4 : 3);
  }
  const std::int64_t rows = model.tensor(op.inputs[0]).shape[dim];
  const std::int64_t made = model.tensor(op.outputs[0]).shape[dim];
  if (model.option<std::uint8_t>(op, 0) == kSame) {
    window.before = std::max<std::int64_t>(0, (made - 1) * window.stride + window.length - rows) / 2;
  }
  return window;
}

}  // namespace remora::tflite
