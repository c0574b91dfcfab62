// SPDX-License-Identifier: Apache-2.0
//
// results.jsonl: one result a line, added as it comes, so that nothing is lost when a benchmark is stopped.
#pragma once

#include <map>
#include <string>

#include "frontends/bench/result.hpp"

namespace remora::bench {

class ResultsFile {
 public:
  /// Reads what is there; of two lines with one key the later counts. A last line without its end was cut off while it
  /// was written, and is dropped from the file. Throws InputError with file and line for anything else that is no
  /// result.
  explicit ResultsFile(std::string path);

  /// Null if there is none.
  [[nodiscard]] const Result* find(const RunKey& key) const;
  /// Adds a line. Throws InputError if it cannot be written.
  void add(const Result& result);

 private:
  std::string path_;
  std::map<RunKey, Result> results_{};
};

}  // namespace remora::bench
