// SPDX-License-Identifier: Apache-2.0
//
// BERT with its head for masked words: an encoder normalized after each sublayer, learned positions and segments. The head's matrix is
// the token embedding. There is no padding mask, and dropout is the identity at inference and left out.
#include <string>

#include "examples/zoo/families.hpp"
#include "examples/zoo/layers.hpp"
#include "examples/zoo/sequence_layers.hpp"
#include "examples/zoo/text.hpp"

namespace remora::zoo {

namespace {

/// Words, positions and segments, added and normalized.
Value embeddings(GraphBuilder& graph, const Value& words, const Settings& settings, std::int64_t batch,
                 const Dialect& dialect) {
  const auto scope = graph.scope("embed");
  const std::int64_t length = settings.number("sequence");
  const std::int64_t width = settings.number("width");
  const auto look_up = [&](const std::string& name, const Value& table) {
    const Value ids = graph.input(name + "_ids", ElementType::int64, {batch, length});
    return graph.node("Gather", name, {table, ids}, {batch, length, width});
  };
  const Value word = look_up("input", words);
  const Value segment = look_up("token_type", graph.weight("segments", {2, width}));
  const Value position = position_embedding(graph, "positions", settings.number("positions"), length, width);
  const Value sum = add(graph, "add_positions", add(graph, "add_segments", word, segment), position);
  return layer_norm(graph, "norm", sum, dialect);
}

Value encoder_layer(GraphBuilder& graph, const Value& x, std::int64_t heads, const Dialect& dialect) {
  const std::int64_t width = x.shape.back();
  const Value query = linear(graph, "query", x, width);
  const Value key = linear(graph, "key", x, width);
  const Value value = linear(graph, "value", x, width);
  const Value mixed = attention(graph, "attention", query, key, value, heads, std::nullopt);
  const Value attended = linear(graph, "projection", mixed, width);
  const Value middle = layer_norm(graph, "norm_1", add(graph, "residual_1", x, attended), dialect);
  const Value inner = gelu(graph, "gelu", linear(graph, "expand", middle, 4 * width), dialect);
  const Value outer = linear(graph, "contract", inner, width);
  return layer_norm(graph, "norm_2", add(graph, "residual_2", middle, outer), dialect);
}

void bert(GraphBuilder& graph, const Settings& settings, std::int64_t batch) {
  const std::int64_t width = settings.number("width");
  const std::int64_t heads = settings.number("heads");
  const std::int64_t vocabulary = settings.number("vocabulary");
  require_heads(width, heads);
  require(
      settings.number("sequence") <= settings.number("positions"),
      text("--sequence ", settings.number("sequence"), " is longer than --positions ", settings.number("positions")));
  const Dialect dialect{.decompose_layer_norm = settings.choice("layer-norm") == "decomposed", .erf_gelu = true};
  const Value words = graph.weight("words", {vocabulary, width});
  Value x = embeddings(graph, words, settings, batch, dialect);
  for (std::int64_t i = 0; i < settings.number("layers"); ++i) {
    const auto scope = graph.scope(text("layer", i));
    x = encoder_layer(graph, x, heads, dialect);
  }
  const auto scope = graph.scope("head");
  const Value turned = gelu(graph, "gelu", linear(graph, "dense", x, width), dialect);
  const Value normal = layer_norm(graph, "norm", turned, dialect);
  const Value product = matmul(graph, "product", normal, transpose(graph, "transpose", words, {1, 0}));
  graph.output(add(graph, "logits", product, graph.weight("shift", {vocabulary})));
}

}  // namespace

std::vector<Architecture> bert_family() {
  return {{.name = "bert",
           .summary = "BERT language model with its head for masked words, tied embeddings",
           .source = "Devlin et al. 2019, the base model",
           .parameters = {{"layers", Range{12, 1, 1024}, "of the encoder"},
                          {"width", Range{768, 1, 65536}, "of the residual stream"},
                          {"heads", Range{12, 1, 1024}, "of attention; divides the width"},
                          {"sequence", Range{128, 1, 1048576}, "tokens of a sample"},
                          {"positions", Range{512, 1, 1048576}, "position embeddings; at least the sequence"},
                          {"vocabulary", Range{30522, 1, 16777216}, "number of tokens"},
                          layer_norm_parameter()},
           .build = bert}};
}

}  // namespace remora::zoo
