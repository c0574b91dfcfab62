// SPDX-License-Identifier: Apache-2.0
//
// Writing JSON text key by key, in the layout of our files: `{"name": "a", "size": 1}`.
//
// The library's own writer lays out a whole document in one way; ours puts one tensor, op or step a line. Text grows in
// a string of the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace remora::json {

/// `text` as a JSON string. Throws InputError if it is not UTF-8.
void append_string(std::string& out, std::string_view text);

/// The shortest decimal that reads back as the same double. Not finite: `null`, JSON has no word for it.
void append_number(std::string& out, double value);

/// The same as a text of its own.
std::string number_text(double value);

/// The members of one object: from its `{`, written by the constructor, to its `}`, written by close.
class ObjectText {
 public:
  /// `separator` stands between members: ", " for one line; ",\n" and an indentation for a line each. In the latter
  /// case a line also begins after the brace and before the closing one (which is indented by two less).
  explicit ObjectText(std::string& out, std::string_view separator = ", ");

  /// Starts a member whose value the caller appends.
  void key(std::string_view name);

  void string(std::string_view name, std::string_view value);
  void integer(std::string_view name, std::int64_t value);
  void unsigned_integer(std::string_view name, std::uint64_t value);
  void number(std::string_view name, double value);
  void boolean(std::string_view name, bool value);
  void null(std::string_view name);

  void strings(std::string_view name, std::span<const std::string> values) {
    names(name, values, [](const std::string& value) -> const std::string& { return value; });
  }

  /// A list of the names of `ids`; `name_of(id)` is a string.
  template <class Ids, class NameOf>
  void names(std::string_view name, const Ids& ids, const NameOf& name_of) {
    key(name);
    out_ += '[';
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i > 0) out_ += ", ";
      append_string(out_, name_of(ids[i]));
    }
    out_ += ']';
  }

  /// The members of the JSON object `members` (text; empty for none). Throws InputError if it is no object or has one
  /// of the `reserved` keys.
  void splice(const std::string& members, std::span<const std::string_view> reserved);

  void close();

 private:
  std::string& out_;
  std::string_view separator_;
  bool multiline_;
  bool first_ = true;
};

/// A list without blanks, for what programs read: from its `[`, written by the constructor, to its `]`, written by close.
class ListText {
 public:
  explicit ListText(std::string& out) : out_(out) { out_ += '['; }
  void add(std::int64_t value) {
    separate();
    out_ += std::to_string(value);
  }
  void add(std::string_view text) {
    separate();
    append_string(out_, text);
  }
  void add_number(double value) {
    separate();
    append_number(out_, value);
  }
  /// The caller appends the entry.
  void separate() {
    if (!first_) out_ += ',';
    first_ = false;
  }
  void close() { out_ += ']'; }

 private:
  std::string& out_;
  bool first_ = true;
};

/// The member `key`: of each element of `row` what `of` makes of it, without blanks.
template <class Row, class Of>
void append_row(ObjectText& object, std::string& out, std::string_view key, const Row& row, const Of& of) {
  object.key(key);
  ListText list(out);
  for (const auto& element : row) list.add(of(element));
  list.close();
}

/// Appends `[`, one line for each of the `count` entries (made by `append(i)`, two further in than `indentation`), `]`.
template <class Append>
void append_lines(std::string& out, std::size_t indentation, std::size_t count, const Append& append) {
  out += '[';
  for (std::size_t i = 0; i < count; ++i) {
    out += i == 0 ? "\n" : ",\n";
    out.append(indentation + 2, ' ');
    append(i);
  }
  if (count > 0) out.append(1, '\n').append(indentation, ' ');
  out += ']';
}

}  // namespace remora::json
