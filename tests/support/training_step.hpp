// SPDX-License-Identifier: Apache-2.0
//
// A training step built op by op: forward ops, then a loss, then one backward op for each of them in reverse.
//
//     data -> F1 --------> F2 --------> loss -> its value
//              |            |             |             down: what a backward op reads besides gradients, which is
//              v            v             v             the inputs of its forward op, the output, both or neither
//         F1/backward <- F2/backward <- loss/backward   left: gradients
//
// A backward op reads the gradients of its forward op's output, one from each consumer (their sum is part of it), and
// writes one gradient for each input that a forward op produced; if there is none it writes an empty tensor. It takes
// twice as long as its forward op (Jain et al. 2020). Parameters and their gradients are fixed memory. So F forward ops
// make 2 F + 2 ops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/graph.hpp"

namespace remora::test {

/// What a backward op reads besides gradients.
enum class BackwardReads { nothing, inputs, output, both };

/// Bytes of a value, float32.
inline constexpr std::int64_t kValueBytes = 4;

/// A forward op to append.
struct ForwardOp {
  /// The output gets it, too.
  std::string name{};
  std::string type{};
  std::vector<TensorId> inputs{};
  /// Values, not bytes, of the output.
  std::int64_t values = 0;
  /// The duration.
  std::int64_t flops = 0;
  BackwardReads reads = BackwardReads::inputs;
  /// Values, not bytes, of the trained weights.
  std::int64_t parameters = 0;
};

class TrainingStep {
 public:
  /// `family`: for the graph's name.
  explicit TrainingStep(const std::string& family);

  /// An input of the graph. Only before the first op.
  TensorId add_data(std::string name, std::int64_t values);

  /// Returns the op's output.
  TensorId add_forward(ForwardOp op);

  /// Appends the loss and the backward ops, and gives the graph away, validated. The loss is one value, and stays to
  /// the end. Throws InputError where sizes or durations add up to more than 64 bits hold (model/graph.hpp).
  Graph finish(TensorId prediction);

 private:
  void add_loss(TensorId prediction);
  void add_backward(OpId forward, BackwardReads reads);

  Graph graph_;
  std::size_t data_count_ = 0;
  /// Of each forward op.
  std::vector<BackwardReads> reads_;
  /// Of each tensor, what its consumers contribute to its gradient.
  std::vector<std::vector<TensorId>> gradients_;
};

}  // namespace remora::test
