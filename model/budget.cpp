// SPDX-License-Identifier: Apache-2.0
#include "model/budget.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/error.hpp"

namespace remora {
namespace {

/// A decimal number as digits / scale. Exact up to nine digits after the point; what follows is dropped, for amounts
/// are rounded down anyway.
struct Decimal {
  Wide digits = 0;
  Wide scale = 1;
};

std::optional<Decimal> parse_decimal(std::string_view text) {
  constexpr Wide kMaximum = Wide{1} << 70;
  constexpr Wide kMaxScale = 1'000'000'000;
  Decimal number;
  bool point = false;
  bool any = false;
  for (const char c : text) {
    if (c == '.' && !point) {
      point = true;
    } else if (c >= '0' && c <= '9') {
      any = true;
      if (point && number.scale == kMaxScale) continue;
      number.digits = number.digits * 10 + (c - '0');
      if (point) number.scale *= 10;
      if (number.digits / number.scale > kMaximum) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  if (!any) return std::nullopt;
  return number;
}

/// The bytes of a unit, or 0 for a word that is no unit. Case does not matter; one letter is a power of 1024, as the
/// memory options of Docker, Java and Slurm have it.
std::int64_t bytes_of_unit(std::string_view unit) {
  std::string word(unit);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (word.empty() || word == "b") return 1;
  const auto power = std::string_view("kmgt").find(word.front());
  const std::string_view rest = std::string_view(word).substr(1);
  const bool is_decimal = rest == "b";
  if (power == std::string_view::npos || (!is_decimal && rest != "ib" && !rest.empty())) return 0;
  constexpr std::int64_t kKilo = 1000;
  constexpr std::int64_t kKibi = 1024;
  std::int64_t bytes = 1;
  for (std::size_t i = 0; i <= power; ++i) bytes *= is_decimal ? kKilo : kKibi;
  return bytes;
}

/// A percentage without its sign: at most 100, and either not whole or fewer bytes than a tenth of the peak.
bool looks_like_percentage(const Decimal& number, Bytes peak) {
  constexpr Wide kWhole = 100;
  constexpr Wide kFewPart = 10;
  if (number.digits == 0 || number.digits > kWhole * number.scale) return false;
  return number.digits % number.scale != 0 || number.digits * kFewPart < peak.count() * number.scale ||
         (number.scale > 1 && number.digits <= number.scale);
}

/// "80%" of 80 and of 0.8.
std::string as_percentage(const Decimal& number, const std::string& text) {
  if (number.digits > number.scale || number.scale == 1) return text + "%";
  constexpr Wide kPercent = 100;
  std::string percent = std::to_string(static_cast<std::int64_t>(number.digits * kPercent / number.scale));
  Wide rest = number.digits * kPercent % number.scale;
  if (rest > 0) percent += '.';
  for (; rest > 0; rest = rest * 10 % number.scale)
    percent += static_cast<char>('0' + static_cast<int>(rest * 10 / number.scale));
  return percent + "%";
}

/// A number and what follows it, blanks left out.
struct Amount {
  std::string text;
  std::string expected;
  Decimal number{};
  std::string_view suffix{};

  [[nodiscard]] InputError error(const std::string& why) const { return {"", "'" + text + "' " + why}; }

  [[nodiscard]] Bytes bytes() const {
    constexpr Wide kMaximum = std::numeric_limits<std::int64_t>::max();
    const std::int64_t unit = bytes_of_unit(suffix);
    if (unit == 0) throw error("has an unknown unit; " + expected);
    if (number.digits / number.scale > kMaximum / unit) throw error("is too large");
    const Wide bytes = number.digits * unit / number.scale;
    if (bytes > kMaximum) throw error("is too large");
    return Bytes(static_cast<std::int64_t>(bytes));
  }
};

/// `text` must outlive the result. `kind`: "a budget".
Amount read_amount(const std::string& text, const std::string& kind, const std::string& expected) {
  Amount amount{.text = text, .expected = expected};
  const std::string_view all = text;
  const auto number_end = std::min(all.find_first_not_of("0123456789."), all.size());
  const auto number = parse_decimal(all.substr(0, number_end));
  if (!number) throw amount.error("is not " + kind + "; " + expected);
  amount.number = *number;
  amount.suffix = all.substr(number_end);
  while (!amount.suffix.empty() && amount.suffix.front() == ' ') amount.suffix.remove_prefix(1);
  return amount;
}

}  // namespace

Bytes parse_budget(const std::string& text, Bytes fixed, Bytes peak) {
  const Amount amount = read_amount(
      text, "a budget",
      "expected bytes (123456, 12GiB, 12G, 1.5GB) or a percentage of the peak above fixed memory (80%), or of "
      "all of it (80%peak)");
  const Decimal& number = amount.number;
  constexpr Wide kMaximum = std::numeric_limits<std::int64_t>::max();
  if (amount.suffix == "%" || amount.suffix == "%peak") {
    constexpr Wide kMaxPercent = 1'000'000;
    if (number.digits / number.scale > kMaxPercent) throw amount.error("is too large");
    const Bytes base = amount.suffix == "%" ? fixed : Bytes(0);
    // Parts of a per cent beyond 1e-9 were dropped, so the product fits in 128 bits.
    const Wide part = number.digits * (peak - base).count() / (number.scale * 100);
    if (part + base.count() > kMaximum) throw amount.error("is too large");
    return Bytes(static_cast<std::int64_t>(part + base.count()));
  }
  if (amount.suffix.empty() && looks_like_percentage(number, peak)) {
    throw amount.error("without a unit is bytes; did you mean " + as_percentage(number, text) + "? (for bytes write " +
                       text + "B)");
  }
  return amount.bytes();
}

Bytes parse_bytes(const std::string& text, Bytes most) {
  const Amount amount = read_amount(text, "an amount of memory", "expected bytes (123456, 12GiB, 12G, 1.5GB)");
  if (amount.suffix.starts_with('%')) throw amount.error("is a percentage; " + amount.expected);
  if (amount.suffix.empty() && looks_like_percentage(amount.number, most)) {
    throw amount.error("without a unit is bytes; name the unit (" + text + "GiB, " + text + "MiB; for bytes write " +
                       text + "B)");
  }
  return amount.bytes();
}

double part_of_peak(Bytes amount, Bytes fixed, Bytes peak) {
  if (peak <= fixed) return 1;
  return static_cast<double>((amount - fixed).count()) / static_cast<double>((peak - fixed).count());
}

namespace {

constexpr int kMaxBudgets = 10'000;

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
    budgets.push_back(parse_budget(text.data(), fixed, peak));
  }
  return budgets;
}

/// How many steps there are, both ends counted. Throws InputError.
int steps_between(double from, double to, double step, const std::string& text) {
  if (!(step > 0)) throw InputError("", "the step of '" + text + "' must be above 0");
  // A hair more, for steps like 0.1 % that have no exact double.
  const double count = std::floor(std::abs(to - from) / step + 1e-9) + 1;
  if (!(count <= kMaxBudgets)) throw InputError("", "'" + text + "' is more than 10,000 budgets");
  return static_cast<int>(count);
}

std::vector<Bytes> parse_range(const std::string& text, Bytes fixed, Bytes peak) {
  const std::vector<std::string> ends = split(text, ':');
  const bool is_range = text.find("..") != std::string::npos || text.find('-', 1) != std::string::npos;
  if (ends.size() == 1 && !is_range) return {parse_budget(text, fixed, peak)};
  if (ends.size() != 3) {
    throw InputError("", "'" + text + "' is neither a budget nor a range FROM:TO:STEP (90%:50%:10%)");
  }
  const auto from = percentage(ends[0]);
  const auto to = percentage(ends[1]);
  const auto step = percentage(ends[2]);
  if (from && to && step) {
    return percent_range(*from, *to, *step, fixed, peak, steps_between(*from, *to, *step, text));
  }
  if (from || to || step) throw InputError("", "'" + text + "' mixes bytes and percentages");
  const Bytes first = parse_budget(ends[0], fixed, peak);
  const Bytes last = parse_budget(ends[1], fixed, peak);
  // A step may be a few bytes.
  const Bytes width = parse_budget(ends[2], Bytes(0), Bytes(0));
  if (width == Bytes(0)) throw InputError("", "the step of '" + text + "' must be above 0");
  const std::int64_t count = std::abs(last.count() - first.count()) / width.count() + 1;
  if (count > kMaxBudgets) throw InputError("", "'" + text + "' is more than 10,000 budgets");
  std::vector<Bytes> budgets;
  budgets.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const Bytes distance(width.count() * i);
    budgets.push_back(last < first ? first - distance : first + distance);
  }
  return budgets;
}

}  // namespace

std::vector<Bytes> parse_budgets(const std::string& text, Bytes fixed, Bytes peak) {
  std::vector<Bytes> budgets;
  for (const std::string& part : split(text, ',')) {
    for (const Bytes budget : parse_range(part, fixed, peak)) {
      if (std::find(budgets.begin(), budgets.end(), budget) == budgets.end()) budgets.push_back(budget);
    }
  }
  return budgets;
}

}  // namespace remora
