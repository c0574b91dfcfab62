// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "frontends/cli/commands/command.hpp"

namespace remora::cli::test {

struct Outcome {
  int code = -1;
  std::string out{};
  std::string err{};
};

/// Runs `remora` in this process with these words, which stand between single spaces.
inline Outcome run_words(const std::string& text) {
  Words words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.push_back(word);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = run_remora(words);
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

}  // namespace remora::cli::test
