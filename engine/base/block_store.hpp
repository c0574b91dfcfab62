// SPDX-License-Identifier: Apache-2.0
//
// What solves of many graphs can share: the options of groups that were solved before. Networks of
// one family, or one network at two depths, consist of the same groups.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "model/api.hpp"

namespace remora {

/// Keys and values are bytes that mean something to the engine only. A key holds all that the value depends on, the
/// engine's version included, so values never go stale. Implementations are safe to use from several threads.
class REMORA_API BlockStore {
 public:
  BlockStore() = default;
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;
  virtual ~BlockStore() = default;

  virtual std::optional<std::string> find(const std::string& key) = 0;
  virtual void keep(const std::string& key, const std::string& value) = 0;
};

/// Keeps them in memory.
class REMORA_API BlockMemory : public BlockStore {
 public:
  std::optional<std::string> find(const std::string& key) override;
  void keep(const std::string& key, const std::string& value) override;

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::string> values_;
};

}  // namespace remora
