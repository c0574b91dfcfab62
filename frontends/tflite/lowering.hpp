// SPDX-License-Identifier: Apache-2.0
//
// From a TFLite model to a graph, as TFLite Micro runs it:
//
//     operator                  an op, in the order of the file
//     inputs of the model       what the first op, "inputs", makes: the arena may use their memory again
//     output of the model       a tensor that is kept
//     constant                  nothing: it stays in the file
//
// A duration is the number of an operator's arithmetic operations, and of the bytes that it reads and writes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/tflite/axes.hpp"
#include "frontends/tflite/model.hpp"
#include "model/graph.hpp"
#include "model/slices.hpp"

namespace remora::tflite {

struct LoweredModel {
  /// Reads the file's bytes, which outlive it.
  Model model;
  Graph graph{};
  /// By op of the graph: the operator; -1 of the first op, which makes the inputs.
  std::vector<std::int32_t> operators{};
  /// By tensor of the graph.
  std::vector<std::int32_t> tensors{};
  /// By op: those of Op::axes.
  std::vector<std::vector<OpAxis>> axes{};
};

/// Reads a model of one subgraph. Sizes are those of the elements, which the arena rounds up. What has an effect beyond
/// its outputs, or makes random numbers, runs once. Throws InputError that names `source` for what read_arena_tensors
/// rejects but a plan, and for operators without outputs.
LoweredModel lower_model(std::string_view bytes, const std::string& source);

/// How slices run: they read copies, and their results are put together from tensors of their own.
SliceRun slice_run();

}  // namespace remora::tflite
