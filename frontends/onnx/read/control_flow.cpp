// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/read/control_flow.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "model/error.hpp"
#include "model/quote.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {
namespace {

/// Loops whose state grows are read round by round, so many at most.
constexpr std::int64_t kMostRounds = 10'000;

onnx::GraphProto& body_of(onnx::NodeProto& proto, const char* name) {
  for (auto& attribute : *proto.mutable_attribute()) {
    if (attribute.name() == name && attribute.has_g()) return *attribute.mutable_g();
  }
  throw InputError("", std::string("has no body ") + quote(name));
}

Bytes size_of(const BodyValue& value) {
  return byte_size(value.type.shape, *element_type(value.type.data_type));
}

Bytes size_of(const std::vector<BodyValue>& values) {
  Bytes total;
  for (const BodyValue& value : values) total = sum_of(total, size_of(value), "body");
  return total;
}

BodyValue known(const RuleContext& context, std::size_t k) {
  BodyValue value{.type = context.input(k)};
  if (context.constants[k] != nullptr) value.constant = *context.constants[k];
  return value;
}

std::optional<std::int64_t> known_integer(const std::optional<Constant>& constant) {
  if (!constant || constant->real() || constant->size() != 1) return std::nullopt;
  return constant->integers.front();
}

void take_larger(InnerRun& inner, const InnerRun& other) {
  inner.workspace = std::max(inner.workspace, other.workspace);
  inner.flops = std::max(inner.flops, other.flops);
  inner.moved = std::max(inner.moved, other.moved);
}

void expect_outputs(const BodyRun& run, std::size_t count) {
  if (run.outputs.size() == count) return;
  throw InputError("", "its body has " + std::to_string(run.outputs.size()) + " outputs where " +
                           std::to_string(count) + " are expected");
}

/// The workspace of a run beside what counts as the op's outputs.
InnerRun beside(InnerRun inner, Bytes outputs) {
  inner.workspace -= std::min(inner.workspace, outputs);
  return inner;
}

ControlFlow read_if(onnx::NodeProto& proto, const RuleContext& context, const ReadBody& read) {
  ControlFlow flow;
  const auto take = [&](const char* name) {
    BodyRun run = read(body_of(proto, name), {});
    expect_outputs(run, context.output_count);
    run.inner = beside(run.inner, size_of(run.outputs));
    return run;
  };
  const auto condition = known_integer(known(context, 0).constant);
  if (condition) {
    BodyRun run = take(*condition != 0 ? "then_branch" : "else_branch");
    flow.inner = run.inner;
    flow.outputs.assign(run.outputs.begin(), run.outputs.end());
    return flow;
  }
  const BodyRun one = take("then_branch");
  const BodyRun other = take("else_branch");
  flow.inner = one.inner;
  take_larger(flow.inner, other.inner);
  flow.inner.fixed = sum_of(one.inner.fixed, other.inner.fixed, "body");
  for (std::size_t k = 0; k < context.output_count; ++k) {
    const TensorType& type = one.outputs[k].type;
    flow.outputs.emplace_back();
    if (type == other.outputs[k].type) {
      flow.outputs.back() = BodyValue{.type = type};
    } else if (flow.unknown.empty()) {
      flow.unknown = "the condition depends on data, and the branches give " + shape_text(type.shape) + " and " +
                     shape_text(other.outputs[k].type.shape);
    }
  }
  return flow;
}

/// So many rounds of a body, between states of these sizes.
void add_rounds(InnerRun& total, const BodyRun& run, Bytes state_before, Bytes state_behind, std::int64_t rounds) {
  const InnerRun inner = beside(run.inner, state_behind);
  total.workspace = std::max(total.workspace, sum_of(inner.workspace, state_before, "body"));
  total.fixed = inner.fixed;
  total.flops = saturating_sum(total.flops, saturating_product(inner.flops, rounds));
  total.moved = sum_of(total.moved, Bytes(saturating_product(inner.moved.count(), rounds)), "body");
}

std::vector<BodyValue> part(const std::vector<BodyValue>& values, std::size_t first, std::size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

std::vector<BodyValue> without_constants(std::vector<BodyValue> values) {
  for (BodyValue& value : values) value.constant.reset();
  return values;
}

bool same_types(const std::vector<BodyValue>& one, const std::vector<BodyValue>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const BodyValue& a, const BodyValue& b) { return a.type == b.type; });
}

/// What so many rounds write, one behind the other along `axis`.
BodyValue stacked(const BodyValue& slice, std::int64_t rounds, std::size_t axis) {
  BodyValue value{.type = slice.type};
  value.type.shape.insert(value.type.shape.begin() + static_cast<std::ptrdiff_t>(axis), rounds);
  return value;
}

