// SPDX-License-Identifier: Apache-2.0
//
// The encoder-decoder Transformer, normalized after each sublayer as published. Source embedding, target embedding and
// output projection share one matrix (section 3.4); attention's projections have no bias (section 3.2.2). There is no
// padding mask, and dropout is the identity at inference and left out.
#include <cmath>
#include <optional>
#include <string>

#include "examples/zoo/families.hpp"
#include "examples/zoo/layers.hpp"
#include "examples/zoo/sequence_layers.hpp"
#include "examples/zoo/text.hpp"

namespace remora::zoo {

namespace {

struct Stack {
  std::int64_t heads;
  std::int64_t feed_forward;
  Dialect dialect;
};

/// sin and cos of position / 10000^(2i / width), interleaved (section 3.5): [length, width], computed from constants.
Value position_encoding(GraphBuilder& graph, std::int64_t length, std::int64_t width) {
  const auto scope = graph.scope("position");
  const auto range = [&graph](const std::string& name, std::int64_t count) {
    const std::vector<Value> bounds{graph.scalar(std::int64_t{0}), graph.scalar(count), graph.scalar(std::int64_t{1})};
    return graph.node("Cast", name + "/cast", {graph.node("Range", name, bounds, {count})}, {count},
                      {{"to", std::int64_t{onnx::TensorProto_DataType_FLOAT}}});
  };
  const auto step = static_cast<float>(-2.0 * std::log(10000.0) / static_cast<double>(width));
  const Value exponents = binary(graph, "Mul", "exponents", range("pair", width / 2), graph.scalar(step));
  const Value frequencies = unary(graph, "Exp", "frequencies", exponents);
  const Value rows = reshape(graph, "rows", range("index", length), {length, 1});
  const Value angles = binary(graph, "Mul", "angles", rows, frequencies);
  std::vector<Value> halves;
  for (const char* const type : {"Sin", "Cos"}) {
    halves.push_back(
        reshape(graph, std::string(type) + "/column", unary(graph, type, type, angles), {length, width / 2, 1}));
  }
  const Value pairs = graph.node("Concat", "pairs", halves, {length, width / 2, 2}, {{"axis", std::int64_t{2}}});
  return reshape(graph, "table", pairs, {length, width});
}

Value embed(GraphBuilder& graph, const std::string& name, const Value& table, const Value& ids) {
  const auto scope = graph.scope(name);
  const std::int64_t width = table.shape.back();
  const Value rows = graph.node("Gather", "gather", {table, ids}, {ids.shape[0], ids.shape[1], width});
  const Value scaled = binary(graph, "Mul", "scaled", rows, graph.scalar(std::sqrt(static_cast<float>(width))));
  return add(graph, "add", scaled, position_encoding(graph, ids.shape[1], width));
}

Value add_and_norm(GraphBuilder& graph, const Value& x, const Value& sublayer, const Stack& stack) {
  return layer_norm(graph, "norm", add(graph, "residual", x, sublayer), stack.dialect);
}

/// Queries from `x`, keys and values from `memory`.
Value attention_sublayer(GraphBuilder& graph, const std::string& name, const Value& x, const Value& memory,
                         const Stack& stack, const std::optional<Value>& mask) {
  const auto scope = graph.scope(name);
  const std::int64_t width = x.shape.back();
  const Value query = linear(graph, "query", x, width, /*bias=*/false);
  const Value key = linear(graph, "key", memory, width, /*bias=*/false);
  const Value value = linear(graph, "value", memory, width, /*bias=*/false);
  const Value mixed = attention(graph, "attention", query, key, value, stack.heads, mask);
  return add_and_norm(graph, x, linear(graph, "projection", mixed, width, /*bias=*/false), stack);
}

Value feed_forward_sublayer(GraphBuilder& graph, const Value& x, const Stack& stack) {
  const auto scope = graph.scope("ff");
  const Value inner = relu(graph, "relu", linear(graph, "expand", x, stack.feed_forward));
  return add_and_norm(graph, x, linear(graph, "contract", inner, x.shape.back()), stack);
}

Value encode(GraphBuilder& graph, Value x, std::int64_t layers, const Stack& stack) {
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto scope = graph.scope(text("encoder/layer", i));
    x = attention_sublayer(graph, "self", x, x, stack, std::nullopt);
    x = feed_forward_sublayer(graph, x, stack);
  }
  return x;
}

Value decode(GraphBuilder& graph, Value x, const Value& memory, std::int64_t layers, const Stack& stack) {
  const Value mask = causal_mask(graph, "mask", x.shape[1]);
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto scope = graph.scope(text("decoder/layer", i));
    x = attention_sublayer(graph, "self", x, x, stack, mask);
    x = attention_sublayer(graph, "cross", x, memory, stack, std::nullopt);
    x = feed_forward_sublayer(graph, x, stack);
  }
  return x;
}

void transformer(GraphBuilder& graph, const Settings& settings, std::int64_t batch) {
  const std::int64_t width = settings.number("width");
  require_heads(width, settings.number("heads"));
  require(width % 2 == 0, text("--width ", width, " is odd: the position encoding needs pairs"));
  const Stack stack{settings.number("heads"),
                    settings.number("ff"),
                    {.decompose_layer_norm = settings.choice("layer-norm") == "decomposed"}};
  const Value source = graph.input("source_ids", ElementType::int64, {batch, settings.number("source")});
  const Value target = graph.input("target_ids", ElementType::int64, {batch, settings.number("target")});
  const Value table = graph.weight("embedding", {settings.number("vocabulary"), width});
  const Value memory =
      encode(graph, embed(graph, "encoder/embed", table, source), settings.number("encoder-layers"), stack);
  const Value x =
      decode(graph, embed(graph, "decoder/embed", table, target), memory, settings.number("decoder-layers"), stack);
  graph.output(matmul(graph, "logits", x, transpose(graph, "embedding/transpose", table, {1, 0})));
}

}  // namespace

std::vector<Architecture> transformer_family() {
  return {{.name = "transformer",
           .summary = "encoder-decoder Transformer, shared embeddings",
           .source = "Vaswani et al. 2017, the base model",
           .parameters = {{"encoder-layers", Range{6, 1, 1024}, "of the encoder"},
                          {"decoder-layers", Range{6, 1, 1024}, "of the decoder"},
                          {"width", Range{512, 2, 65536}, "of the residual stream; even"},
                          {"heads", Range{8, 1, 1024}, "of attention; divides the width"},
                          {"ff", Range{2048, 1, 1048576}, "width inside the feed-forward layers"},
                          {"source", Range{128, 1, 1048576}, "tokens of a source sentence"},
                          {"target", Range{128, 1, 1048576}, "tokens of a target sentence"},
                          {"vocabulary", Range{37000, 1, 16777216}, "number of tokens, both languages together"},
                          layer_norm_parameter()},
           .build = transformer}};
}

}  // namespace remora::zoo
