// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "frontends/onnx/read/onnx_reader.hpp"
#include "frontends/onnx/write/onnx_writer.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/instance.hpp"
#include "tests/fuzz/target.hpp"

namespace remora::fuzz {

using namespace onnx_frontend;

/// The first byte chooses how the rest is read.
void fuzz_onnx(Input bytes) {
  if (bytes.empty()) return;
  const auto how = static_cast<std::uint8_t>(bytes.front());
  bytes.remove_prefix(1);
  static_cast<void>(looks_like_onnx(bytes));
  OnnxOptions options;
  if ((how & 1U) != 0) options.training.emplace();
  if ((how & 2U) != 0 && options.training) options.training->backward = BackwardRule::checkmate;
  if ((how & 4U) != 0) options.dimensions["N"] = 3;
  options.cost = (how & 8U) != 0 ? CostModel::flops : CostModel::roofline;
  if ((how & 16U) != 0) options.folder = "/models";
  options.allow_external = (how & 32U) != 0;
  if ((how & 64U) != 0) options.bounds = {{"NonZero", 5}, {"NonMaxSuppression", 5}};
  options.allow_unknown = (how & 128U) != 0 && !options.training;
  options.axes = true;
  const LoweredModel model = lower_onnx(bytes, "model", options);
  const Instance instance(std::make_shared<const Graph>(model.graph), {});
  const Schedule schedule = schedule_of(instance, input_order(instance));
  if (options.training) {
    static_cast<void>(runtime_schedule(model, schedule));
    return;
  }
  const ModelFolders folders{.from = "/models", .to = std::filesystem::path("/models")};
  const std::string rewritten = rewrite_model(bytes, model, ops_of(schedule), folders);
  OnnxOptions again = options;
  again.dimensions.clear();
  if (options.dimensions.empty()) check_rewritten(rewritten, "rewritten", again, schedule);
}

}  // namespace remora::fuzz
