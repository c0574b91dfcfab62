// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "frontends/batch/manifest.hpp"
#include "frontends/batch/question.hpp"
#include "frontends/batch/record.hpp"

namespace remora::batch {

/// What an interrupted run of the same question came to.
struct Begun {
  std::string schedule{};
  double seconds = 0;
  std::int64_t work = 0;
};

struct Request {
  const Task& task;
  /// Of the graph file that is to be solved.
  const std::string& graph_sha256;
  const std::optional<Begun>& begun;
};

struct Answer {
  /// As in Record.
  std::string status{};
  std::string schedule{};
  /// Of this run.
  double seconds = 0;
  std::int64_t work = 0;
  std::int64_t threads = 0;
};

/// How tasks are solved. One lives through all tasks of a batch, so what tasks may share is its own.
class Solver {
 public:
  virtual ~Solver() = default;

  /// Everything that changes what the task asks, but for graph and budget. Throws for a file that cannot be read.
  virtual Settings settings(const Task& task) = 0;
  /// Solves it, or goes on with what was begun. Nothing if it was cancelled before it had begun. Throws std::exception
  /// for what cannot be solved.
  virtual std::optional<Answer> solve(const Request& request) = 0;
};

}  // namespace remora::batch
