// SPDX-License-Identifier: Apache-2.0
#include "model/compute_options.hpp"

namespace remora {

std::vector<Compute> computes_of(std::span<const OpId> sequence) {
  std::vector<Compute> computes;
  computes.reserve(sequence.size());
  for (const OpId op : sequence) computes.push_back({op, 0});
  return computes;
}

std::vector<OpId> ops_of(std::span<const Compute> sequence) {
  std::vector<OpId> ops;
  ops.reserve(sequence.size());
  for (const Compute& compute : sequence) ops.push_back(compute.op);
  return ops;
}

}  // namespace remora
