// SPDX-License-Identifier: Apache-2.0
#include "engine/slices/request.hpp"

#include <charconv>
#include <string_view>

#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora {
namespace {

std::optional<int> number_of(std::string_view text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

RegionRequest region_asked(const std::string& word) {
  const auto reject = [&](const std::string& what) { throw InputError::of_option("slices", quote(word) + what); };
  const auto sign = word.rfind('=');
  if (sign == std::string::npos || sign == 0) reject(" is not none, auto, or REGION=K@AXIS, such as loss=8@0");
  RegionRequest region{.ops = word.substr(0, sign)};
  const std::string_view figures = std::string_view(word).substr(sign + 1);
  const auto at = figures.find('@');
  const std::optional<int> slices = number_of(figures.substr(0, at));
  if (!slices || *slices < 2 || *slices > kMaxSlices)
    reject(": the number of slices must be from 2 to " + std::to_string(kMaxSlices));
  region.slices = *slices;
  if (at != std::string_view::npos) {
    region.axis = number_of(figures.substr(at + 1));
    if (!region.axis) reject(": the axis must be the number of an axis of the op, from 0");
  }
  return region;
}

}  // namespace

SliceRequest slices_asked(std::span<const std::string> words) {
  SliceRequest request;
  for (const std::string& word : words) {
    const bool is_word = word == "none" || word == "auto";
    if (is_word && words.size() > 1) throw InputError::of_option("slices", quote(word) + " excludes other words");
    request.is_allowed = word != "none";
    if (!is_word) request.regions.push_back(region_asked(word));
  }
  return request;
}

}  // namespace remora
