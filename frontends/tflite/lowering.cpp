// SPDX-License-Identifier: Apache-2.0
#include "frontends/tflite/lowering.hpp"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "model/error.hpp"

namespace remora::tflite {
namespace {

/// Names that are not taken.
class Names {
 public:
  std::string take(const std::string& wanted, std::size_t number) {
    std::string name = wanted.empty() ? "#" + std::to_string(number) : wanted;
    while (!taken_.insert(name).second) name += "#" + std::to_string(number);
    return name;
  }

 private:
  std::unordered_set<std::string> taken_;
};

std::int64_t elements(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count = saturating_product(count, extent);
  return count;
}

class Lowering {
 public:
  explicit Lowering(Model model) : lowered_{.model = std::move(model)}, numbers_(lowered_.model.tensors.size()) {}

  LoweredModel run() {
    Graph& graph = lowered_.graph;
    add_inputs();
    const std::vector<Operator>& operators = lowered_.model.operators;
    for (std::size_t i = 0; i < operators.size(); ++i) add_operator(i);
    for (const std::int32_t t : lowered_.model.outputs) {
      if (t >= 0 && numbers_[at(t)].valid()) graph[numbers_[at(t)]].keep = true;
    }
    validate(graph);
    return std::move(lowered_);
  }

 private:
  [[nodiscard]] const Model& model() const { return lowered_.model; }

  TensorId add_tensor(std::int32_t number) {
    const auto size = model().bytes(number);
    if (!size) {
      model().reader.fail("tensor " + model().name(number) + " is of type " +
                          std::to_string(model().tensor(number).type) + ", whose elements have no known size");
    }
    numbers_[at(number)] =
        lowered_.graph.add_tensor(tensor_names_.take(model().tensor(number).name, at(number)), Bytes(*size));
    lowered_.tensors.push_back(number);
    return numbers_[at(number)];
  }

  /// Tensors that no operator writes are there from the beginning.
  void add_inputs() {
    std::vector<bool> written(numbers_.size(), false);
    for (const Operator& op : model().operators) {
      for (const std::int32_t t : op.outputs) {
        if (t >= 0) written[at(t)] = true;
      }
    }
    Op op{.name = op_names_.take("inputs", 0), .type = "inputs", .recompute = false};
    const auto add = [&](std::int32_t t) {
      const bool is_input = t >= 0 && model().tensor(t).is_activation() && !written[at(t)] && !numbers_[at(t)].valid();
      if (is_input) op.outputs.push_back(add_tensor(t));
    };
    for (const std::int32_t t : model().inputs) add(t);
    for (const Operator& each : model().operators) std::ranges::for_each(each.inputs, add);
    if (!op.outputs.empty()) append(std::move(op), -1, {});
  }

  void append(Op op, std::int32_t number, std::vector<OpAxis> axes) {
    lowered_.graph.add_op(std::move(op));
    lowered_.operators.push_back(number);
    lowered_.axes.push_back(std::move(axes));
  }

  void add_operator(std::size_t i) {
    const Operator& source = model().operators[i];
    Op op{.type = name_of(source.code)};
    for (const std::int32_t t : source.inputs) {
      if (t < 0 || !model().tensor(t).is_activation()) continue;
      if (!numbers_[at(t)].valid())
        model().reader.fail("operator " + std::to_string(i) + " reads what a later one writes");
      const TensorId tensor = numbers_[at(t)];
      if (std::ranges::find(op.inputs, tensor) == op.inputs.end()) op.inputs.push_back(tensor);
    }
    for (const std::int32_t t : source.outputs) {
      if (t < 0) continue;
      if (numbers_[at(t)].valid()) model().reader.fail("tensor " + model().name(t) + " is written twice");
      if (model().tensor(t).is_activation()) op.outputs.push_back(add_tensor(t));
    }
    if (op.outputs.empty()) {
      model().reader.fail("operator " + std::to_string(i) + " (" + op.type + ") has no output but variables");
    }
    op.name = op_names_.take(model().tensor(lowered_.tensors[op.outputs.front().index()]).name, i);
    op.duration = duration_of(source);
    // Inputs are there from the beginning.
    if (op.inputs.empty() && !lowered_.operators.empty() && lowered_.operators.front() < 0) op.after.emplace_back(0);
    if (has_effects(source)) {
      op.recompute = false;
      if (last_effect_.valid()) op.after.push_back(last_effect_);
      last_effect_ = OpId(lowered_.graph.ops.size());
    }
    std::vector<OpAxis> axes = op.recompute ? axes_of(model(), source) : std::vector<OpAxis>{};
    std::erase_if(axes, [&](const OpAxis& axis) { return !add_axis(source, axis, op); });
    append(std::move(op), static_cast<std::int32_t>(i), std::move(axes));
  }

