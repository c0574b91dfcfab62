// SPDX-License-Identifier: Apache-2.0
#include "frontends/text/text.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <locale>
#include <sstream>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/ioctl.h>

#include "model/budget.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

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

std::string visible(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F)
      result += printable(text.substr(i, 1));
    else
      result += text[i];
  }
  return result;
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

/// A stream's end that is a string. That of std::ostringstream copies long texts several times as it grows.
class StringEnd : public std::streambuf {
 public:
  [[nodiscard]] std::string take() { return std::move(text_); }

 protected:
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    text_.append(text, static_cast<std::size_t>(count));
    return count;
  }
  int_type overflow(int_type character) override {
    if (!traits_type::eq_int_type(character, traits_type::eof())) text_ += traits_type::to_char_type(character);
    return traits_type::not_eof(character);
  }

 private:
  std::string text_;
};

}  // namespace

std::string written(const std::function<void(std::ostream&)>& write) {
  StringEnd end;
  std::ostream out(&end);
  out.imbue(std::locale::classic());
  // Memory that runs out is not to end in half a text.
  out.exceptions(std::ios::badbit);
  write(out);
  return end.take();
}

std::string fixed(double value, int digits) {
  constexpr std::size_t kMaxDigits = 400;  // of the greatest double, and some after the point
  std::array<char, kMaxDigits> buffer{};
  char* const last = buffer.data() + buffer.size();
  return {buffer.data(), std::to_chars(buffer.data(), last, value, std::chars_format::fixed, digits).ptr};
}

std::string bytes_text(Bytes bytes) {
  constexpr std::array kNames{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes.count());
  std::size_t unit = 0;
  for (; std::abs(value) >= 1024 && unit + 1 < kNames.size(); ++unit) value /= 1024;
  return fixed(value, unit == 0 ? 0 : 2) + " " + kNames[unit];
}

namespace {

std::string number_of_bytes(Bytes bytes) {
  return std::to_string(bytes.count()) + (bytes == Bytes(1) ? " byte" : " bytes");
}

}  // namespace

std::string exact_bytes_text(Bytes bytes) {
  return bytes_text(bytes) + " (" + number_of_bytes(bytes) + ")";
}

std::string duration_text(Duration duration, const std::string& unit) {
  if (unit != "ns") {
    // A word has a plural ("2 operations"), an abbreviation has none ("2 flop").
    constexpr std::size_t kShortestWord = 5;
    const bool adds_s = unit.size() >= kShortestWord && !unit.ends_with('s') && duration != Duration(1);
    return grouped(duration.count()) + (unit.empty() ? "" : " ") + unit + (adds_s ? "s" : "");
  }
  constexpr std::array kNames{"ns", "us", "ms", "s"};
  auto value = static_cast<double>(duration.count());
  std::size_t name = 0;
  for (; value >= 1000 && name + 1 < kNames.size(); ++name) value /= 1000;
  return fixed(value, name == 0 ? 0 : 2) + " " + kNames[name];
}

namespace {

/// Null where the graph's meta says nothing of it.
nlohmann::json meta_of(const Graph& graph, const char* key) {
  const auto meta = nlohmann::json::parse(graph.meta, nullptr, false);
  return meta.is_object() && meta.contains(key) ? meta[key] : nlohmann::json();
}

}  // namespace

std::string duration_unit_of(const Graph& graph) {
  const nlohmann::json unit = meta_of(graph, "duration_unit");
  return unit.is_string() ? unit.get<std::string>() : "";
}

std::int64_t unknown_tensors_of(const Graph& graph) {
  const nlohmann::json count = meta_of(graph, "unknown_tensors");
  return count.is_number_integer() ? count.get<std::int64_t>() : 0;
}

std::string percent_text(double part, int digits) {
  return fixed(100.0 * part, digits) + " %";
}

