// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "frontends/batch/solver.hpp"

namespace remora::batch {

/// Makes questions of tasks. A file is read for its digest once, and not at all where the manifest states it.
class Asking {
 public:
  explicit Asking(Solver& solver) : solver_(solver) {}

  /// Throws InputError for a graph, or another file, that cannot be read.
  Question question_of(const Task& task);
  /// Throws InputError if the graph file is not the one that the manifest states.
  void check_digest(const Task& task);

 private:
  const std::string& digest_of(const std::string& path);

  Solver& solver_;
  std::map<std::string, std::string> digests_{};
};

}  // namespace remora::batch
