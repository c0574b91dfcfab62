// SPDX-License-Identifier: Apache-2.0
#include "frontends/generate/transformer.hpp"

#include <string>
#include <utility>
#include <vector>

#include "frontends/generate/training_step.hpp"
#include "model/error.hpp"

namespace remora::generate {
namespace {

class TransformerBuilder {
 public:
  explicit TransformerBuilder(const TransformerOptions& options)
      : options_(options), step_("transformer"), tokens_(options.batch * options.sequence) {}

  Graph build() {
    const std::int64_t width = options_.width;
    const std::int64_t vocabulary = options_.vocabulary;
    TensorId x = step_.add_data("tokens", tokens_);
    x = step_.add_forward({.name = "embed",
                           .type = "Gather",
                           .inputs = {x},
                           .values = tokens_ * width,
                           .flops = tokens_ * width,
                           .parameters = vocabulary * width});
    for (std::int64_t layer = 1; layer <= options_.layers; ++layer) {
      prefix_ = "layer" + std::to_string(layer) + "/";
      x = mlp(attention(x));
    }
    prefix_.clear();
    return step_.finish(linear("head", x, width, vocabulary));
  }

 private:
  TensorId add(ForwardOp op) {
    op.name = prefix_ + op.name;
    return step_.add_forward(std::move(op));
  }

  TensorId linear(const std::string& name, TensorId x, std::int64_t from, std::int64_t to) {
    return add({.name = name,
                .type = "Linear",
                .inputs = {x},
                .values = tokens_ * to,
                .flops = 2 * tokens_ * from * to,
                .parameters = (from + 1) * to});
  }

  TensorId norm(const std::string& name, TensorId x) {
    const std::int64_t values = tokens_ * options_.width;
    return add({.name = name,
                .type = "LayerNormalization",
                .inputs = {x},
                .values = values,
                .flops = 8 * values,
                .parameters = 2 * options_.width});
  }

  TensorId sum(const std::string& name, TensorId x, TensorId y) {
    const std::int64_t values = tokens_ * options_.width;
    return add({.name = name,
                .type = "Add",
                .inputs = {x, y},
                .values = values,
                .flops = values,
                .reads = BackwardReads::nothing});
  }

  TensorId attention(TensorId x) {
    const std::int64_t width = options_.width;
    const std::int64_t weights = tokens_ * options_.heads * options_.sequence;
    const std::int64_t product = 2 * tokens_ * options_.sequence * width;
    const TensorId qkv = linear("qkv", norm("norm1", x), width, 3 * width);
    const TensorId scores =
        add({.name = "scores", .type = "MatMul", .inputs = {qkv}, .values = weights, .flops = product});
    const TensorId softmax = add({.name = "softmax",
                                  .type = "Softmax",
                                  .inputs = {scores},
                                  .values = weights,
                                  .flops = 5 * weights,
                                  .reads = BackwardReads::output});
    const TensorId context = add(
        {.name = "context", .type = "MatMul", .inputs = {softmax, qkv}, .values = tokens_ * width, .flops = product});
    return sum("add1", x, linear("project", context, width, width));
  }

  TensorId mlp(TensorId x) {
    const std::int64_t width = options_.width;
    const TensorId expanded = linear("expand", norm("norm2", x), width, 4 * width);
    const std::int64_t values = tokens_ * 4 * width;
    const TensorId gelu =
        add({.name = "gelu", .type = "Gelu", .inputs = {expanded}, .values = values, .flops = 8 * values});
    return sum("add2", x, linear("shrink", gelu, 4 * width, width));
  }

  const TransformerOptions& options_;
  TrainingStep step_;
  std::int64_t tokens_;
  /// Of the layer's op names.
  std::string prefix_;
};

}  // namespace

Graph generate_transformer(const TransformerOptions& options) {
  check_options(options, kTransformerTable);
  if (options.width % options.heads != 0) {
    throw InputError("--heads",
                     std::to_string(options.heads) + " do not divide the width, " + std::to_string(options.width));
  }
  return TransformerBuilder(options).build();
}

}  // namespace remora::generate
