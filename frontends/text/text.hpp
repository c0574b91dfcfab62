// SPDX-License-Identifier: Apache-2.0
//
// Text that people read, and fields of CSV, for all front ends: the same whatever locale the process or its C++ library has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/graph.hpp"
#include "model/types.hpp"

namespace remora::text {

/// Text that `write` puts into a stream of the classic locale.
std::string written(const std::function<void(std::ostream&)>& write);

/// `text` as one field of a CSV line by RFC 4180: in quotes, and every quote in it twice, where it holds a comma, a
/// quote or the end of a line; otherwise as it is.
std::string csv_field(std::string_view text);

/// `text` with control characters as \xHH: a name out of a file neither ends a line nor changes a terminal.
std::string visible(std::string_view text);

/// Now, UTC, ISO 8601.
std::string now_text();

// Amounts as people read them.

/// "3.20" of 3.2 and two digits: a point and no thousands apart, in every locale.
std::string fixed(double value, int digits);

/// "3.21 GiB".
std::string bytes_text(Bytes bytes);

/// The same and the number: "1.50 KiB (1536 bytes)".
std::string exact_bytes_text(Bytes bytes);

/// "12.3 ms" for nanoseconds, "12,300 flop", "12,300 operations" or plainly "12,300" for other units.
std::string duration_text(Duration duration, const std::string& unit);

/// The graph's `meta.duration_unit`, or "".
std::string duration_unit_of(const Graph& graph);

/// The graph's `meta.unknown_tensors`: of how many of its tensors nobody can say the size; they count as 0 bytes.
std::int64_t unknown_tensors_of(const Graph& graph);

/// 0.0213 -> "2.13 %".
std::string percent_text(double part, int digits = 2);

/// "60.0 % of the peak", or "1.07 GiB fixed + 60.0 % of the rest of the peak": a budget's percentage, which leaves fixed memory out
/// (model/budget.hpp); "5.35 MiB less than the fixed memory of 1.07 GiB". `peak`: of the input order without recompute. `placed`: with
/// addresses, the memory of the input order with its arena, to which percentages refer then: "60.0 % of the arena".
std::string part_of_peak_text(Bytes amount, Bytes fixed, Bytes peak, Bytes placed = {});

/// The amount with both: "1.50 KiB (1536 bytes, 60.0 % of the peak)".
std::string budget_text(Bytes amount, Bytes fixed, Bytes peak, Bytes placed = {});

/// "1,234,567".
std::string grouped(std::int64_t number);

/// `text` written from column `at` of a line on, with line ends between words where `width` columns are full; further lines
/// are indented by `indent`. Ends without a line end.
std::string wrapped(const std::string& text, std::size_t at, std::size_t indent, std::size_t width);

/// Lines that begin with a word of `label` columns, the rest of a long line wrapped beside it. Rows of tables, which begin
/// with a blank, stay. Every line ends with a line end.
std::string wrapped_lines(const std::string& text, std::size_t label, int width);

/// Width by the variable COLUMNS, or else the terminal behind a file descriptor, within 60 and 180; `otherwise` where
/// there is neither.
int terminal_width(int descriptor, int otherwise);

/// The name of an option with dashes, as the command line and MLIR spell it: "time_limit" -> "time-limit".
std::string dashed(std::string name);

/// The candidate that somebody may have meant who typed `word`: the nearest one by edits (Levenshtein; two letters swapped
/// count once), if it takes at most one edit for every three letters; else "".
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// The SHA-256 digest of `bytes` as 64 lower-case hexadecimal digits (FIPS 180-4).
std::string sha256_hex(std::string_view bytes);

}  // namespace remora::text

namespace remora::interchange {

/// Rows of fields as RFC 4180 has them, LF and CRLF both; empty lines are no rows, and a byte order mark is no text.
class CsvReader {
 public:
  /// Both must outlive this. `source`: the file, for messages; may be empty.
  CsvReader(std::string_view text, const std::string& source)
      : text_(text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text), source_(source) {}

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
