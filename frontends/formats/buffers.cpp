// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <ostream>
#include <string>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "frontends/formats/interchange.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::interchange {
namespace {

enum class Column { id, lower, upper, end, size, alignment, gaps, offset, other };

constexpr std::array<std::pair<std::string_view, Column>, 12> kColumns{{{"id", Column::id},
                                                                        {"buffer", Column::id},
                                                                        {"buffer_id", Column::id},
                                                                        {"lower", Column::lower},
                                                                        {"begin", Column::lower},
                                                                        {"start", Column::lower},
                                                                        {"upper", Column::upper},
                                                                        {"end", Column::end},
                                                                        {"size", Column::size},
                                                                        {"alignment", Column::alignment},
                                                                        {"gaps", Column::gaps},
                                                                        {"offset", Column::offset}}};

class BufferReader {
 public:
  BufferReader(std::string_view text, const std::string& source) : rows_(text, source) {}

  std::vector<Buffer> read() {
    const auto header = rows_.next();
    if (!header) fail("a table of buffers begins with id,lower,upper,size");
    read_header(*header);
    std::vector<Buffer> buffers;
    std::unordered_set<std::string> ids;
    while (const auto fields = rows_.next()) {
      if (fields->size() != columns_.size()) {
        fail("has " + std::to_string(fields->size()) + " fields, not " + std::to_string(columns_.size()));
      }
      buffers.push_back(read_row(*fields));
      if (!ids.insert(buffers.back().id).second) fail("the id " + quote(buffers.back().id) + " is there twice");
    }
    return buffers;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw InputError(rows_.place(), what); }

  [[nodiscard]] bool has(Column column) const {
    return std::find(columns_.begin(), columns_.end(), column) != columns_.end();
  }

  void read_header(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const auto* const known =
          std::find_if(kColumns.begin(), kColumns.end(), [&](const auto& entry) { return entry.first == name; });
      const Column column = known == kColumns.end() ? Column::other : known->second;
      if (column != Column::other && has(column)) fail("the column " + quote(name) + " is there twice");
      columns_.push_back(column);
    }
    if (has(Column::upper) && has(Column::end)) fail("both \"upper\" and \"end\" say when buffers end");
    if (!has(Column::id) || !has(Column::lower) || !has(Column::size) || !(has(Column::upper) || has(Column::end))) {
      fail("a table of buffers begins with id,lower,upper,size");
    }
  }

  [[nodiscard]] std::int64_t number(std::string_view text, const char* what) const {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return value;
    fail(std::string(what) + " must be a whole number within 64 bits, not " + quote(text));
  }

  /// The time after the last one that is written.
  [[nodiscard]] std::int64_t upper(std::string_view text, const char* what) const {
    const std::int64_t value = number(text, what);
    if (!has(Column::end)) return value;
    if (value == INT64_MAX) fail(std::string(what) + " is too large");
    return value + 1;
  }

  [[nodiscard]] std::vector<Lifespan> gaps(std::string_view text) const {
    std::vector<Lifespan> result;
    while (!text.empty()) {
      const std::string_view gap = text.substr(0, text.find(' '));
      text.remove_prefix(std::min(gap.size() + 1, text.size()));
      if (gap.empty()) continue;
      if (gap.find('@') != std::string_view::npos) {
        fail("the gap " + quote(gap) + " has a window, a part of the buffer that stays alive: that is not supported");
      }
      const auto dash = gap.find('-', 1);
      if (dash == std::string_view::npos) fail("gaps are FROM-TO with blanks between them, not " + quote(gap));
      result.push_back({number(gap.substr(0, dash), "a gap's beginning"), upper(gap.substr(dash + 1), "a gap's end")});
    }
    return result;
  }

  [[nodiscard]] Buffer read_row(const std::vector<std::string>& fields) const {
    Buffer buffer;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::string& field = fields[i];
      switch (columns_[i]) {
        case Column::id:
          buffer.id = field;
          break;
        case Column::lower:
          buffer.lifespan.lower = number(field, "lower");
          break;
        case Column::upper:
          buffer.lifespan.upper = number(field, "upper");
          break;
        case Column::end:
          buffer.lifespan.upper = upper(field, "end");
          break;
        case Column::size:
          buffer.size = Bytes(number(field, "size"));
          break;
        case Column::alignment:
          if (!field.empty()) buffer.alignment = Bytes(number(field, "alignment"));
          break;
        case Column::gaps:
          buffer.gaps = gaps(field);
          break;
        case Column::offset:
          if (!field.empty()) buffer.offset = Bytes(number(field, "offset"));
          break;
        case Column::other:
          break;
      }
    }
    try {
      check_buffers(std::span(&buffer, 1));
    } catch (const InputError& error) {
      fail(error.what());
    }
    return buffer;
  }

  CsvReader rows_;
  std::vector<Column> columns_;
};

}  // namespace

std::vector<Buffer> read_buffers(std::string_view text, const std::string& source) {
  std::vector<Buffer> buffers = BufferReader(text, source).read();
  try {
    check_buffers(buffers);
  } catch (const InputError& error) {
    throw InputError(source, error.what());
  }
  return buffers;
}

void write_buffers(std::ostream& out, std::span<const Buffer> buffers, std::span<const Bytes> offsets) {
  ensure(offsets.empty() || offsets.size() == buffers.size(), "buffers: not as many offsets as buffers");
  const bool aligned =
      std::any_of(buffers.begin(), buffers.end(), [](const Buffer& b) { return b.alignment > Bytes(1); });
  const bool gaps = std::any_of(buffers.begin(), buffers.end(), [](const Buffer& b) { return !b.gaps.empty(); });
  const bool placed = !offsets.empty();
  out << "id,lower,upper,size" << (aligned ? ",alignment" : "") << (gaps ? ",gaps" : "") << (placed ? ",offset" : "")
      << '\n';
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    out << text::csv_field(buffer.id) << ',' << buffer.lifespan.lower << ',' << buffer.lifespan.upper << ','
        << buffer.size.count();
    if (aligned) out << ',' << buffer.alignment.count();
    if (gaps) out << ',';
    for (std::size_t k = 0; k < buffer.gaps.size(); ++k) {
      out << (k > 0 ? " " : "") << buffer.gaps[k].lower << '-' << buffer.gaps[k].upper;
    }
    if (placed) out << ',' << offsets[i].count();
    out << '\n';
  }
}

}  // namespace remora::interchange
