// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/words.hpp"

namespace remora::bench {

std::vector<std::string> read_words(const json::Node& node, std::string_view key) {
  std::vector<std::string> words;
  if (!node.has(key)) return words;
  const json::Node list = node.at(key);
  list.expect_array();
  words.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) words.push_back(list.element(i).string());
  return words;
}

void replace_all(std::string& text, std::string_view mark, std::string_view value) {
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + value.size())) {
    text.replace(at, mark.size(), value);
  }
}

}  // namespace remora::bench
