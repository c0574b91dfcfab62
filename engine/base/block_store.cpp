// SPDX-License-Identifier: Apache-2.0
#include "engine/base/block_store.hpp"

namespace remora {

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
