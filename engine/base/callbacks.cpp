// SPDX-License-Identifier: Apache-2.0
#include "engine/base/callbacks.hpp"

#include <array>

namespace remora {
namespace {

/// In the order of Source.
constexpr std::array kSources{"start",    "relaxation", "segments", "hierarchy", "order", "another budget",
                              "complete", "benders",    "periods",  "peak",      "lns",   "modes",
                              "ruin",     "anneal",     "reorder",  "joint",     "local", "one device",
                              "copies",   "none",       "greedy",   "sqrt",      "rotor"};
static_assert(kSources.size() == static_cast<std::size_t>(Source::rotor) + 1);

}  // namespace

const char* source_name(Source source) {
  return kSources[static_cast<std::size_t>(source)];
}

const char* progress_label(const Progress& progress) {
  if (progress.event == Event::round) return "";
  return progress.event == Event::phase ? "phase 2" : source_name(progress.source);
}

std::optional<std::string> BlockMemory::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

void BlockMemory::keep(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  values_.insert_or_assign(key, value);
}

}  // namespace remora
