// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/footprint.hpp"

#include <algorithm>

namespace remora {
namespace {

/// The tensors that must be resident after the last op, and base memory. Base memory alone where there are inner peaks:
/// the last compute may be said to take less than what it leaves.
Certificate kept_at_the_end(const Instance& instance) {
  Certificate kept{OpId(instance.op_count() - 1), instance.base_memory(), {}};
  if (instance.has_inner()) return kept;
  for (int t = 0; t < instance.tensor_count(); ++t) {
    if (!instance.keep(TensorId(t)) || !instance.producer(TensorId(t)).valid()) continue;
    kept.required += instance.size(TensorId(t));
    kept.tensors.emplace_back(t);
  }
  return kept;
}

}  // namespace

Bytes least_budget(const Instance& instance) {
  Bytes least = kept_at_the_end(instance).required;
  for (int v = 0; v < instance.op_count(); ++v) least = std::max(least, instance.footprint(OpId(v)));
  return least;
}

std::optional<Certificate> footprint_certificate(const Instance& instance) {
  if (instance.op_count() == 0) return std::nullopt;
  OpId worst(0);
  for (int v = 1; v < instance.op_count(); ++v) {
    if (instance.footprint(OpId(v)) > instance.footprint(worst)) worst = OpId(v);
  }
  if (instance.footprint(worst) > instance.budget()) {
    Certificate certificate{worst, instance.footprint(worst), {}};
    const auto inputs = instance.inputs(worst);
    const auto outputs = instance.outputs(worst);
    certificate.tensors.assign(inputs.begin(), inputs.end());
    certificate.tensors.insert(certificate.tensors.end(), outputs.begin(), outputs.end());
    return certificate;
  }
  Certificate kept = kept_at_the_end(instance);
  if (kept.required > instance.budget()) return kept;
  return std::nullopt;
}

}  // namespace remora
