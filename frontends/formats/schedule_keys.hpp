// SPDX-License-Identifier: Apache-2.0
//
// The words of remora-schedule 1 and remora-curve 1.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "frontends/formats/document.hpp"
#include "model/quote.hpp"
#include "model/schedule.hpp"

namespace remora::json {

template <class Value>
struct Word {
  Value value;
  std::string_view text;
};

inline constexpr std::array<Word<Status>, 4> kStatusWords = {{
    {Status::optimal, "optimal"},
    {Status::feasible, "feasible"},
    {Status::infeasible, "infeasible"},
    {Status::unknown, "unknown"},
}};

inline constexpr std::array<Word<OrderMode>, 2> kOrderWords = {{
    {OrderMode::input, "input"},
    {OrderMode::free, "free"},
}};

inline constexpr std::array<Word<Stop>, 9> kStopWords = {{
    {Stop::optimum, "optimum"},
    {Stop::infeasible, "infeasible"},
    {Stop::gap, "gap"},
    {Stop::stall, "stall"},
    {Stop::time, "time"},
    {Stop::work, "work"},
    {Stop::cancelled, "cancelled"},
    {Stop::callback, "callback"},
    {Stop::exhausted, "exhausted"},
}};

template <class Value, std::size_t count>
std::string_view word_of(Value value, const std::array<Word<Value>, count>& words) {
  return std::find_if(words.begin(), words.end(), [&](const Word<Value>& word) { return word.value == value; })->text;
}

/// Throws InputError for a text that is not one of the words.
template <class Value, std::size_t count>
Value read_word(const Node& node, const std::array<Word<Value>, count>& words) {
  const std::string& text = node.string();
  std::string known;
  for (const Word<Value>& word : words) {
    if (word.text == text) return word.value;
    known += (known.empty() ? "" : ", ") + quote(word.text);
  }
  node.fail("must be one of " + known + ", not " + quote(text));
}

/// "optimal", ...
inline std::string status_word(Status status) {
  return std::string(word_of(status, kStatusWords));
}

}  // namespace remora::json
