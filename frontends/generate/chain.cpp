// SPDX-License-Identifier: Apache-2.0
#include "frontends/generate/chain.hpp"

#include <string>

#include "frontends/generate/training_step.hpp"

namespace remora::generate {

Graph generate_chain(const ChainOptions& options) {
  check_options(options, kChainTable);
  TrainingStep step("chain");
  const std::int64_t values = options.batch * options.channels;
  TensorId x = step.add_data("batch", values);
  for (std::int64_t layer = 1; layer <= options.layers; ++layer) {
    x = step.add_forward({.name = "linear" + std::to_string(layer),
                          .type = "Linear",
                          .inputs = {x},
                          .values = values,
                          .flops = 2 * values * options.channels,
                          .reads = BackwardReads::inputs,
                          .parameters = options.channels * (options.channels + 1)});
  }
  return step.finish(x);
}

}  // namespace remora::generate
