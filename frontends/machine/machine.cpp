// SPDX-License-Identifier: Apache-2.0
#include "frontends/machine/machine.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>

namespace remora {
namespace {

constexpr std::array<std::string_view, 4> kClasses{"product", "convolution", "attention", "memory"};

/// The number under the key; `otherwise` without one.
double value_of(const std::map<std::string, double, std::less<>>& table, std::string_view key, double otherwise) {
  const auto found = table.find(key);
  return found == table.end() ? otherwise : found->second;
}

/// Operations a second that the op reaches, but for what its tiles leave idle.
double rate_of(const Machine& machine, const OpWork& work) {
  std::string_view type = work.numbers;
  if (type == "half") type = machine.rates.contains("bf16") ? "bf16" : "fp16";
  // cuDNN's convolutions of fp32 take tf32 (torch.backends.cudnn.allow_tf32 is on by default); products do not.
  if (type == "fp32" && work.of == OpClass::convolution) type = "tf32";
  const bool is_wide_product = work.of == OpClass::product && work.numbers == "fp32";
  const std::string_view name = is_wide_product              ? "product-fp32"
                                : work.of == OpClass::memory ? "product"
                                                             : kClasses[static_cast<std::size_t>(work.of)];
  return value_of(machine.rates, type, value_of(machine.rates, "fp32", 0)) * value_of(machine.efficiency, name, 1);
}

/// The share of the multiprocessors' time that a product's tiles fill. Where one side is short, narrower tiles are taken;
/// long sums are divided among multiprocessors.
double filled(const OpWork& work, int multiprocessors) {
  constexpr std::int64_t kTile = 128;
  constexpr std::int64_t kNarrowest = 16;
  constexpr std::int64_t kDepth = 512;
  constexpr double kMinimum = 0.02;
  double elements = 1;
  for (const std::int64_t extent : work.made) elements *= static_cast<double>(extent);
  if (multiprocessors <= 1 || work.made.size() < 2 || elements <= 0) return 1;
  const auto side = [&](std::int64_t extent) {
    const auto shorter = static_cast<std::uint64_t>(std::min(extent, kTile));
    return std::max(static_cast<std::int64_t>(std::bit_ceil(shorter)), kNarrowest);
  };
  const std::int64_t rows = work.made[work.made.size() - 2];
  const std::int64_t columns = work.made.back();
  const std::int64_t height = side(rows);
  const std::int64_t width = side(columns);
  const auto pieces = [](std::int64_t extent, std::int64_t part) {
    const std::int64_t whole = (extent - 1) / part + 1;
    return static_cast<double>(whole);
  };
  const double products = elements / static_cast<double>(rows) / static_cast<double>(columns);
  double tiles = products * pieces(rows, height) * pieces(columns, width);
  const double covered = elements / (tiles * static_cast<double>(height * width));
  tiles *= std::max(1.0, std::floor(static_cast<double>(work.operations) / 2 / elements / kDepth));
  const double rounds = std::ceil(tiles / multiprocessors);
  return std::max(kMinimum, covered * tiles / (rounds * multiprocessors));
}

/// As names are compared.
std::string plain(std::string_view name) {
  std::string text(name);
  for (char& letter : text) {
    letter = letter == ' ' || letter == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return text;
}

}  // namespace

OpClass op_class_named(std::string_view name) {
  const auto* const found = std::find(kClasses.begin(), kClasses.end() - 1, name);
  return static_cast<OpClass>(found - kClasses.begin());
}

double Machine::seconds(const OpWork& work) const {
  double computing = 0;
  if (work.operations > 0) {
    computing = static_cast<double>(work.operations) / rate_of(*this, work);
    if (work.of == OpClass::product) computing /= filled(work, multiprocessors);
  }
  const double moving = static_cast<double>(work.moved) / (bandwidth * value_of(efficiency, "memory", 1));
  return std::max(computing, moving) + launch_overhead;
}

Duration nanoseconds(double seconds) {
  constexpr double kMaximum = 4e18;
  // A rounding error of the sum is not worth a nanosecond more.
  constexpr double kRelativeError = 1e-12;
  return Duration(static_cast<std::int64_t>(std::min(std::ceil(seconds * 1e9 * (1 - kRelativeError)), kMaximum)));
}

namespace {

template <class Row>
const Row* found(const std::vector<Row>& rows, std::string_view name) {
  const std::string wanted = plain(name);
  for (const Row& row : rows) {
    if (row.name == wanted || std::find(row.aliases.begin(), row.aliases.end(), wanted) != row.aliases.end())
      return &row;
  }
  return nullptr;
}

}  // namespace

const Machine* find_machine(std::string_view name) {
  return found(known_machines(), name);
}

const LinkModel* find_link(std::string_view name) {
  return found(known_links(), name);
}

}  // namespace remora
