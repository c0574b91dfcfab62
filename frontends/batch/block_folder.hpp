// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "engine/base/block_store.hpp"

namespace remora::batch {

/// A BlockStore in a folder, a file an entry, which any number of processes on any number of machines may share: files
/// are renamed into place, named by the key's sha256, and begin with that of the value, so that a damaged one is as
/// good as none.
class BlockFolder : public BlockStore {
 public:
  /// Makes the folder if it is missing; throws InputError if that fails. `warn`: told once, from any thread, if an
  /// entry cannot be written: the solve goes on without.
  BlockFolder(std::string folder, std::function<void(const std::string&)> warn);

  std::optional<std::string> find(const std::string& key) override;
  void keep(const std::string& key, const std::string& value) override;

 private:
  [[nodiscard]] std::string path_of(const std::string& key) const;

  std::string folder_;
  std::function<void(const std::string&)> warn_;
  std::atomic<bool> warned_{false};
};

}  // namespace remora::batch
