// SPDX-License-Identifier: Apache-2.0
//
// What else changes in a node that computes a slice: padding, the number of groups, an extent that it states, a bias.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "frontends/onnx/loops/writable_axes.hpp"
#include "frontends/onnx/model/network.hpp"
#include "onnx/onnx_pb.h"

namespace remora::onnx_frontend {

struct NodeSlice {
  const Network& network;
  const Node& node;
  const WritableAxis& axis;
  Range iterations{};
  int slice = 0;
};

/// `copy`: of the node, with the slice's inputs. `constant` gives the name of a list of integers.
void make_slice(const NodeSlice& slice, const std::function<std::string(const std::vector<std::int64_t>&)>& constant,
                onnx::NodeProto& copy);

}  // namespace remora::onnx_frontend
