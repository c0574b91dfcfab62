// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/read/control_flow.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include "model/error.hpp"
#include "model/quote.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {
namespace {

/// Loops whose state grows are read round by round, so many at most.
constexpr std::int64_t kMaxRounds = 10'000;
constexpr const char* kScanVarLen = "ScanVarLen";
/// From this opset on, Scan has no batch of sequences and their lengths.
constexpr std::int64_t kFirstScanWithoutBatch = 9;

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
  inner.made = std::max(inner.made, other.made);
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

/// The last output of an If whose branches give these types, of which `larger` is the larger.
void add_either(ControlFlow& flow, const TensorType& one, const TensorType& other, const TensorType& larger) {
  const std::string branches = "the condition depends on data, and the branches give ";
  if (one.data_type != other.data_type) {
    flow.unknown = branches + data_type_name(one.data_type) + " and " + data_type_name(other.data_type) + " elements";
    return;
  }
  flow.outputs.back() = BodyValue{.type = larger};
  if (one == other || !flow.guess.empty()) return;
  flow.guess = branches + shape_text(one.shape) + " and " + shape_text(other.shape) + "; sizes are upper bounds, for " +
               shape_text(larger.shape);
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
    const char* const branch = *condition != 0 ? "then_branch" : "else_branch";
    BodyRun run = take(branch);
    flow.body = &body_of(proto, branch);
    flow.rounds = 1;
    flow.inner = run.inner;
    flow.outputs.assign(run.outputs.begin(), run.outputs.end());
    return flow;
  }
  const BodyRun one = take("then_branch");
  const BodyRun other = take("else_branch");
  flow.inner = one.inner;
  take_larger(flow.inner, other.inner);
  flow.inner.fixed = sum_of(one.inner.fixed, other.inner.fixed, "body");
  // Outputs of the same size are those of the branch that gives more in all, so that their shapes fit each other.
  const bool prefers_other = size_of(other.outputs) > size_of(one.outputs);
  for (std::size_t k = 0; k < context.output_count; ++k) {
    const Bytes size = size_of(one.outputs[k]);
    const Bytes of_other = size_of(other.outputs[k]);
    const bool takes_other = of_other > size || (of_other == size && prefers_other);
    flow.outputs.emplace_back();
    add_either(flow, one.outputs[k].type, other.outputs[k].type, (takes_other ? other : one).outputs[k].type);
  }
  return flow;
}

/// So many rounds of a body, between states of these sizes.
void add_rounds(InnerRun& total, const BodyRun& run, Bytes state_before, Bytes state_behind, std::int64_t rounds) {
  const InnerRun inner = beside(run.inner, state_behind);
  total.workspace = std::max(total.workspace, sum_of(inner.workspace, state_before, "body"));
  total.fixed = inner.fixed;
  total.made = std::max(total.made, inner.made);
  total.states = sum_of(total.states, Bytes(saturating_product(state_before.count(), rounds)), "body");
  total.flops = saturating_sum(total.flops, saturating_product(inner.flops, rounds));
  total.moved = sum_of(total.moved, Bytes(saturating_product(inner.moved.count(), rounds)), "body");
}

std::vector<BodyValue> part(const std::vector<BodyValue>& values, std::size_t first, std::size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

/// For each output of the body the input that it is, passed on as it is; none for an output that the body computes.
std::vector<std::optional<std::size_t>> passed_on(const onnx::GraphProto& body) {
  std::unordered_map<std::string, std::string> copied;
  for (const auto& node : body.node()) {
    const bool copies = node.op_type() == "Identity" && node.input_size() == 1 && node.output_size() == 1;
    if (copies) copied.emplace(node.output(0), node.input(0));
  }
  std::unordered_map<std::string, std::size_t> inputs;
  for (int k = 0; k < body.input_size(); ++k) inputs.emplace(body.input(k).name(), static_cast<std::size_t>(k));
  std::vector<std::optional<std::size_t>> result;
  for (const auto& output : body.output()) {
    std::string name = output.name();
    // A damaged file may have a cycle.
    for (std::size_t steps = 0; copied.contains(name) && steps <= copied.size(); ++steps) name = copied.at(name);
    const auto found = inputs.find(name);
    result.push_back(found == inputs.end() ? std::nullopt : std::optional(found->second));
  }
  return result;
}

/// Elements that are the same in every round: of the state's values, of which the first is the body's input `input` and
/// output `output`, those that the body passes on.
std::vector<BodyValue> in_every_round(std::vector<BodyValue> state, const onnx::GraphProto& body, std::size_t input,
                                      std::size_t output) {
  const std::vector<std::optional<std::size_t>> passed = passed_on(body);
  for (std::size_t k = 0; k < state.size(); ++k) {
    if (output + k >= passed.size() || passed[output + k] != input + k) state[k].constant.reset();
  }
  return state;
}

bool same_types(const std::vector<BodyValue>& one, const std::vector<BodyValue>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](const BodyValue& a, const BodyValue& b) { return a.type == b.type; });
}