BodyValue scalar(int data_type, std::optional<std::int64_t> value) {
  const TensorType type{.data_type = data_type, .shape = {}};
  if (!value) return {.type = type};
  return {.type = type, .constant = Constant{.type = type, .integers = {*value}}};
}

class Loop {
 public:
  Loop(onnx::NodeProto& proto, const RuleContext& context, const ReadBody& read)
      : body_(body_of(proto, "body")), read_(read), output_count_(context.output_count), bound_(context.bound) {
    if (context.has_input(0)) {
      most_ = known_integer(known(context, 0).constant);
      if (most_) most_ = std::max<std::int64_t>(0, *most_);
    }
    if (!most_) most_ = bound_;
    condition_ = context.has_input(1) ? known_integer(known(context, 1).constant) : 1;
    const auto inputs = static_cast<std::size_t>(proto.input_size());
    for (std::size_t k = 2; k < inputs; ++k) state_.push_back(known(context, k));
    if (context.output_count < state_.size()) throw InputError("", "has fewer outputs than values in its state");
  }

  ControlFlow run() {
    if (!read_as_one()) read_rounds();
    return std::move(flow_);
  }

 private:
  [[nodiscard]] std::size_t scans() const { return output_count_ - state_.size(); }

  BodyRun round(std::optional<std::int64_t> iteration, const std::vector<BodyValue>& state) const {
    std::vector<BodyValue> inputs{scalar(onnx::TensorProto::INT64, iteration),
                                  scalar(onnx::TensorProto::BOOL, condition_)};
    inputs.insert(inputs.end(), state.begin(), state.end());
    BodyRun run = read_(body_, inputs);
    expect_outputs(run, 1 + output_count_);
    return run;
  }

  /// Any round for all, if each finds a state of the same shapes as the one before.
  bool read_as_one() {
    const std::vector<BodyValue> state = without_constants(state_);
    BodyRun run;
    try {
      run = round(std::nullopt, state);
    } catch (const InputError&) {
      // Perhaps it needs to know in which round it is.
      if (!most_ || *most_ > kMostRounds || !condition_) throw;
      return false;
    }
    const std::vector<BodyValue> behind = part(run.outputs, 1, state.size());
    if (!same_types(state, behind)) return false;
    const bool goes_on = condition_ == 1 && known_integer(run.outputs[0].constant) == 1;
    const bool runs_all = most_ && (goes_on || bound_);
    if (!runs_all) flow_.unknown = "how often its body runs depends on data: --bound Loop=N gives an upper bound";
    add_rounds(flow_.inner, run, size_of(state), size_of(behind), most_.value_or(1));
    flow_.outputs.assign(state.begin(), state.end());
    for (std::size_t k = 0; k < scans(); ++k) {
      flow_.outputs.emplace_back();
      if (runs_all) flow_.outputs.back() = stacked(run.outputs[1 + state.size() + k], *most_, 0);
    }
    return true;
  }

  void read_rounds() {
    if (!most_ || *most_ > kMostRounds || !condition_) {
      throw InputError("", "its state changes its shape, and how often its body runs depends on data");
    }
    std::vector<BodyValue> state = state_;
    std::vector<BodyValue> written;
    std::int64_t rounds = 0;
    for (; rounds < *most_ && condition_ != 0; ++rounds) {
      const BodyRun run = round(rounds, state);
      const std::vector<BodyValue> behind = part(run.outputs, 1, state.size());
      add_rounds(flow_.inner, run, size_of(state), size_of(behind), 1);
      const std::vector<BodyValue> slices = part(run.outputs, 1 + state.size(), scans());
      if (rounds > 0 && !same_types(written, slices)) throw InputError("", "its rounds write different shapes");
      written = slices;
      state = behind;
      condition_ = known_integer(run.outputs[0].constant);
      if (!condition_) throw InputError("", "its state changes its shape, and its condition depends on data");
    }
    flow_.outputs.assign(state.begin(), state.end());
    for (std::size_t k = 0; k < scans(); ++k) {
      flow_.outputs.emplace_back();
      if (rounds > 0) flow_.outputs.back() = stacked(written[k], rounds, 0);
    }
  }

  onnx::GraphProto& body_;
  const ReadBody& read_;
  std::size_t output_count_;
  /// The user's, of the rounds.
  std::optional<std::int64_t> bound_;
  /// Rounds at most; none if that depends on data.
  std::optional<std::int64_t> most_{};
  /// Whether another round begins; none if that depends on data.
  std::optional<std::int64_t> condition_{};
  std::vector<BodyValue> state_{};
  ControlFlow flow_{};
};

