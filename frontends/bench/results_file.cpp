// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/results_file.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "frontends/formats/file.hpp"
#include "model/error.hpp"

namespace remora::bench {

ResultsFile::ResultsFile(std::string path) : path_(std::move(path)) {
  if (!std::filesystem::exists(path_)) return;
  std::string content = json::read_file(path_);
  const auto whole = content.rfind('\n') + 1;  // 0 where there is no line
  if (whole < content.size()) {
    content.resize(whole);
    std::filesystem::resize_file(path_, whole);
  }
  std::istringstream lines(content);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    try {
      const Result result = from_line(line);
      results_.insert_or_assign(result.key, result);
    } catch (const InputError& error) {
      throw InputError(path_ + ":" + std::to_string(number), error.what());
    }
  }
}

const Result* ResultsFile::find(const RunKey& key) const {
  const auto at = results_.find(key);
  return at == results_.end() ? nullptr : &at->second;
}

void ResultsFile::add(const Result& result) {
  std::ofstream file(path_, std::ios::app);
  file << to_line(result) << std::endl;
  if (!file) throw InputError(path_, "cannot be written");
  results_.insert_or_assign(result.key, result);
}

}  // namespace remora::bench
