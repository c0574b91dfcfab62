// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace remora::cli::test {

/// The text of a graph over a GPU and a store: a chain of layers, and the way back that reads each layer's tensor once more. Each tensor
/// has 4 bytes, each run takes 5, each copy 3.
inline std::string device_chain(int layers) {
  std::string tensors;
  std::string ops;
  std::string before;
  const auto add = [&](const std::string& name, const std::string& more, bool keep) {
    const std::string separator = tensors.empty() ? "" : ", ";
    tensors += separator + R"({"name": ")" + name + R"(", "size": 4)" + (keep ? R"(, "keep": true})" : "}");
    const std::string inputs = before.empty() ? "" : "\"" + before + "\"" + more;
    ops += separator + R"({"name": "run-)" + name + R"(", "duration": 5, "energy": 2, "inputs": [)" + inputs +
           R"(], "outputs": [")" + name + R"("]})";
    before = name;
  };
  for (int i = 0; i < layers; ++i) add("a" + std::to_string(i), "", false);
  for (int i = layers - 1; i-- > 0;) add("g" + std::to_string(i), ", \"a" + std::to_string(i) + "\"", i == 0);
  return R"({"format": "remora-graph", "version": 2, "name": "chain", "devices": [{"name": "gpu", "fixed_memory": 3}, {"name": "host"}],
 "links": [{"from": "gpu", "to": "host", "latency": 1, "bytes": 2, "per": 1, "energy": 1},
           {"from": "host", "to": "gpu", "latency": 1, "bytes": 2, "per": 1, "energy": 1}],
 "tensors": [)" +
         tensors + R"(], "ops": [)" + ops + "]}";
}

}  // namespace remora::cli::test
