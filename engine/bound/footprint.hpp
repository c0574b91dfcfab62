// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>

#include "model/instance.hpp"
#include "model/schedule.hpp"

namespace remora {

/// The smallest budget that any schedule, of whatever order, could hold: while an op runs its inputs, outputs and
/// workspace are resident beside fixed memory and the graph's inputs; at the end, so are all tensors that must be kept.
inline Bytes least_budget(const Instance& instance) {
  Bytes least = instance.base_memory();
  for (int v = 0; v < instance.op_count(); ++v) least = std::max(least, instance.footprint(OpId(v)));
  Bytes kept = instance.base_memory();
  for (int t = 0; t < instance.tensor_count(); ++t) {
    if (instance.keep(TensorId(t)) && instance.producer(TensorId(t)).valid()) kept += instance.size(TensorId(t));
  }
  return std::max(least, kept);
}

/// The first op of the largest footprint, if that exceeds the budget: an exact proof that no schedule holds it.
/// O(edges).
inline std::optional<Certificate> footprint_certificate(const Instance& instance) {
  if (instance.op_count() == 0) return std::nullopt;
  OpId worst(0);
  for (int v = 1; v < instance.op_count(); ++v) {
    if (instance.footprint(OpId(v)) > instance.footprint(worst)) worst = OpId(v);
  }
  if (instance.footprint(worst) <= instance.budget()) return std::nullopt;
  Certificate certificate{worst, instance.footprint(worst), {}};
  const auto inputs = instance.inputs(worst);
  const auto outputs = instance.outputs(worst);
  certificate.tensors.assign(inputs.begin(), inputs.end());
  certificate.tensors.insert(certificate.tensors.end(), outputs.begin(), outputs.end());
  return certificate;
}

}  // namespace remora
