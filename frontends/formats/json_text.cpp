// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/json_text.hpp"

#include <algorithm>
#include <cmath>

#include "frontends/formats/document.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::json {
namespace {

void append_escaped(std::string& out, char character) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (character == '"' || character == '\\') {
    out += {'\\', character};
  } else if (character == '\n') {
    out += "\\n";
  } else if (character == '\t') {
    out += "\\t";
  } else {
    const auto code = static_cast<unsigned char>(character);
    out += {'\\', 'u', '0', '0', kDigits[code >> 4], kDigits[code & 15]};
  }
}

}  // namespace

void append_string(std::string& out, std::string_view text) {
  // Nearly all names: files of graphs have millions of them.
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  if (plain) {
    out += '"';
    out += text;
    out += '"';
    return;
  }
  if (!is_utf8(text)) throw InputError("", quote(text) + " is not UTF-8 and cannot stand in a JSON file");
  out += '"';
  for (const char character : text) {
    if (character == '"' || character == '\\' || static_cast<unsigned char>(character) < 0x20) {
      append_escaped(out, character);
    } else {
      out += character;
    }
  }
  out += '"';
}

void append_number(std::string& out, double value) {
  out += number_text(value);
}

std::string number_text(double value) {
  return Document(value).dump();
}

ObjectText::ObjectText(std::string& out, std::string_view separator)
    : out_(out), separator_(separator), multiline_(separator.find('\n') != std::string_view::npos) {
  out_ += '{';
  if (multiline_) out_ += separator_.substr(1);
}

void ObjectText::key(std::string_view name) {
  if (!first_) out_ += separator_;
  first_ = false;
  append_string(out_, name);
  out_ += ": ";
}

void ObjectText::string(std::string_view name, std::string_view value) {
  key(name);
  append_string(out_, value);
}

void ObjectText::integer(std::string_view name, std::int64_t value) {
  key(name);
  out_ += std::to_string(value);
}

void ObjectText::unsigned_integer(std::string_view name, std::uint64_t value) {
  key(name);
  out_ += std::to_string(value);
}

void ObjectText::number(std::string_view name, double value) {
  key(name);
  append_number(out_, value);
}

void ObjectText::boolean(std::string_view name, bool value) {
  key(name);
  out_ += value ? "true" : "false";
}

void ObjectText::null(std::string_view name) {
  key(name);
  out_ += "null";
}

void ObjectText::splice(const std::string& members, std::span<const std::string_view> reserved) {
  if (members.empty()) return;
  const Document document = parse(members);
  Node(document).expect_object();
  for (const auto& [name, value] : document.get_ref<const Document::object_t&>()) {
    if (std::find(reserved.begin(), reserved.end(), name) != reserved.end()) {
      throw InputError("", "the format's own key " + quote(name) + " cannot stand among the unknown keys");
    }
    key(name);
    out_ += value.dump();
  }
}

void ObjectText::close() {
  if (multiline_) out_ += separator_.substr(1, separator_.size() - 3);
  out_ += '}';
}

}  // namespace remora::json
