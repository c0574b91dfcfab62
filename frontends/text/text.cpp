// SPDX-License-Identifier: Apache-2.0
#include "frontends/text/text.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/ioctl.h>

#include "model/budget.hpp"
#include "model/error.hpp"

namespace remora::text {

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char character : text) {
    if (character == '"') field += '"';
    field += character;
  }
  return field + '"';
}

std::string now_text() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

namespace {

std::string print(const char* format, double value) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return buffer.data();
}

}  // namespace

std::string bytes_text(Bytes bytes) {
  constexpr std::array kNames{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes.count());
  std::size_t unit = 0;
  for (; std::abs(value) >= 1024 && unit + 1 < kNames.size(); ++unit) value /= 1024;
  return print(unit == 0 ? "%.0f " : "%.2f ", value) + kNames[unit];
}

std::string exact_bytes_text(Bytes bytes) {
  return bytes_text(bytes) + " (" + std::to_string(bytes.count()) + " bytes)";
}

std::string duration_text(Duration duration, const std::string& unit) {
  if (unit != "ns") return grouped(duration.count()) + (unit.empty() ? "" : " ") + unit;
  constexpr std::array kNames{"ns", "us", "ms", "s"};
  auto value = static_cast<double>(duration.count());
  std::size_t name = 0;
  for (; value >= 1000 && name + 1 < kNames.size(); ++name) value /= 1000;
  return print(name == 0 ? "%.0f " : "%.2f ", value) + kNames[name];
}

std::string duration_unit_of(const Graph& graph) {
  const auto meta = nlohmann::json::parse(graph.meta, nullptr, false);
  if (!meta.is_object()) return "";
  const auto unit = meta.find("duration_unit");
  return unit != meta.end() && unit->is_string() ? unit->get<std::string>() : "";
}

std::string percent_text(double part, int digits) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f %%", digits, 100.0 * part);
  return buffer.data();
}

std::string part_of_peak_text(Bytes amount, Bytes fixed, Bytes peak) {
  std::string text = percent_text(part_of_peak(amount, fixed, peak), 1) + " of the peak";
  if (fixed > Bytes(0)) text += " above " + bytes_text(fixed) + " fixed";
  return text;
}

std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::ptrdiff_t first = number < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > first; at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return text;
}

std::string wrapped(const std::string& text, std::size_t at, std::size_t indent, std::size_t width) {
  std::istringstream words(text);
  std::string lines;
  for (std::string word; words >> word;) {
    const bool is_first = lines.empty();
    if (!is_first && at + 1 + word.size() > width) {
      lines += "\n" + std::string(indent, ' ') + word;
      at = indent + word.size();
    } else {
      lines += (is_first ? "" : " ") + word;
      at += word.size() + (is_first ? 0 : 1);
    }
  }
  return lines;
}

int terminal_width(int descriptor, int otherwise) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return otherwise;
  return std::clamp(static_cast<int>(size.ws_col), 60, 180);
}

namespace {

/// Edits from one word to the other: letters put in, left out, changed, or two neighbours swapped.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before;
  std::vector<std::size_t> last;
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    before = std::move(last);
    last = std::move(row);
    row.assign(to.size() + 1, i);
    for (std::size_t j = 1; j <= to.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (from[i - 1] == to[j - 1] ? 0U : 1U)});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kLongestWord = 64;
  if (word.size() > kLongestWord) return "";
  std::string best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t edits = distance(word, candidate);
    if (edits >= least) continue;
    least = edits;
    best = candidate;
  }
  return best;
}

}  // namespace remora::text

namespace remora::interchange {

std::string CsvReader::place_of(int line) const {
  return (source_.empty() ? "" : source_ + ": ") + "line " + std::to_string(line);
}

std::optional<std::vector<std::string>> CsvReader::next() {
  while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) skip();
  if (at_ >= text_.size()) return std::nullopt;
  line_ = next_line_;
  std::vector<std::string> fields{read_field()};
  while (at_ < text_.size() && text_[at_] == ',') {
    ++at_;
    fields.push_back(read_field());
  }
  return fields;
}

void CsvReader::skip() {
  if (text_[at_++] == '\n') ++next_line_;
}

std::string CsvReader::read_field() {
  if (at_ < text_.size() && text_[at_] == '"') return read_quoted();
  const auto end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
  std::string field(text_.substr(at_, end - at_));
  at_ = end;
  return field;
}

std::string CsvReader::read_quoted() {
  std::string field;
  for (++at_; at_ < text_.size();) {
    if (text_[at_] == '"') {
      if (text_.substr(at_, 2) != "\"\"") break;
      ++at_;
    }
    field += text_[at_];
    skip();
  }
  if (at_ >= text_.size()) throw InputError(place_of(line_), "a quoted field has no end");
  ++at_;
  if (at_ < text_.size() && text_.find_first_of(",\r\n", at_) != at_) {
    throw InputError(place_of(next_line_), "text after a quoted field");
  }
  return field;
}

}  // namespace remora::interchange
