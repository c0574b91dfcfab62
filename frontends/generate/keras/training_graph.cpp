// SPDX-License-Identifier: Apache-2.0
#include "frontends/generate/keras/training_graph.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace remora::generate::keras {
namespace {

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
    const Layer& layer = layers_[static_cast<std::size_t>(id)];
    outputs_[static_cast<std::size_t>(id)] = graph_.add_tensor(layer.name, bytes(layer.figures.output));
    Op op{.name = layer.name,
          .type = layer.type,
          .duration = Duration(batch_ * layer.figures.operations),
          .outputs = {outputs_[static_cast<std::size_t>(id)]},
          .phase = Phase::forward};
    for (const LayerId input : layer.inputs) {
      op.inputs.push_back(outputs_[static_cast<std::size_t>(input)]);
      readers_[static_cast<std::size_t>(input)].push_back(id);
    }
    ops_[static_cast<std::size_t>(id)] = graph_.add_op(std::move(op));
  }

  void add_loss() {
    loss_ = graph_.add_tensor("loss", bytes(Shape{}));
    graph_.add_op({.name = "loss",
                   .type = "Loss",
                   .inputs = {outputs_[static_cast<std::size_t>(order_.back())]},
                   .outputs = {loss_},
                   .phase = Phase::loss});
  }

  void add_backward(LayerId id) {
    const auto at = static_cast<std::size_t>(id);
    const Op forward = graph_.ops[static_cast<std::size_t>(ops_[at])];
    gradients_[at] = graph_.add_tensor(forward.name + "/gradient", bytes(layers_[at].figures.output));
    Op op{.name = forward.name + "/backward",
          .type = forward.type + "Backward",
          .duration = forward.duration + forward.duration,
          .inputs = {outputs_[at]},
          .outputs = {gradients_[at]},
          .phase = Phase::backward,
          .backward_of = ops_[at]};
    if (id == order_.back()) op.inputs.push_back(loss_);
    for (const LayerId reader : readers_[at]) op.inputs.push_back(outputs_[static_cast<std::size_t>(reader)]);
    for (const LayerId reader : readers_[at]) op.inputs.push_back(gradients_[static_cast<std::size_t>(reader)]);
    graph_.add_op(std::move(op));
  }

  const std::vector<Layer>& layers_;
  std::int64_t batch_;
  std::vector<LayerId> order_;
  Graph graph_{};
  /// Of each layer: its output, the gradient of that, its op, and the layers that read it.
  std::vector<TensorId> outputs_;
  std::vector<TensorId> gradients_;
  std::vector<OpId> ops_;
  std::vector<std::vector<LayerId>> readers_;
  TensorId loss_{};
};

/// The parameters, and the gradients of those that are trained.
Bytes parameter_bytes(const std::vector<Layer>& layers) {
  std::int64_t values = 0;
  for (const Layer& layer : layers) values += layer.figures.parameters + layer.figures.trained_parameters;
  return Bytes(kValueBytes * values);
}

}  // namespace

Graph training_graph(const LayerGraph& layers, std::int64_t batch, FixedMemory fixed) {
  Graph graph = TrainingGraphBuilder(layers, batch).build();
  if (fixed == FixedMemory::parameters) graph.fixed_memory = parameter_bytes(layers.layers());
  validate(graph);
  return graph;
}

}  // namespace remora::generate::keras
