// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/budgets.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "frontends/cli/reading/arguments.hpp"
#include "model/budget.hpp"
#include "model/error.hpp"

namespace remora::cli {
namespace {

constexpr int kMostBudgets = 10'000;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
  }
  return parts;
}

/// 62.5 of "62.5%"; nothing if it is no percentage.
std::optional<double> percentage(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  text.remove_suffix(1);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || stop != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// Percentages are steps of their own: 5 % of the peak each, not of what is left.
std::vector<Bytes> percent_range(double from, double to, double step, Bytes fixed, Bytes peak, int count) {
  std::vector<Bytes> budgets;
  budgets.reserve(static_cast<std::size_t>(count));
  const double sign = to < from ? -1 : 1;
  for (int i = 0; i < count; ++i) {
    std::array<char, 64> text{};
    // The last one may miss 0 by a hair.
    std::snprintf(text.data(), text.size(), "%.9f%%", std::max(0.0, from + sign * step * i));
    budgets.push_back(read_budget(text.data(), fixed, peak));
  }
  return budgets;
}

/// How many steps there are, both ends counted. Throws UsageError.
int steps_between(double from, double to, double step, const std::string& option, const std::string& text) {
  if (!(step > 0)) throw UsageError(option + ": the step of '" + text + "' must be above 0");
  // A hair more, for steps like 0.1 % that have no exact double.
  const double count = std::floor(std::abs(to - from) / step + 1e-9) + 1;
  if (!(count <= kMostBudgets)) throw UsageError(option + ": '" + text + "' is more than 10,000 budgets");
  return static_cast<int>(count);
}

std::vector<Bytes> parse_range(const std::string& option, const std::string& text, Bytes fixed, Bytes peak) {
  const std::vector<std::string> ends = split(text, ':');
  if (ends.size() == 1) return {read_budget(text, fixed, peak, option)};
  if (ends.size() != 3) throw UsageError(option + ": '" + text + "' is neither a budget nor FROM:TO:STEP");
  const auto from = percentage(ends[0]);
  const auto to = percentage(ends[1]);
  const auto step = percentage(ends[2]);
  if (from && to && step) {
    return percent_range(*from, *to, *step, fixed, peak, steps_between(*from, *to, *step, option, text));
  }
  if (from || to || step) throw UsageError(option + ": '" + text + "' mixes bytes and percentages");
  const Bytes first = read_budget(ends[0], fixed, peak, option);
  const Bytes last = read_budget(ends[1], fixed, peak, option);
  // A step may be a few bytes.
  const Bytes width = read_budget(ends[2], Bytes(0), Bytes(0), option);
  if (width == Bytes(0)) throw UsageError(option + ": the step of '" + text + "' must be above 0");
  const std::int64_t count = std::abs(last.count() - first.count()) / width.count() + 1;
  if (count > kMostBudgets) throw UsageError(option + ": '" + text + "' is more than 10,000 budgets");
  std::vector<Bytes> budgets;
  budgets.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const Bytes distance(width.count() * i);
    budgets.push_back(last < first ? first - distance : first + distance);
  }
  return budgets;
}

}  // namespace

Bytes read_budget(const std::string& text, Bytes fixed, Bytes peak, const std::string& option) {
  try {
    return remora::parse_budget(text, fixed, peak);
  } catch (const InputError& error) {
    throw UsageError(option + ": " + error.what());
  }
}

std::vector<Bytes> read_budgets(const std::string& option, const std::string& text, Bytes fixed, Bytes peak) {
  std::vector<Bytes> budgets;
  for (const std::string& part : split(text, ',')) {
    for (const Bytes budget : parse_range(option, part, fixed, peak)) {
      if (std::find(budgets.begin(), budgets.end(), budget) == budgets.end()) budgets.push_back(budget);
    }
  }
  return budgets;
}

}  // namespace remora::cli