  /// True for operators with state, with random numbers, and for those that are not known.
  [[nodiscard]] bool has_effects(const Operator& op) const {
    constexpr std::int32_t kFirstOfResources = 129;
    const bool is_known = op.code != Code::custom && static_cast<std::int32_t>(op.code) < kFirstOfResources;
    return !is_known ||
           std::ranges::any_of(op.inputs, [&](std::int32_t t) { return t >= 0 && model().tensor(t).is_variable; });
  }

  /// False where an activation is read in two ways.
  bool add_axis(const Operator& source, const OpAxis& axis, Op& op) const {
    Axis result{.extent = axis.extent};
    const auto add = [&](std::int32_t t, const std::optional<DimCut>& cut) {
      if (t < 0 || !model().tensor(t).is_activation()) return true;
      const Cut* const known = cut_of(result, numbers_[at(t)]);
      if (!cut) return known == nullptr;
      const Cut found = cut_in(t, *cut);
      if (known == nullptr) result.cuts.push_back(found);
      return known == nullptr || *known == found;
    };
    if (!add(source.outputs[0], axis.output)) return false;
    for (const bool are_whole : {false, true}) {
      for (std::size_t k = 0; k < source.inputs.size(); ++k) {
        if (axis.inputs[k].has_value() != are_whole && !add(source.inputs[k], axis.inputs[k])) return false;
      }
    }
    op.axes.push_back(std::move(result));
    return true;
  }

  [[nodiscard]] Cut cut_in(std::int32_t t, const DimCut& cut) const {
    std::int64_t stride = model().element_bytes(t);
    const Shape& shape = model().tensor(t).shape;
    for (std::size_t dim = cut.dim + 1; dim < shape.size(); ++dim) stride = saturating_product(stride, shape[dim]);
    return {.tensor = numbers_[at(t)],
            .rows = cut.rows,
            .stride = Bytes(stride),
            .step = cut.step,
            .offset = cut.offset,
            .length = cut.length};
  }

  [[nodiscard]] Duration duration_of(const Operator& op) const {
    std::int64_t amount = operations(op);
    const auto add = [&](std::int32_t t) {
      if (t >= 0) amount = saturating_sum(amount, model().bytes(t).value_or(0));
    };
    std::ranges::for_each(op.inputs, add);
    std::ranges::for_each(op.outputs, add);
    // What 64 runs of a million operators add up stays within 64 bits.
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() >> 27;
    return Duration(std::min(amount, kMost));
  }

  /// A product and a sum are two.
  [[nodiscard]] std::int64_t operations(const Operator& op) const {
    if (op.outputs.empty() || op.outputs[0] < 0) return 0;
    const std::int64_t made = elements(model().tensor(op.outputs[0]).shape);
    const auto weights = [&](std::size_t from, std::size_t to) {
      std::int64_t count = 2;
      if (op.inputs.size() < 2 || op.inputs[1] < 0) return count;
      const Shape& shape = model().tensor(op.inputs[1]).shape;
      for (std::size_t k = from; k < std::min(to, shape.size()); ++k) count = saturating_product(count, shape[k]);
      return count;
    };
    constexpr std::size_t kRank = 4;
    switch (op.code) {
      case Code::conv:
      case Code::fully_connected:
        return saturating_product(made, weights(1, kRank));
      case Code::depthwise_conv:
        return saturating_product(made, weights(1, 3));
      case Code::average_pool:
      case Code::max_pool:
        return saturating_product(made, std::max<std::int64_t>(1, model().option<std::int32_t>(op, 3)) *
                                            std::max<std::int64_t>(1, model().option<std::int32_t>(op, 4)));
      default:
        return made;
    }
  }

  LoweredModel lowered_;
  /// By tensor of the model: that of the graph.
  std::vector<TensorId> numbers_;
  Names tensor_names_{};
  Names op_names_{};
  OpId last_effect_{};
};

}  // namespace

LoweredModel lower_model(std::string_view bytes, const std::string& source) {
  try {
    return Lowering(read_model(bytes, source)).run();
  } catch (const InputError& error) {
    if (error.place() == source) throw;
    throw InputError(source, error.what());
  }
}

SliceRun slice_run() {
  // A byte that is copied takes as long as any other.
  return {.temporaries = true, .copies = true, .bandwidth = Bytes(1)};
}

}  // namespace remora::tflite
