// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/read/cost.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string_view>

#include "model/quote.hpp"

namespace remora::onnx_frontend {
namespace {

const Value& value_of(const Network& network, ValueId id) {
  return network.values[id];
}

Bytes size_of(const Network& network, ValueId id) {
  const Value& value = value_of(network, id);
  return byte_size(value.shape, value.type);
}

bool looks_up(const Node& node) {
  constexpr std::array<std::string_view, 4> kLookups{"Gather", "GatherElements", "GatherND", "Slice"};
  return std::find(kLookups.begin(), kLookups.end(), node.type) != kLookups.end();
}

/// The node's first result that is a value; null without one.
const Value* first_result(const Network& network, const Node& node) {
  for (const ValueId output : node.outputs) {
    if (output.valid()) return &value_of(network, output);
  }
  return nullptr;
}

std::string_view numbers_of(const Value* made) {
  const bool is_wide = made == nullptr || !made->type.floating || made->type.bits > 16;
  return is_wide ? "fp32" : "half";
}

OpWork work_of(const Network& network, NodeId id) {
  const Node& node = network.nodes[id];
  const Value* const made = first_result(network, node.backward_of.valid() ? network.nodes[node.backward_of] : node);
  return {.of = op_class(network, id),
          .numbers = numbers_of(made),
          .operations = flops(network, id),
          .moved = bytes_moved(network, id).count(),
          .made = made == nullptr ? std::span<const std::int64_t>() : std::span<const std::int64_t>(made->shape)};
}

enum class Gradients { one_kernel, of_a_product, of_a_sum };

/// How PyTorch runs a backward node: a kernel for each gradient of a matrix product, none where a sum passes its gradient on.
Gradients gradients_of(const Network& network, const Node& node) {
  if (!node.backward_of.valid() || !node.attributes.has("gradient_of")) return Gradients::one_kernel;
  const Node& forward = network.nodes[node.backward_of];
  if (first_result(network, forward) == nullptr) return Gradients::one_kernel;
  constexpr std::array<std::string_view, 4> kProducts{"Gemm", "MatMul", "FusedGemm", "FusedMatMul"};
  if (std::find(kProducts.begin(), kProducts.end(), forward.type) != kProducts.end()) return Gradients::of_a_product;
  return forward.type == "Add" || forward.type == "Sum" ? Gradients::of_a_sum : Gradients::one_kernel;
}

/// Each kernel reads the gradient of the result: a product for each operand, and a sum over what was broadcast.
double seconds_of_gradients(const Network& network, const Node& node, bool is_product, const Machine& machine) {
  const Node& forward = network.nodes[node.backward_of];
  const Value& result = *first_result(network, forward);
  double seconds = 0;
  for (const std::int64_t position : node.attributes.get("gradient_of", std::vector<std::int64_t>{})) {
    const ValueId operand = forward.inputs[static_cast<std::size_t>(position)];
    const Value& made = value_of(network, operand);
    OpWork work{.numbers = numbers_of(&result), .made = made.shape};
    Bytes moved = sum_of(byte_size(result.shape, result.type), size_of(network, operand), node.name);
    if (is_product && position < 2) {
      work.of = OpClass::product;
      work.operations = flops(network, node.backward_of);
      moved = sum_of(moved, size_of(network, forward.inputs[static_cast<std::size_t>(1 - position)]), node.name);
    } else if (made.shape == result.shape) {
      continue;
    }
    work.moved = moved.count();
    seconds += machine.seconds(work);
  }
  return seconds;
}

Duration base_duration(const Network& network, NodeId id, CostModel model, const Machine& machine) {
  switch (model) {
    case CostModel::unit:
      return Duration(1);
    case CostModel::flops:
      return Duration(flops(network, id));
    case CostModel::roofline:
      break;
  }
  // Three figures describe ops, a machine of the table kernels.
  const Node& node = network.nodes[id];
  const Gradients gradients = machine.efficiency.empty() ? Gradients::one_kernel : gradients_of(network, node);
  if (gradients == Gradients::one_kernel) return nanoseconds(machine.seconds(work_of(network, id)));
  return nanoseconds(seconds_of_gradients(network, node, gradients == Gradients::of_a_product, machine));
}

}  // namespace

std::string cost_model_name(CostModel model) {
  switch (model) {
    case CostModel::flops:
      return "flops";
    case CostModel::unit:
      return "unit";
    case CostModel::roofline:
      break;
  }
  return "roofline";
}

std::string duration_unit(CostModel model) {
  switch (model) {
    case CostModel::flops:
      return "flop";
    case CostModel::unit:
      return "op";
    case CostModel::roofline:
      break;
  }
  return "ns";
}

Bytes bytes_moved(const Network& network, NodeId id) {
  const Node& node = network.nodes[id];
  const std::string place = "node " + printable(node.name);
  Bytes written(node.attributes.get(kBytesWrittenInPlace, std::int64_t{0}));
  for (const ValueId output : node.outputs) {
    if (output.valid()) written = sum_of(written, size_of(network, output), place);
  }
  Bytes read;
  std::set<ValueId> seen;
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const ValueId input = node.inputs[k];
    if (!input.valid() || !seen.insert(network.storage(input)).second) continue;
    const Bytes size = size_of(network, input);
    read = sum_of(read, k == 0 && looks_up(node) ? std::min(size, written) : size, place);
  }
  const Bytes moved = sum_of(read, written, place);
  return node.inner ? sum_of(moved, node.inner->moved, place) : moved;
}

Duration duration(const Network& network, NodeId id, CostModel model, const Machine& machine) {
  const Node& node = network.nodes[id];
  const std::int64_t factor = node.attributes.get("duration_factor", std::int64_t{0});
  if (factor <= 0 || !node.backward_of.valid()) return base_duration(network, id, model, machine);
  const std::int64_t forward = base_duration(network, node.backward_of, model, machine).count();
  return Duration(forward > Duration::max().count() / factor ? Duration::max().count() : forward * factor);
}

}  // namespace remora::onnx_frontend
