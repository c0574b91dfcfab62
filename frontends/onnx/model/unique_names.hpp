// SPDX-License-Identifier: Apache-2.0
//
// Names that are unique and still show where they came from: the first "conv1" stays, the next becomes "conv1#2".
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace remora::onnx_frontend {

class UniqueNames {
 public:
  /// Keeps `name` for itself: make() never makes it out of another one. Names given by a user are reserved first, so
  /// that a generated name cannot take one of theirs.
  void reserve(const std::string& name) { reserved_.insert(name); }

  /// `wanted`, or `wanted#2`, `wanted#3`, ... if an earlier call returned it already. Amortised constant time.
  std::string make(const std::string& wanted) {
    if (taken_.insert(wanted).second) return wanted;
    int& count = counts_.try_emplace(wanted, 1).first->second;
    for (;;) {
      std::string name = wanted + "#" + std::to_string(++count);
      if (!reserved_.contains(name) && taken_.insert(name).second) return name;
    }
  }

 private:
  std::unordered_set<std::string> reserved_;
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int> counts_;
};

}  // namespace remora::onnx_frontend