std::string part_of_peak_text(Bytes amount, Bytes fixed, Bytes peak, Bytes placed) {
  if (amount < fixed) return bytes_text(fixed - amount) + " less than the fixed memory of " + bytes_text(fixed);
  const bool is_placed = placed > Bytes(0);
  const std::string percent = percent_text(part_of_peak(amount, fixed, is_placed ? placed : peak), 1);
  const std::string whole = is_placed ? "the arena" : "the peak";
  if (fixed == Bytes(0)) return percent + " of " + whole;
  return bytes_text(fixed) + " fixed + " + percent + " of the rest of " + whole;
}

std::string budget_text(Bytes amount, Bytes fixed, Bytes peak, Bytes placed) {
  const std::string part = peak > fixed ? ", " + part_of_peak_text(amount, fixed, peak, placed) : "";
  return bytes_text(amount) + " (" + number_of_bytes(amount) + part + ")";
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

std::string wrapped_lines(const std::string& text, std::size_t label, int width) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const bool fits = line.size() <= static_cast<std::size_t>(width) || line.front() == ' ';
    out += fits ? line
                : line.substr(0, label) + wrapped(line.substr(label), label, label, static_cast<std::size_t>(width));
    out += "\n";
  }
  return out;
}

int terminal_width(int descriptor, int otherwise) {
  constexpr int kNarrowest = 60;
  constexpr int kWidest = 180;
  int columns = 0;
  if (const char* const wish = std::getenv("COLUMNS")) {
    static_cast<void>(std::from_chars(wish, wish + std::strlen(wish), columns));
  }
  winsize size{};
  if (columns <= 0 && ioctl(descriptor, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return columns > 0 ? std::clamp(columns, kNarrowest, kWidest) : otherwise;
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

std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kLongestWord = 64;
  if (word.size() > kLongestWord) return "";
  // A word that one candidate alone begins with, is short for it.
  const auto is_longer = [&](const std::string& candidate) { return candidate.starts_with(word); };
  constexpr std::size_t kShortest = 3;
  if (word.size() >= kShortest && std::count_if(candidates.begin(), candidates.end(), is_longer) == 1) {
    return *std::find_if(candidates.begin(), candidates.end(), is_longer);
  }
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

namespace {

constexpr std::size_t kBlock = 64;

/// FIPS 180-4, section 4.2.2: of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, kBlock> kConstants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// Section 5.3.3: of the square roots of the first 8 primes.
using State = std::array<std::uint32_t, 8>;
constexpr State kInitial{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

std::uint32_t big_endian(const char* bytes) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8U | static_cast<unsigned char>(bytes[i]);
  return word;
}

/// Section 6.2.2, of the 64 bytes at `block`.
void digest_block(const char* block, State& state) {
  std::array<std::uint32_t, kBlock> words{};
  for (std::size_t t = 0; t < 16; ++t) words[t] = big_endian(block + 4 * t);
  for (std::size_t t = 16; t < kBlock; ++t) {
    const std::uint32_t early = words[t - 15];
    const std::uint32_t late = words[t - 2];
    words[t] = words[t - 16] + words[t - 7] + (std::rotr(early, 7) ^ std::rotr(early, 18) ^ early >> 3U) +
               (std::rotr(late, 17) ^ std::rotr(late, 19) ^ late >> 10U);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < kBlock; ++t) {
    const std::uint32_t first =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kConstants[t] + words[t];
    const std::uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const State added{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

/// The bytes after the last whole block: its rest, a bit, and the length in bits (section 5.1.1).
std::string padded_end(std::string_view bytes) {
  std::string end(bytes.substr(bytes.size() / kBlock * kBlock));
  end += '\x80';
  while (end.size() % kBlock != kBlock - 8) end += '\0';
  const std::uint64_t bits = std::uint64_t{bytes.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8) end += static_cast<char>(bits >> static_cast<unsigned>(shift) & 255U);
  return end;
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  State state = kInitial;
  for (std::size_t at = 0; at + kBlock <= bytes.size(); at += kBlock) digest_block(bytes.data() + at, state);
  const std::string end = padded_end(bytes);
  for (std::size_t at = 0; at < end.size(); at += kBlock) digest_block(end.data() + at, state);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) text += kDigits[word >> static_cast<unsigned>(shift) & 15U];
  }
  return text;
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
