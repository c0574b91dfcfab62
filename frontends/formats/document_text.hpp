// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace remora::json {

/// The text of a JSON document, which the readers take. A type of its own, so that no file's name passes for it:
///
///     json::read_graph(json::Text(json::read_file("graph.json")))   reads the file
///     json::read_graph("graph.json")                                does not compile
///
/// It holds no copy: the text must outlive it, as a temporary does to the end of its expression.
class Text {
 public:
  explicit constexpr Text(std::string_view text) : text_(text) {}
  [[nodiscard]] constexpr std::string_view view() const { return text_; }

 private:
  std::string_view text_;
};

}  // namespace remora::json
