// SPDX-License-Identifier: Apache-2.0
#include "examples/zoo/settings.hpp"

#include <algorithm>
#include <charconv>

#include "examples/zoo/text.hpp"

namespace remora::zoo {

namespace {

std::variant<std::int64_t, std::string> parse(const Parameter& parameter, const std::string& given) {
  const auto fail = [&]() -> UsageError {
    return UsageError(text("--", parameter.name, " ", given, ": must be ", domain_text(parameter)));
  };
  if (const auto* range = std::get_if<Range>(&parameter.domain)) {
    std::int64_t number = 0;
    const char* const end = given.data() + given.size();
    const auto [rest, error] = std::from_chars(given.data(), end, number);
    if (error != std::errc() || rest != end || number < range->minimum || number > range->maximum) throw fail();
    return number;
  }
  const auto& choices = std::get<Choices>(parameter.domain);
  if (std::find(choices.begin(), choices.end(), given) == choices.end()) throw fail();
  return given;
}

}  // namespace

std::string default_text(const Parameter& parameter) {
  if (const auto* range = std::get_if<Range>(&parameter.domain)) return text(range->initial);
  return std::get<Choices>(parameter.domain).front();
}

std::string domain_text(const Parameter& parameter) {
  if (const auto* range = std::get_if<Range>(&parameter.domain)) {
    return text(range->minimum, "..", range->maximum);
  }
  std::string words;
  for (const std::string& choice : std::get<Choices>(parameter.domain)) {
    if (!words.empty()) words.push_back('|');
    words += choice;
  }
  return words;
}

Settings::Settings(std::span<const Parameter> parameters, const std::map<std::string, std::string>& given) {
  for (const Parameter& parameter : parameters) {
    const auto found = given.find(parameter.name);
    values_[parameter.name] = parse(parameter, found == given.end() ? default_text(parameter) : found->second);
  }
  for (const auto& [name, value] : given) {
    if (!values_.contains(name)) throw UsageError(text("--", name, ": this architecture has no such parameter"));
  }
}

std::int64_t Settings::number(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) throw std::logic_error(text("no parameter ", name));
  return std::get<std::int64_t>(found->second);
}

const std::string& Settings::choice(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) throw std::logic_error(text("no parameter ", name));
  return std::get<std::string>(found->second);
}

std::map<std::string, std::string> Settings::texts() const {
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : values_) {
    const auto* number = std::get_if<std::int64_t>(&value);
    texts[name] = number ? text(*number) : std::get<std::string>(value);
  }
  return texts;
}

void require(bool condition, const std::string& what) {
  if (!condition) throw UsageError(what);
}

}  // namespace remora::zoo
