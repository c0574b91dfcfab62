// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/document.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::json {
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

std::string Node::unknown_keys(std::span<const std::string_view> known) const {
  std::string text;
  for (const auto& [key, value] : value_->get_ref<const Document::object_t&>()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    text.append(text.empty() ? "{" : ",").append(Document(key).dump()).append(":").append(value.dump());
  }
  return text.empty() ? text : text + "}";
}

void expect_format(const Node& root, std::string_view format) {
  root.expect_object();
  const Node name = root.at("format");
  if (name.string() != format) name.fail("must be " + quote(format) + ", not " + quote(name.string()));
  const Node version = root.at("version");
  if (version.integer() != 1) {
    version.fail("version " + std::to_string(version.integer()) + " is not known, only version 1");
  }
}

}  // namespace remora::json
