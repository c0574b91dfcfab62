// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace remora::interchange {

/// Rows of fields as RFC 4180 has them, LF and CRLF both; empty lines are no rows.
class CsvReader {
 public:
  /// Both must outlive this. `source`: the file, for messages; may be empty.
  CsvReader(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  /// The next row; nothing at the end. Throws InputError with the line of a quoted field that is not one.
  std::optional<std::vector<std::string>> next();

  /// Where the last row begins: "costs.csv: line 3".
  [[nodiscard]] std::string place() const { return place_of(line_); }
  [[nodiscard]] int line() const { return line_; }

 private:
  [[nodiscard]] std::string place_of(int line) const;
  void skip();
  std::string read_field();
  std::string read_quoted();

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
  int line_ = 1;
  int next_line_ = 1;
};

}  // namespace remora::interchange
