// SPDX-License-Identifier: Apache-2.0
//
// What a task asks, and the key that its result is filed under.
//
// The key is a digest of everything that the answer may depend on and the user decides: the graph's bytes, the budget,
// every option that changes what is asked (defaults written out), and the solver's version. It is not one of the task's
// id, the graph's path, the number of threads or the machine: these say for whom, where and how fast. Two tasks with
// the same key ask the same, and share one result.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "frontends/batch/manifest.hpp"
#include "frontends/formats/document.hpp"

namespace remora::batch {

class Solver;

/// Options as name and value, in a fixed order.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct Question {
  /// Of remora.
  std::string version{};
  std::string graph_sha256{};
  std::string budget{};
  Settings settings{};

  friend bool operator==(const Question&, const Question&) = default;
};

/// The question as JSON, in one line: equal questions have equal texts.
std::string question_text(const Question& question);
/// Throws InputError with the JSON path.
Question read_question(const json::Node& node);

/// 64 hexadecimal digits.
std::string key_of(const Question& question);

/// The name that errors of the task are filed under, for what cannot be read has no key: a digest of its manifest
/// line, so that a line that was mended, or another manifest's, does not meet the error of an older one.
std::string error_name_of(const Task& task);

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
