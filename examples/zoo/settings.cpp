// SPDX-License-Identifier: Apache-2.0
#include "examples/zoo/settings.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "examples/zoo/text.hpp"

namespace remora::zoo {

namespace {

/// The whole of `given` as a number in [minimum, maximum]; nothing if it is none.
std::optional<std::int64_t> parse_number(std::string_view given, std::int64_t minimum, std::int64_t maximum) {
  std::int64_t number = 0;
  const char* const end = given.data() + given.size();
  const auto [rest, error] = std::from_chars(given.data(), end, number);
  if (error != std::errc() || rest != end || number < minimum || number > maximum) return std::nullopt;
  return number;
}

/// Numbers with commas between, as many as the domain wants; nothing if they are not.
std::optional<std::vector<std::int64_t>> parse_numbers(std::string_view given, const Ranges& domain) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(domain.initial.size());
  for (bool more = true; more;) {
    const auto comma = given.find(',');
    const auto number = parse_number(given.substr(0, comma), domain.minimum, domain.maximum);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    more = comma != std::string_view::npos;
    if (more) given.remove_prefix(comma + 1);
  }
  if (numbers.size() != domain.initial.size()) return std::nullopt;
  return numbers;
}

std::string joined(const std::vector<std::int64_t>& numbers) {
  std::string list;
  for (const std::int64_t number : numbers) list.append(list.empty() ? "" : ",").append(text(number));
  return list;
}

std::variant<std::int64_t, std::string, std::vector<std::int64_t>> parse(const Parameter& parameter,
                                                                         const std::string& given) {
  const auto fail = [&]() -> UsageError {
    return UsageError(text("--", parameter.name, " ", given, ": must be ", domain_text(parameter)));
  };
  if (const auto* range = std::get_if<Range>(&parameter.domain)) {
    const auto number = parse_number(given, range->minimum, range->maximum);
    if (!number) throw fail();
    return *number;
  }
  if (const auto* ranges = std::get_if<Ranges>(&parameter.domain)) {
    auto numbers = parse_numbers(given, *ranges);
    if (!numbers) throw fail();
    return *std::move(numbers);
  }
  const auto& choices = std::get<Choices>(parameter.domain);
  if (std::find(choices.begin(), choices.end(), given) == choices.end()) throw fail();
  return given;
}

}  // namespace

std::string default_text(const Parameter& parameter) {
  if (const auto* range = std::get_if<Range>(&parameter.domain)) return text(range->initial);
  if (const auto* ranges = std::get_if<Ranges>(&parameter.domain)) return joined(ranges->initial);
  return std::get<Choices>(parameter.domain).front();
}

std::string domain_text(const Parameter& parameter) {
  if (const auto* range = std::get_if<Range>(&parameter.domain)) {
    return text(range->minimum, "..", range->maximum);
  }
  std::string words;
  if (const auto* ranges = std::get_if<Ranges>(&parameter.domain)) {
    for (std::size_t i = 0; i < ranges->initial.size(); ++i) {
      words.append(i == 0 ? "" : ",").append(text(ranges->minimum, "..", ranges->maximum));
    }
    return words;
  }
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

const Settings::Value& Settings::value(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) throw std::logic_error(text("no parameter ", name));
  return found->second;
}

std::int64_t Settings::number(std::string_view name) const {
  return std::get<std::int64_t>(value(name));
}

const std::string& Settings::choice(std::string_view name) const {
  return std::get<std::string>(value(name));
}

const std::vector<std::int64_t>& Settings::numbers(std::string_view name) const {
  return std::get<std::vector<std::int64_t>>(value(name));
}

std::map<std::string, std::string> Settings::texts() const {
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : values_) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      texts[name] = text(*number);
    } else if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&value)) {
      texts[name] = joined(*numbers);
    } else {
      texts[name] = std::get<std::string>(value);
    }
  }
  return texts;
}

void require(bool condition, const std::string& what) {
  if (!condition) throw UsageError(what);
}

}  // namespace remora::zoo