/// Axes that the body does not see: the scanned one and, of opset 8, the batch before it, which states have, too.
class ScanAxes {
 public:
  explicit ScanAxes(const RuleContext& context) : context_(context), has_batch_(context.opset < kFirstWithoutBatch) {}

  /// The first input that the body has: lengths of the batch's sequences come before it.
  [[nodiscard]] std::size_t first_input() const { return has_batch_ ? 1 : 0; }
  [[nodiscard]] std::int64_t rounds() const { return count_.value_or(0) * batch_.value_or(1); }

  /// Takes the axis of the states off.
  void take_batch(Shape& shape) {
    if (has_batch_) batch_ = taken(shape, 0, batch_);
  }
  void take_scanned(Shape& shape, const char* list, std::size_t k) {
    count_ = taken(shape, axis_of(list, k) + (has_batch_ ? 1 : 0), count_);
    take_batch(shape);
  }
  [[nodiscard]] BodyValue state(const BodyValue& value) const {
    return has_batch_ ? stacked(value, *batch_, 0) : value;
  }
  [[nodiscard]] BodyValue written(const BodyValue& slice, std::size_t k) const {
    const std::size_t axis = normalized_axis(axis_of("scan_output_axes", k), slice.type.shape.size() + 1);
    return state(stacked(slice, *count_, axis));
  }

 private:
  static constexpr std::int64_t kFirstWithoutBatch = 9;

  [[nodiscard]] std::int64_t axis_of(const char* list, std::size_t k) const {
    const std::vector<std::int64_t> axes = context_.attribute_list(list);
    return k < axes.size() ? axes[k] : 0;
  }

  static std::int64_t taken(Shape& shape, std::int64_t axis, std::optional<std::int64_t> before) {
    const auto place = shape.begin() + static_cast<std::ptrdiff_t>(normalized_axis(axis, shape.size()));
    const std::int64_t extent = *place;
    if (before.value_or(extent) != extent) throw InputError("", "the scanned axes or the batches differ in extent");
    shape.erase(place);
    return extent;
  }

  const RuleContext& context_;
  bool has_batch_;
  std::optional<std::int64_t> batch_{};
  std::optional<std::int64_t> count_{};
};

ControlFlow read_scan(onnx::NodeProto& proto, const RuleContext& context, const ReadBody& read) {
  ScanAxes axes(context);
  const auto inputs = static_cast<std::size_t>(proto.input_size());
  const auto scanned = static_cast<std::size_t>(std::max<std::int64_t>(0, context.attribute("num_scan_inputs", 0)));
  if (scanned < 1 || scanned + axes.first_input() > inputs) {
    throw InputError("", "num_scan_inputs does not fit its inputs");
  }
  const std::size_t states = inputs - scanned - axes.first_input();
  if (context.output_count < states) throw InputError("", "has fewer outputs than values in its state");
  std::vector<BodyValue> given;
  for (std::size_t k = 0; k < states + scanned; ++k) {
    given.push_back({.type = context.input(axes.first_input() + k)});
    Shape& shape = given.back().type.shape;
    if (k < states) {
      axes.take_batch(shape);
    } else {
      axes.take_scanned(shape, "scan_input_axes", k - states);
    }
  }
  const BodyRun run = read(body_of(proto, "body"), given);
  expect_outputs(run, context.output_count);
  const std::vector<BodyValue> behind = part(run.outputs, 0, states);
  if (!same_types(part(given, 0, states), behind)) throw InputError("", "its state changes its shape");
  ControlFlow flow;
  add_rounds(flow.inner, run, size_of(given), size_of(behind), axes.rounds());
  for (std::size_t k = 0; k < context.output_count; ++k) {
    const BodyValue value{.type = run.outputs[k].type};
    flow.outputs.emplace_back(k < states ? axes.state(value) : axes.written(value, k - states));
  }
  return flow;
}

}  // namespace

bool is_control_flow(const Node& node) {
  return node.domain.empty() && (node.type == "If" || node.type == "Loop" || node.type == "Scan");
}

ControlFlow read_control_flow(onnx::NodeProto& proto, const RuleContext& context, const ReadBody& read) {
  ControlFlow flow = context.node.type == "If"     ? read_if(proto, context, read)
                     : context.node.type == "Loop" ? Loop(proto, context, read).run()
                                                   : read_scan(proto, context, read);
  flow.outputs.resize(context.output_count);
  return flow;
}

}  // namespace remora::onnx_frontend
