// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/amounts.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

#include "frontends/cli/arguments.hpp"

namespace remora::cli {
namespace {

/// A decimal number as digits / scale. Exact up to nine digits after the point; what follows is dropped, for amounts
/// are rounded down anyway.
struct Decimal {
  Wide digits = 0;
  Wide scale = 1;
};

std::optional<Decimal> parse_decimal(std::string_view text) {
  constexpr Wide kMost = Wide{1} << 70;
  constexpr Wide kMostScale = 1'000'000'000;
  Decimal number;
  bool point = false;
  bool any = false;
  for (const char c : text) {
    if (c == '.' && !point) {
      point = true;
    } else if (c >= '0' && c <= '9') {
      any = true;
      if (point && number.scale == kMostScale) continue;
      number.digits = number.digits * 10 + (c - '0');
      if (point) number.scale *= 10;
      if (number.digits / number.scale > kMost) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  if (!any) return std::nullopt;
  return number;
}

struct Unit {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::int64_t kKilo = 1000;
constexpr std::int64_t kKibi = 1024;
constexpr std::array kUnits{Unit{"", 1},
                            Unit{"B", 1},
                            Unit{"KB", kKilo},
                            Unit{"MB", kKilo* kKilo},
                            Unit{"GB", kKilo* kKilo* kKilo},
                            Unit{"TB", kKilo* kKilo* kKilo* kKilo},
                            Unit{"KiB", kKibi},
                            Unit{"MiB", kKibi* kKibi},
                            Unit{"GiB", kKibi* kKibi* kKibi},
                            Unit{"TiB", kKibi* kKibi* kKibi* kKibi}};

std::string print(const char* format, double value) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return buffer.data();
}

}  // namespace

Bytes parse_budget(const std::string& text, Bytes fixed, Bytes peak, const std::string& option) {
  const auto fail = [&](const char* why) {
    return UsageError(option + ": '" + text + "' " + why +
                      "; expected bytes (123456, units B KB MB GB TB KiB MiB GiB TiB) or a percentage (80%)");
  };
  const std::string_view all = text;
  const auto number_end = std::min(all.find_first_not_of("0123456789."), all.size());
  const auto number = parse_decimal(all.substr(0, number_end));
  if (!number) throw fail("is not a budget");
  std::string_view suffix = all.substr(number_end);
  while (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  constexpr Wide kMost = std::numeric_limits<std::int64_t>::max();
  if (suffix == "%") {
    constexpr Wide kMostPercent = 1'000'000;
    if (number->digits / number->scale > kMostPercent) throw fail("is too large");
    // Parts of a per cent beyond 1e-9 were dropped, so the product fits in 128 bits.
    const Wide part = number->digits * (peak - fixed).count() / (number->scale * 100);
    if (part + fixed.count() > kMost) throw fail("is too large");
    return Bytes(static_cast<std::int64_t>(part + fixed.count()));
  }
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == suffix; });
  if (unit == kUnits.end()) throw fail("has an unknown unit");
  if (number->digits / number->scale > kMost / unit->bytes) throw fail("is too large");
  const Wide bytes = number->digits * unit->bytes / number->scale;
  if (bytes > kMost) throw fail("is too large");
  return Bytes(static_cast<std::int64_t>(bytes));
}

std::string bytes_text(Bytes bytes) {
  constexpr std::array kNames{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes.count());
  std::size_t unit = 0;
  for (; std::abs(value) >= 1024 && unit + 1 < kNames.size(); ++unit) value /= 1024;
  return print(unit == 0 ? "%.0f " : "%.2f ", value) + kNames[unit];
}

std::string duration_text(Duration duration, const std::string& unit) {
  if (unit != "ns") return grouped(duration.count()) + (unit.empty() ? "" : " ") + unit;
  constexpr std::array kNames{"ns", "us", "ms", "s"};
  auto value = static_cast<double>(duration.count());
  std::size_t name = 0;
  for (; value >= 1000 && name + 1 < kNames.size(); ++name) value /= 1000;
  return print(name == 0 ? "%.0f " : "%.2f ", value) + kNames[name];
}

std::string duration_unit_of(const Graph& graph) {
  const auto meta = nlohmann::json::parse(graph.meta, nullptr, false);
  if (!meta.is_object()) return "";
  const auto unit = meta.find("duration_unit");
  return unit != meta.end() && unit->is_string() ? unit->get<std::string>() : "";
}

std::string percent_text(double part, int digits) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f %%", digits, 100.0 * part);
  return buffer.data();
}

std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::ptrdiff_t first = number < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > first; at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return text;
}

}  // namespace remora::cli
