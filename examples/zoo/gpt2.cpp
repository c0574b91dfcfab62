// SPDX-License-Identifier: Apache-2.0
//
// GPT-2: a decoder of pre-normalized blocks. The output projection is the transposed token embedding. Dropout is the
// identity at inference and left out.
#include <string>

#include "examples/zoo/families.hpp"
#include "examples/zoo/layers.hpp"
#include "examples/zoo/sequence_layers.hpp"
#include "examples/zoo/text.hpp"

namespace remora::zoo {

namespace {

struct Layer {
  std::int64_t heads;
  std::int64_t feed_forward;
  Dialect dialect;
  Value mask;
};

Value self_attention(GraphBuilder& graph, const Value& x, const Layer& block) {
  const std::int64_t width = x.shape.back();
  const Value projected = linear(graph, "qkv", x, 3 * width);
  const std::vector<Value> parts =
      graph.node_with_outputs("Split", "split", {projected}, {{"query", x.shape}, {"key", x.shape}, {"value", x.shape}},
                              {{"axis", std::int64_t{2}}});
  const Value mixed = attention(graph, "attention", parts[0], parts[1], parts[2], block.heads, block.mask);
  return linear(graph, "projection", mixed, width);
}

Value transformer_block(GraphBuilder& graph, const Value& x, const Layer& block) {
  const Value attended = self_attention(graph, layer_norm(graph, "ln_1", x, block.dialect), block);
  const Value middle = add(graph, "residual_1", x, attended);
  const auto scope = graph.scope("mlp");
  const Value normal = layer_norm(graph, "ln_2", middle, block.dialect);
  const Value inner = gelu(graph, "gelu", linear(graph, "expand", normal, block.feed_forward), block.dialect);
  return add(graph, "residual_2", middle, linear(graph, "contract", inner, x.shape.back()));
}

void gpt2(GraphBuilder& graph, const Settings& settings, std::int64_t batch) {
  const std::int64_t length = settings.number("sequence");
  const std::int64_t positions = settings.number("positions");
  const std::int64_t width = settings.number("width");
  require_heads(width, settings.number("heads"));
  require(length <= positions, text("--sequence ", length, " is longer than --positions ", positions));
  const Dialect dialect{.decompose_layer_norm = settings.choice("layer-norm") == "decomposed",
                        .erf_gelu = settings.choice("gelu") == "erf"};
  const Value ids = graph.input("input_ids", ElementType::int64, {batch, length});
  const Value tokens = graph.weight("wte", {settings.number("vocabulary"), width});
  const Value embedded = graph.node("Gather", "embed", {tokens, ids}, {batch, length, width});
  Value x = add(graph, "embed/add", embedded, position_embedding(graph, "wpe", positions, length, width));
  const Layer block{settings.number("heads"), 4 * width, dialect, causal_mask(graph, "mask", length)};
  for (std::int64_t i = 0; i < settings.number("layers"); ++i) {
    const auto scope = graph.scope(text("h", i));
    x = transformer_block(graph, x, block);
  }
  x = layer_norm(graph, "ln_f", x, dialect);
  graph.output(matmul(graph, "logits", x, transpose(graph, "wte/transpose", tokens, {1, 0})));
}

}  // namespace

std::vector<Architecture> gpt2_family() {
  return {{.name = "gpt2",
           .summary = "GPT-2 language model, tied embeddings",
           .source = "Radford et al. 2019",
           .parameters = {{"layers", Range{12, 1, 1024}, "blocks"},
                          {"width", Range{768, 1, 65536}, "of the residual stream"},
                          {"heads", Range{12, 1, 1024}, "of attention; divides the width"},
                          {"sequence", Range{1024, 1, 1048576}, "tokens of a sample"},
                          {"positions", Range{1024, 1, 1048576}, "position embeddings; at least the sequence"},
                          {"vocabulary", Range{50257, 1, 16777216}, "number of tokens"},
                          {"gelu", Choices{"tanh", "erf"}, "form of Gelu, in elementary ops"},
                          layer_norm_parameter()},
           .build = gpt2}};
}

}  // namespace remora::zoo
