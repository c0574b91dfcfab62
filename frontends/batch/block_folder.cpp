// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/block_folder.hpp"

#include <filesystem>
#include <ostream>
#include <system_error>
#include <utility>

#include "frontends/formats/file.hpp"
#include "frontends/text/sha256.hpp"
#include "model/error.hpp"

namespace remora::batch {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigits = 64;

}  // namespace

BlockFolder::BlockFolder(std::string folder, std::function<void(const std::string&)> warn)
    : folder_(std::move(folder)), warn_(std::move(warn)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw InputError(folder_, "cannot be made: " + error.message());
}

std::string BlockFolder::path_of(const std::string& key) const {
  return (fs::path(folder_) / text::sha256_hex(key)).string();
}

std::optional<std::string> BlockFolder::find(const std::string& key) {
  const std::string path = path_of(key);
  std::error_code none;
  if (!fs::exists(path, none)) return std::nullopt;
  try {
    const std::string content = json::read_file(path);
    if (content.size() <= kDigits || content[kDigits] != '\n') return std::nullopt;
    std::string value = content.substr(kDigits + 1);
    if (text::sha256_hex(value) != content.substr(0, kDigits)) return std::nullopt;
    return value;
  } catch (const InputError&) {
    // Gone meanwhile, or not to be read: then it is solved again.
    return std::nullopt;
  }
}

void BlockFolder::keep(const std::string& key, const std::string& value) {
  try {
    json::write_file(path_of(key), [&](std::ostream& out) { out << text::sha256_hex(value) << '\n' << value; });
  } catch (const InputError& error) {
    if (!warned_.exchange(true) && warn_) warn_(error.what());
  }
}

}  // namespace remora::batch
