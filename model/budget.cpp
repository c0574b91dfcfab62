// SPDX-License-Identifier: Apache-2.0
#include "model/budget.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>

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

}  // namespace

Bytes parse_budget(const std::string& text, Bytes fixed, Bytes peak) {
  const auto fail = [&](const char* why) {
    return InputError("", "'" + text + "' " + why +
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

double part_of_peak(Bytes amount, Bytes fixed, Bytes peak) {
  if (peak <= fixed) return 1;
  return static_cast<double>((amount - fixed).count()) / static_cast<double>((peak - fixed).count());
}

}  // namespace remora
