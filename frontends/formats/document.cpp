// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/document.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::json {
namespace {

constexpr int kNumberOverflow = 406;  // the library's number for a value beyond the range of a double
constexpr std::size_t kTokenShown = 30;
constexpr std::size_t kLevelsShown = 12;

/// "line 3, column 14" of the byte at `offset`; columns count characters.
std::string line_and_column(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t newline = before.rfind('\n');
  const std::string_view row = newline == std::string_view::npos ? before : before.substr(newline + 1);
  const auto column =
      1 + std::count_if(row.begin(), row.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

/// The library's reason without its frame: of "[json.exception…] parse error at line 1, column 2: syntax error while
/// parsing value - invalid literal; last read: 'x'" only "invalid literal".
std::string reason(std::string_view what) {
  constexpr std::string_view kDash = " - ";
  const std::size_t dash = what.find(kDash);
  if (dash == std::string_view::npos) return "syntax error";
  what.remove_prefix(dash + kDash.size());
  what = what.substr(0, what.find("; last read"));
  return std::string(what.substr(0, what.find("; expected")));
}

/// Builds the document from the library's events. Values of open containers wait on one stack and move into their
/// container when it closes: a container is allocated once, in its final size.
class Builder final : public nlohmann::json_sax<Document> {
 public:
  explicit Builder(std::string_view text) : text_(text) {}

  Document take() { return std::move(values_.front()); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in JSON text

  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }

  bool key(string_t& name) override {
    keys_.push_back(std::move(name));
    return true;
  }

  bool end_object() override {
    const Container closing = open_.back();
    refuse_repeated_key(closing);
    Document::object_t object;
    const auto count = static_cast<std::ptrdiff_t>(values_.size() - closing.first_value);
    object.reserve(static_cast<std::size_t>(count));
    for (std::ptrdiff_t i = count; i > 0; --i) {
      object.emplace_back(std::move(*(keys_.end() - i)), std::move(*(values_.end() - i)));
    }
    keys_.erase(keys_.end() - count, keys_.end());
    return close(std::move(object));
  }

  bool end_array() override {
    const auto first = values_.begin() + static_cast<std::ptrdiff_t>(open_.back().first_value);
    return close(Document::array_t(std::make_move_iterator(first), std::make_move_iterator(values_.end())));
  }

  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception& error) override {
    if (error.id == kNumberOverflow) throw InputError(path(), "the number " + quote(token) + " is too large");
    if (position > text_.size()) {
      throw InputError(line_and_column(text_, text_.size()), "not JSON: the text ends too early");
    }
    const std::size_t cut = token.size() > kTokenShown ? token.size() - kTokenShown : 0;
    throw InputError(line_and_column(text_, position == 0 ? 0 : position - 1),
                     "not JSON: " + reason(error.what()) + " near " + quote(token.substr(cut)));
  }

 private:
  struct Container {
    bool is_object;
    std::size_t first_value;
    std::size_t first_key;
  };

  template <class Value>
  bool add(Value&& value) {
    values_.emplace_back(std::forward<Value>(value));
    return true;
  }

  bool open(bool is_object) {
    if (open_.size() == kDeepest) {
      throw InputError(path(), "nested deeper than " + std::to_string(kDeepest) + " levels");
    }
    open_.push_back({.is_object = is_object, .first_value = values_.size(), .first_key = keys_.size()});
    return true;
  }

  template <class Contents>
  bool close(Contents contents) {
    values_.resize(open_.back().first_value);
    open_.pop_back();
    return add(std::move(contents));
  }

  void refuse_repeated_key(const Container& object) {
    sorted_keys_.assign(keys_.begin() + static_cast<std::ptrdiff_t>(object.first_key), keys_.end());
    std::sort(sorted_keys_.begin(), sorted_keys_.end());
    const auto twice = std::adjacent_find(sorted_keys_.begin(), sorted_keys_.end());
    if (twice == sorted_keys_.end()) return;
    throw InputError(path(open_.size() - 1) + path_step(*twice),
                     "the key " + quote(*twice) + " stands twice in one object");
  }

  /// The path of the value that comes next; of a very deep one the beginning.
  [[nodiscard]] std::string path() const { return path(open_.size()); }

  /// The path through the outermost `levels` open containers.
  [[nodiscard]] std::string path(std::size_t levels) const {
    std::string result = "$";
    for (std::size_t level = 0; level < levels; ++level) {
      if (level == kLevelsShown) return result + "...";
      const bool innermost = level + 1 == open_.size();
      const std::size_t next_value = innermost ? values_.size() : open_[level + 1].first_value;
      const std::size_t next_key = innermost ? keys_.size() : open_[level + 1].first_key;
      const Container& container = open_[level];
      result += container.is_object ? path_step(keys_[next_key - 1]) : path_step(next_value - container.first_value);
    }
    return result;
  }

  std::string_view text_;
  std::vector<Container> open_;
  std::vector<Document> values_;
  std::vector<std::string> keys_;
  std::vector<std::string_view> sorted_keys_;
};

}  // namespace

Document parse(std::string_view text) {
  if (text.empty()) throw InputError("", "the text is empty, not JSON");
  Builder builder(text);
  Document::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

Document parse_or_discard(std::string_view text) {
  return Document::parse(text, nullptr, false);
}

std::string dump(const Document& value, int indent) {
  return value.dump(indent, ' ', false, Document::error_handler_t::replace);
}

namespace {

constexpr std::size_t kLongestWord = 80;

bool is_word(std::string_view key) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !key.empty() && !digit(key.front()) &&
         std::all_of(key.begin(), key.end(), [&](char c) { return letter(c) || digit(c); });
}

/// `value` for a message: a number, word or string as it stands in the file, cut where long; "an array".
std::string describe(const Document& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  return value.dump();
}

}  // namespace

std::string path_step(std::string_view key) {
  std::string step;
  if (is_word(key) && key.size() <= kLongestWord) return step.append(".").append(key);
  return step.append("[").append(quote(key)).append("]");
}

std::string path_step(std::size_t index) {
  return std::string().append("[").append(std::to_string(index)).append("]");
}

std::string Node::path() const {
  std::vector<const Node*> way;
  for (const Node* node = this; node->parent_ != nullptr; node = node->parent_) way.push_back(node);
  std::string result = "$";
  for (auto node = way.rbegin(); node != way.rend(); ++node) {
    const bool in_array = (*node)->parent_->value_->is_array();
    result += in_array ? path_step((*node)->index_) : path_step((*node)->key_);
  }
  return result;
}

void Node::fail(const std::string& what) const {
  throw InputError(path(), what);
}

void Node::expect_object() const {
  if (!value_->is_object()) fail("must be an object, not " + describe(*value_));
}

void Node::expect_array() const {
  if (!value_->is_array()) fail("must be an array, not " + describe(*value_));
}

const Document* Node::lookup(std::string_view key) const {
  const auto entry = value_->find(key);
  return entry == value_->end() ? nullptr : &*entry;
}

Node Node::at(std::string_view key) const& {
  const Document* const found = lookup(key);
  if (found == nullptr) fail("the key " + quote(key) + " is missing");
  return {*found, *this, key, 0};
}

Node Node::element(std::size_t i) const& {
  return {(*value_)[i], *this, {}, i};
}

std::int64_t Node::integer(std::int64_t least, std::int64_t most) const {
  const auto too_small = [&] {
    const std::string bound = least == 0 ? "must not be negative" : "must be at least " + std::to_string(least);
    fail(bound + ", but is " + describe(*value_));
  };
  const auto too_large = [&] {
    fail("the number " + describe(*value_) + " is too large (at most " + std::to_string(most) + ")");
  };
  if (value_->is_number_unsigned()) {
    const auto number = value_->get<std::uint64_t>();
    if (most < 0 || number > static_cast<std::uint64_t>(most)) too_large();
    if (least > 0 && number < static_cast<std::uint64_t>(least)) too_small();
  } else if (value_->is_number_float()) {
    // The library reads integers beyond 64 bits as floating point.
    const auto number = value_->get<double>();
    if (number < static_cast<double>(least)) too_small();
    if (number >= std::ldexp(1.0, 63)) too_large();
    fail("must be an integer, written without fraction and exponent, not " + describe(*value_));
  } else if (!value_->is_number()) {
    fail("must be an integer, not " + describe(*value_));
  } else if (value_->get<std::int64_t>() < least) {
    too_small();
  } else if (value_->get<std::int64_t>() > most) {
    too_large();
  }
  return value_->get<std::int64_t>();
}

std::uint64_t Node::unsigned_integer() const {
  if (!value_->is_number_unsigned()) fail("must be an integer from 0 to 2^64 - 1, not " + describe(*value_));
  return value_->get<std::uint64_t>();
}

double Node::number() const {
  if (!value_->is_number()) fail("must be a number, not " + describe(*value_));
  return value_->get<double>();
}

bool Node::boolean() const {
  if (!value_->is_boolean()) fail("must be true or false, not " + describe(*value_));
  return value_->get<bool>();
}

const std::string& Node::string() const {
  if (!value_->is_string()) fail("must be a string, not " + describe(*value_));
  return value_->get_ref<const std::string&>();
}

std::vector<std::pair<std::string, double>> Node::numbers() const {
  expect_object();
  std::vector<std::pair<std::string, double>> members;
  members.reserve(size());
  for (const auto& [key, value] : value_->get_ref<const Document::object_t&>()) {
    members.emplace_back(key, at(key).number());
  }
  return members;
}

std::vector<std::string> strings(const Node& node, std::string_view key) {
  std::vector<std::string> found;
  if (!node.has(key)) return found;
  const Node array = node.at(key);
  array.expect_array();
  found.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) found.push_back(array.element(i).string());
  return found;
}

std::string Node::unknown_keys(std::span<const std::string_view> known) const {
  std::string text;
  for (const auto& [key, value] : value_->get_ref<const Document::object_t&>()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    text.append(text.empty() ? "{" : ",").append(Document(key).dump()).append(":").append(value.dump());
  }
  return text.empty() ? text : text + "}";
}

bool calls_itself(std::string_view text, std::string_view format) {
  if (text.find(format) == std::string_view::npos) return false;
  const Document document = parse_or_discard(text);
  return document.is_object() && document.contains("format") && document["format"] == format;
}

std::int64_t expect_format(const Node& root, std::string_view format, std::int64_t latest) {
  root.expect_object();
  const Node name = root.at("format");
  if (name.string() != format) name.fail("must be " + quote(format) + ", not " + quote(name.string()));
  const Node version = root.at("version");
  if (version.integer() < 1 || version.integer() > latest) {
    const std::string known = latest == 1 ? "version 1" : "versions 1 to " + std::to_string(latest);
    version.fail("version " + std::to_string(version.integer()) + " is not supported, only " + known);
  }
  return version.integer();
}

}  // namespace remora::json
