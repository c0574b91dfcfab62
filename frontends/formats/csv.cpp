// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/csv.hpp"

#include <algorithm>

#include "model/error.hpp"

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