/// The results of so many rounds, one behind the other along `axis`.
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
      : context_(context), body_(body_of(proto, "body")), read_(read), output_count_(context.output_count) {
    if (context.has_input(0)) {
      most_ = known_integer(known(context, 0).constant);
      if (most_) most_ = std::max<std::int64_t>(0, *most_);
    }
    condition_ = context.has_input(1) ? known_integer(known(context, 1).constant) : 1;
    const auto inputs = static_cast<std::size_t>(proto.input_size());
    for (std::size_t k = 2; k < inputs; ++k) state_.push_back(known(context, k));
    if (context.output_count < state_.size()) throw InputError("", "has fewer outputs than values in its state");
  }

  ControlFlow run() {
    if (!read_as_one()) read_rounds();
    if (flow_.rounds > 0) flow_.body = &body_;
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

  /// Rounds at most, by the model or by the user; none if nobody knows.
  [[nodiscard]] std::optional<std::int64_t> most() const { return most_ ? most_ : context_.user_bound(); }
  [[nodiscard]] bool rounds_can_be_read() const { return condition_ && most().value_or(INT64_MAX) <= kMaxRounds; }

  /// Any round for all, if each finds a state of the same shapes as the one before.
  bool read_as_one() {
    const std::vector<BodyValue> state = in_every_round(state_, body_, 2, 1);
    BodyRun run;
    try {
      run = round(std::nullopt, state);
    } catch (const InputError&) {
      // It needs to know in which round it is.
      if (rounds_can_be_read()) return false;
      std::optional<BodyRun> alike = first_rounds(state);
      if (!alike) throw;
      run = *std::move(alike);
    }
    const std::vector<BodyValue> behind = part(run.outputs, 1, state.size());
    if (!same_types(state, behind)) return false;
    const bool goes_on = condition_ == 1 && known_integer(run.outputs[0].constant) == 1;
    std::optional<std::int64_t> rounds = goes_on ? most_ : std::nullopt;
    if (!rounds) {
      rounds = context_.user_bound();
      if (rounds && most_) rounds = std::min(*rounds, *most_);
    }
    if (!rounds) flow_.unknown = "how often its body runs depends on data: --bound Loop=N gives an upper bound";
    add_rounds(flow_.inner, run, size_of(state), size_of(behind), rounds.value_or(most_.value_or(1)));
    flow_.outputs.assign(state.begin(), state.end());
    flow_.rounds = rounds.value_or(0);
    for (std::size_t k = 0; k < scans(); ++k) {
      flow_.outputs.emplace_back();
      if (rounds) flow_.outputs.back() = stacked(run.outputs[1 + state.size() + k], *rounds, 0);
    }
    return true;
  }

  /// A slice at the round's number has a known shape only in a known round. Where two rounds are alike they stand for all.
  [[nodiscard]] std::optional<BodyRun> first_rounds(const std::vector<BodyValue>& state) const {
    try {
      BodyRun first = round(0, state);
      const BodyRun second = round(1, state);
      if (!same_types(first.outputs, second.outputs)) return std::nullopt;
      take_larger(first.inner, second.inner);
      for (BodyValue& output : first.outputs) output.constant.reset();
      return first;
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  void read_rounds() {
    if (!rounds_can_be_read()) {
      throw InputError("", "its state changes its shape, and how often its body runs depends on data");
    }
    std::vector<BodyValue> state = state_;
    std::vector<BodyValue> written;
    const std::int64_t most = *this->most();
    std::int64_t rounds = 0;
    for (; rounds < most && condition_ != 0; ++rounds) {
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
    flow_.rounds = rounds;
    for (std::size_t k = 0; k < scans(); ++k) {
      flow_.outputs.emplace_back();
      if (rounds > 0) flow_.outputs.back() = stacked(written[k], rounds, 0);
    }
  }

  const RuleContext& context_;
  onnx::GraphProto& body_;
  const ReadBody& read_;
  std::size_t output_count_;
  /// Rounds at most, by the model; none if that depends on data.
  std::optional<std::int64_t> most_{};
  /// True if another round begins; nothing if that depends on data.
  std::optional<std::int64_t> condition_{};
  std::vector<BodyValue> state_{};
  ControlFlow flow_{};
};

/// Axes that the body does not see: the scanned one and, of opset 8, the batch before it, which states have, too.
class ScanAxes {
 public:
  explicit ScanAxes(const RuleContext& context)
      : context_(context),
        joins_(context.node.type == kScanVarLen),
        has_batch_(!joins_ && context.opset < kFirstScanWithoutBatch) {}

  [[nodiscard]] bool joins() const { return joins_; }
  [[nodiscard]] bool has_batch() const { return has_batch_; }
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
    const std::size_t rank = slice.type.shape.size() + (joins_ ? 0 : 1);
    const std::size_t axis = normalized_axis(axis_of("scan_output_axes", k), rank);
    if (!joins_) return state(stacked(slice, *count_, axis));
    BodyValue value{.type = slice.type};
    value.type.shape[axis] = saturating_product(value.type.shape[axis], *count_);
    return value;
  }

 private:
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
  bool joins_;
  bool has_batch_;
  std::optional<std::int64_t> batch_{};
  std::optional<std::int64_t> count_{};
};

/// The first input that the body has. Scan of opset 8 has lengths before it. Drafts of ScanVarLen have either the outputs'
/// lengths before it, or the outputs' shapes behind the last one.
std::size_t first_scan_input(const onnx::NodeProto& proto, const RuleContext& context, std::size_t body_inputs,
                             std::size_t written) {
  if (context.node.type != kScanVarLen) return context.opset < kFirstScanWithoutBatch ? 1 : 0;
  const auto is_list = [&](std::size_t k) {
    if (!context.has_input(k)) return true;
    const TensorType& type = *context.inputs[k];
    return type.data_type == onnx::TensorProto::INT64 && type.shape.size() == 1;
  };
  if (static_cast<std::size_t>(proto.input_size()) != body_inputs + 1 || !is_list(0)) return 0;
  return written != 1 || !context.has_input(0) || !is_list(body_inputs) ? 1 : 0;
}

ControlFlow read_scan(onnx::NodeProto& proto, const RuleContext& context, const ReadBody& read) {
  ScanAxes axes(context);
  onnx::GraphProto& body = body_of(proto, "body");
  const auto inputs = static_cast<std::size_t>(body.input_size());
  const auto scanned = static_cast<std::size_t>(std::max<std::int64_t>(0, context.attribute("num_scan_inputs", 0)));
  if (scanned < 1 || scanned > inputs) throw InputError("", "num_scan_inputs does not fit its inputs");
  const std::size_t states = inputs - scanned;
  if (context.output_count < states) throw InputError("", "has fewer outputs than values in its state");
  const std::size_t before = first_scan_input(proto, context, inputs, context.output_count - states);
  std::vector<BodyValue> given;
  for (std::size_t k = 0; k < states + scanned; ++k) {
    const bool is_state = k < states;
    given.push_back({.type = context.input(before + k)});
    Shape& shape = given.back().type.shape;
    if (is_state && !axes.has_batch()) given.back().constant = known(context, before + k).constant;
    if (is_state) {
      axes.take_batch(shape);
    } else {
      axes.take_scanned(shape, "scan_input_axes", k - states);
    }
  }
  given = in_every_round(std::move(given), body, 0, 0);
  const BodyRun run = read(body, given);
  expect_outputs(run, context.output_count);
  const std::vector<BodyValue> behind = part(run.outputs, 0, states);
  if (!same_types(part(given, 0, states), behind)) throw InputError("", "its state changes its shape");
  ControlFlow flow;
  add_rounds(flow.inner, run, size_of(given), size_of(behind), axes.rounds());
  // Slices are part of what is scanned.
  flow.inner.states = Bytes(saturating_product(size_of(part(given, 0, states)).count(), axes.rounds()));
  for (std::size_t k = 0; k < context.output_count; ++k) {
    const BodyValue value{.type = run.outputs[k].type};
    flow.outputs.emplace_back(k < states ? axes.state(value) : axes.written(value, k - states));
    if (k < states) flow.outputs.back()->constant = given[k].constant;
  }
  if (!axes.has_batch() && axes.rounds() > 0) {
    flow.rounds = axes.rounds();
    flow.body = &body;
    flow.first_input = before;
  }
  return flow;
}

}  // namespace

bool is_control_flow(const Node& node) {
  if (node.type == kScanVarLen) return node.domain.empty() || node.domain == "com.microsoft";
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
