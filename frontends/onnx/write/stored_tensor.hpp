// SPDX-License-Identifier: Apache-2.0
//
// Initializers of models in slices: integers, and parts of those of the model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "frontends/onnx/model/model_proto.hpp"
#include "model/axes.hpp"
#include "model/types.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {

/// An initializer of 64-bit integers.
onnx::TensorProto integer_tensor(const std::string& name, const std::vector<std::int64_t>& shape,
                                 const std::vector<std::int64_t>& elements);

/// The entries of one dimension. Throws InputError for data that is not as long as the shape says, and for elements of
/// a part of a byte or text.
onnx::TensorProto part_of(const onnx::TensorProto& tensor, const std::string& name, std::size_t dim, Range entries);

/// The initializers that slices add to a graph, each once, and those that their parts replace.
class SliceInitializers {
 public:
  SliceInitializers(onnx::GraphProto& graph, FreshNames& fresh) : graph_(graph), fresh_(fresh) {}

  /// The name of a constant of 64-bit integers, by default a list.
  std::string integers(const std::vector<std::int64_t>& elements, std::vector<std::int64_t> shape = {});
  void add(onnx::TensorProto constant);
  /// The name of the entries of one dimension of an initializer, which goes with drop_cut().
  std::string part(const std::string& name, std::size_t dim, Range entries);
  void drop_cut();
  /// Bytes that are there now beyond those of the model.
  [[nodiscard]] Bytes added() const { return added_; }

 private:
  onnx::GraphProto& graph_;
  FreshNames& fresh_;
  std::map<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>, std::string> constants_;
  std::map<std::tuple<std::string, std::size_t, std::int64_t, std::int64_t>, std::string> parts_;
  std::unordered_set<std::string> cut_;
  Bytes added_{};
};

}  // namespace remora::onnx_frontend
