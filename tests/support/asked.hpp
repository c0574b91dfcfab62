// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/ask/ask.hpp"
#include "model/instance.hpp"

namespace remora::test {

/// The request for exactly the instance's problem.
inline Request asked(const Instance& instance, const SolveOptions& options) {
  const bool is_free = instance.problem().order == OrderMode::free;
  return {.graph = instance.shared_graph(),
          .budget = instance.budget(),
          .max_computes = instance.problem().max_computes,
          .order = is_free ? OrderRequest::free : OrderRequest::input,
          .options = options};
}

}  // namespace remora::test
