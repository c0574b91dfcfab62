// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/train/training_memory.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string_view>

#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::onnx_frontend {
namespace {

/// How often the trained parameters' size: state, and what a step needs for a while on a GPU; on a CPU that is so often
/// the size of the largest one.
struct Optimizer {
  std::string_view name;
  std::int64_t state;
  std::int64_t on_gpu;
  std::int64_t on_cpu;
};

/// As PyTorch 2.15 allocates (remora.torch.fit counts it op by op); Adafactor, whose state is of rows and columns, apart.
constexpr std::array kOptimizers{
    Optimizer{"adamw", 2, 1, 2},        Optimizer{"adam", 2, 1, 2},    Optimizer{"sgd", 0, 0, 0},
    Optimizer{"sgd-momentum", 1, 0, 0}, Optimizer{"rmsprop", 1, 1, 1}, Optimizer{"adagrad", 1, 2, 1},
    Optimizer{"none", 0, 0, 0},
};
constexpr std::string_view kAdafactor = "adafactor";

/// The parameters that get a gradient, each once.
std::vector<ValueId> trained_parameters(const Network& network) {
  std::set<ValueId> found;
  for (const Value& value : network.values) {
    if (value.gradient_of.valid() && network.values[value.gradient_of].kind == ValueKind::parameter) {
      found.insert(value.gradient_of);
    }
  }
  for (const Node& node : network.nodes) found.insert(node.gradients_in_place.begin(), node.gradients_in_place.end());
  return {found.begin(), found.end()};
}

/// Its state for one parameter: sums of rows and of columns, or, of a vector, one number for each.
Bytes adafactor_state(const Value& parameter) {
  Shape rows = parameter.shape;
  Shape columns = parameter.shape;
  if (rows.size() < 2) return byte_size(parameter.shape, parameter.type);
  rows.back() = 1;
  columns[columns.size() - 2] = 1;
  return sum_of(byte_size(rows, parameter.type), byte_size(columns, parameter.type), "the optimizer's state");
}

Bytes times(Bytes size, std::int64_t count) {
  Bytes total;
  for (std::int64_t i = 0; i < count; ++i) total = sum_of(total, size, "the optimizer's state");
  return total;
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  names.reserve(kOptimizers.size() + 1);
  for (const Optimizer& optimizer : kOptimizers) names.emplace_back(optimizer.name);
  names.insert(names.end() - 1, std::string(kAdafactor));
  return names;
}

TrainingMemory training_memory(const Network& network, const std::string& optimizer, bool on_cpu) {
  TrainingMemory memory;
  Bytes largest;
  Bytes rows_and_columns;
  for (const ValueId id : trained_parameters(network)) {
    const Value& parameter = network.values[id];
    const Bytes size = byte_size(parameter.shape, parameter.type);
    memory.gradients = sum_of(memory.gradients, size, "gradients of parameters");
    largest = std::max(largest, size);
    rows_and_columns = sum_of(rows_and_columns, adafactor_state(parameter), "the optimizer's state");
  }
  if (optimizer == kAdafactor) {
    memory.state = rows_and_columns;
    memory.update = sum_of(largest, rows_and_columns, "the optimizer's update");
    return memory;
  }
  const auto* const row =
      std::find_if(kOptimizers.begin(), kOptimizers.end(), [&](const Optimizer& one) { return one.name == optimizer; });
  if (row == kOptimizers.end()) throw InputError("", quote(optimizer) + " is no optimizer that is known");
  memory.state = times(memory.gradients, row->state);
  memory.update = on_cpu ? times(largest, row->on_cpu) : times(memory.gradients, row->on_gpu);
  return memory;
}

}  // namespace remora::onnx_frontend
