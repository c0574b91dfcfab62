// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/instances/checkmate.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/instances/keras/layers.hpp"
#include "model/error.hpp"
#include "model/graph.hpp"
#include "model/quote.hpp"

namespace remora::instances {
namespace keras {
namespace {

// The training step of a network of layers by the rule of Jain et al. 2020 (Checkmate), as its published graphs have
// it: an op for each layer, in Keras' order, then the loss, then a backward op for each layer, in reverse. The backward
// op of layer u makes the gradient of u's output, as large as this, and reads
//
//     u's output,  the outputs of the layers that read u,  the gradients of their outputs
//
//     a -> b -> loss        b/backward reads b and the loss;  a/backward reads a, b and the gradient of b
//
// and takes twice as many operations as u. The loss reads the last layer's output, is one value an image, takes no
// operations and has no backward op. The image is no tensor. Nothing is `keep`. So a network of L layers with E edges
// between them has 2 L + 1 ops and 3 E + L + 2 edges.
//
// It is not the rule of `--training`, where a backward op reads what its layer's kind demands and writes the
// gradients of the layer's inputs; frontends/onnx/train/training_backward.cpp applies the rule to ONNX models.

/// What counts as fixed memory: nothing, as in the published graphs, or the parameters and the gradients of those that
/// are trained.
enum class FixedMemory { none, parameters };

constexpr std::int64_t kValueBytes = 4;

class TrainingGraphBuilder {
 public:
  TrainingGraphBuilder(const LayerGraph& network, std::int64_t batch)
      : layers_(network.layers()),
        batch_(batch),
        order_(keras_order(network)),
        outputs_(layers_.size()),
        gradients_(layers_.size()),
        ops_(layers_.size()),
        readers_(layers_.size()) {}

  Graph build() {
    for (const LayerId layer : order_) add_forward(layer);
    add_loss();
    std::for_each(order_.rbegin(), order_.rend(), [this](LayerId layer) { add_backward(layer); });
    return std::move(graph_);
  }

 private:
  [[nodiscard]] Bytes bytes(const Shape& shape) const { return Bytes(kValueBytes * batch_ * shape.values()); }

  void add_forward(LayerId id) {
    const Layer& layer = layers_[id.index()];
    outputs_[id] = graph_.add_tensor(layer.name, bytes(layer.figures.output));
    Op op{.name = layer.name,
          .type = layer.type,
          .duration = Duration(batch_ * layer.figures.operations),
          .outputs = {outputs_[id]},
          .phase = Phase::forward};
    for (const LayerId input : layer.inputs) {
      op.inputs.push_back(outputs_[input]);
      readers_[input].push_back(id);
    }
    ops_[id] = graph_.add_op(std::move(op));
  }

  void add_loss() {
    loss_ = graph_.add_tensor("loss", bytes(Shape{}));
    graph_.add_op({.name = "loss",
                   .type = "Loss",
                   .inputs = {outputs_[order_.back()]},
                   .outputs = {loss_},
                   .phase = Phase::loss});
  }

  void add_backward(LayerId id) {
    const Op forward = graph_[ops_[id]];
    gradients_[id] = graph_.add_tensor(forward.name + "/gradient", bytes(layers_[id.index()].figures.output));
    Op op{.name = forward.name + "/backward",
          .type = forward.type + "Backward",
          .duration = forward.duration + forward.duration,
          .inputs = {outputs_[id]},
          .outputs = {gradients_[id]},
          .phase = Phase::backward,
          .backward_of = ops_[id]};
    if (id == order_.back()) op.inputs.push_back(loss_);
    for (const LayerId reader : readers_[id]) op.inputs.push_back(outputs_[reader]);
    for (const LayerId reader : readers_[id]) op.inputs.push_back(gradients_[reader]);
    graph_.add_op(std::move(op));
  }

  const std::vector<Layer>& layers_;
  std::int64_t batch_;
  std::vector<LayerId> order_;
  Graph graph_{};
  /// Of each layer: its output, the gradient of that, its op, and the layers that read it.
  Table<LayerId, TensorId> outputs_;
  Table<LayerId, TensorId> gradients_;
  Table<LayerId, OpId> ops_;
  Table<LayerId, std::vector<LayerId>> readers_;
  TensorId loss_{};
};

/// The parameters, and the gradients of those that are trained.
Bytes parameter_bytes(const std::vector<Layer>& layers) {
  std::int64_t values = 0;
  for (const Layer& layer : layers) values += layer.figures.parameters + layer.figures.trained_parameters;
  return Bytes(kValueBytes * values);
}

/// The training step with `batch` images and values of 4 bytes. Throws InputError where sizes or durations add up to
/// more than 64 bits hold (model/graph.hpp); each by itself must not. O(layers log layers + edges).
Graph training_graph(const LayerGraph& layers, std::int64_t batch, FixedMemory fixed) {
  Graph graph = TrainingGraphBuilder(layers, batch).build();
  if (fixed == FixedMemory::parameters) graph.fixed_memory = parameter_bytes(layers.layers());
  validate(graph);
  return graph;
}

}  // namespace
}  // namespace keras

namespace {

void check_range(const char* name, std::optional<std::int64_t> value, std::int64_t least, std::int64_t most) {
  if (!value || (*value >= least && *value <= most)) return;
  throw InputError(std::string("--") + name,
                   std::to_string(*value) + " is outside " + std::to_string(least) + " to " + std::to_string(most));
}

const keras::Architecture& architecture_of(const std::string& network) {
  std::string known;
  for (const keras::Architecture& architecture : keras::kArchitectures) {
    if (architecture.name == network) return architecture;
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  throw InputError("--network", quote(network) + " is not one of " + known);
}

/// The image of the options, or the published one.
keras::Shape image_of(const keras::Architecture& architecture, const CheckmateOptions& options) {
  keras::Shape image = architecture.image;
  if (!options.size) return image;
  if (*options.size % architecture.multiple != 0) {
    throw InputError("--size", std::to_string(*options.size) + " is not a multiple of " +
                                   std::to_string(architecture.multiple) + ", as " + options.network + " needs");
  }
  image.height = *options.size;
  image.width = *options.size;
  return image;
}

std::string meta_of(const std::string& network, std::int64_t batch, const keras::Shape& image) {
  // As when the files were made whose digests benchmarks/best_known.json has.
  return R"({"source":"remora generate checkmate","duration_unit":"operation","network":")" + network +
         R"(","batch":)" + std::to_string(batch) + R"(,"height":)" + std::to_string(image.height) + R"(,"width":)" +
         std::to_string(image.width) + "}";
}

}  // namespace

Graph checkmate(const CheckmateOptions& options) {
  check_range("batch", options.batch, 1, 65'536);
  check_range("size", options.size, 32, 4096);
  const keras::Architecture& architecture = architecture_of(options.network);
  const keras::Shape image = image_of(architecture, options);
  const std::int64_t batch = options.batch.value_or(architecture.batch);
  Graph graph = keras::training_graph(architecture.build(image), batch,
                                      options.parameters ? keras::FixedMemory::parameters : keras::FixedMemory::none);
  graph.name = options.network + "-train";
  graph.meta = meta_of(options.network, batch, image);
  return graph;
}

}  // namespace remora::instances
