// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/reading/files.hpp"

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <system_error>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "frontends/cli/reading/arguments.hpp"
#include "frontends/formats/file.hpp"

namespace remora::cli {
namespace fs = std::filesystem;
namespace {

bool is_standard(const std::string& path) {
  return path == "-";
}

UsageError clash(const std::string& option, const std::string& path, const std::string& what) {
  return UsageError(option + ": " + path + " is " + what + "; name another file");
}

}  // namespace

std::optional<Files::Identity> Files::identity_of(const std::string& path) {
  struct stat status {};
  const int found = is_standard(path) ? ::fstat(STDIN_FILENO, &status) : ::stat(path.c_str(), &status);
  if (found == 0) {
    if (!S_ISREG(status.st_mode)) return std::nullopt;
    return Identity{.device = status.st_dev, .number = status.st_ino};
  }
  if (is_standard(path) || path.empty()) return std::nullopt;
  const std::optional<std::string> target = json::resolve_links(path);
  if (!target) return std::nullopt;
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(*target), error);
  if (error) return std::nullopt;
  return Identity{.path = whole.string()};
}

void Files::expect_not_read(const std::string& path, const std::string& option, const Identity& identity) const {
  for (const File& file : read_) {
    if (file.identity == identity) throw clash(option, path, file.what);
  }
}

void Files::will_read(const std::string& path, const std::string& what) {
  const auto identity = identity_of(path);
  if (!identity) return;
  for (const File& file : written_) {
    if (file.identity == *identity) throw clash(file.what, file.path, what);
  }
  read_.push_back({path, what, *identity});
}

void Files::will_read_in(const std::string& folder, const std::string& what) {
  std::error_code error;
  auto at = fs::recursive_directory_iterator(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) will_read(at->path().string(), what);
}

void Files::will_write(const std::string& path, const std::string& option) {
  if (is_standard(path)) return;
  if (const auto target = json::resolve_links(path)) clean(fs::path(*target).parent_path().string());
  const auto identity = identity_of(path);
  if (!identity) return;
  expect_not_read(path, option, *identity);
  for (const File& file : written_) {
    if (file.identity == *identity) throw clash(option, path, "the file of " + file.what);
  }
  written_.push_back({path, option, *identity});
}

void Files::clean(const std::string& folder) {
  if (cleaned_.insert(folder).second) json::remove_leftovers(folder);
}

void Files::will_write_in(const std::string& folder, const std::string& prefix, const std::string& option) {
  clean(folder);
  std::error_code error;
  for (auto at = fs::directory_iterator(folder, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    if (at->path().filename().string().starts_with(prefix)) will_write(at->path().string(), option);
  }
}

std::string Files::read(const std::string& path, const std::string& what) {
  will_read(path, what);
  return json::read_file(path);
}

void Files::write(const std::string& path, const std::function<void(std::ostream&)>& write) const {
  if (!is_standard(path)) {
    if (const auto identity = identity_of(path)) expect_not_read(path, "output", *identity);
  }
  json::write_file(path, write);
}

}  // namespace remora::cli
