// SPDX-License-Identifier: Apache-2.0
#include "frontends/batch/store.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <system_error>
#include <thread>
#include <utility>

#include "frontends/batch/manifest.hpp"
#include "frontends/formats/file.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"

namespace remora::batch {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResults = "results";
constexpr const char* kPartial = "partial";
constexpr const char* kErrors = "errors";
constexpr const char* kBegun = "begun";
constexpr const char* kTemporary = "temporary";
constexpr const char* kManifest = "manifest";
constexpr const char* kExtension = ".json";

/// False also where it has gone meanwhile.
bool is_there(const std::string& path) {
  std::error_code error;
  const bool exists = fs::exists(path, error);
  if (error) throw InputError(path, "cannot be looked up: " + error.message());
  return exists;
}

void remove(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) throw InputError(path, "cannot be removed: " + error.message());
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto at = fs::directory_iterator(folder, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error) throw InputError(folder, "cannot be listed: " + error.message());
  return names;
}

}  // namespace

Store Store::create(const std::string& folder) {
  Store store(folder);
  for (const char* kind : {kResults, kPartial, kErrors, kBegun, kTemporary}) {
    std::error_code error;
    fs::create_directories(store.path(kind), error);
    if (error) throw InputError(store.path(kind), "cannot be made: " + error.message());
  }
  return store;
}

Store Store::open(const std::string& folder) {
  Store store(folder);
  if (!is_there(store.path(kResults))) throw InputError(folder, "holds no batch; 'remora batch' makes one");
  return store;
}

std::string Store::path(const std::string& name) const {
  return (fs::path(folder_) / name).string();
}

std::string Store::path(const char* kind, const std::string& name) const {
  return (fs::path(folder_) / kind / (name + kExtension)).string();
}

std::vector<std::string> Store::record_folders() const {
  return {path(kResults), path(kPartial), path(kErrors)};
}

void Store::put(const File& file, const std::string& text, const std::function<bool()>& is_settled) const {
  constexpr int kAttempts = 10;
  constexpr std::chrono::milliseconds kPause(20);
  const std::string temporary = (fs::path(folder_) / kTemporary / file.task).string();
  for (int attempt = 1;; ++attempt) {
    try {
      return json::write_file(
          file.path, [&](std::ostream& out) { out << text; }, temporary);
    } catch (const InputError&) {
      // Another process may have settled the task and cleaned up behind it, this temporary file too.
      if (is_settled()) return;
      if (attempt == kAttempts) throw;
      // A shared disk may be full, or away, for a moment.
      std::this_thread::sleep_for(attempt * kPause);
    }
  }
}

bool Store::has_manifest(const std::vector<Task>& tasks) const {
  return is_there(manifest_path()) && json::read_file(manifest_path()) == manifest_text(tasks);
}

void Store::put_manifest(const std::vector<Task>& tasks) const {
  const auto is_same = [&] { return has_manifest(tasks); };
  if (!is_same()) put({manifest_path(), kManifest}, manifest_text(tasks), is_same);
}

bool Store::has_result(const std::string& key) const {
  return is_there(path(kResults, key));
}

std::optional<Record> Store::record(const char* kind, const std::string& key) const {
  const std::string file = path(kind, key);
  if (!is_there(file)) return std::nullopt;
  try {
    return read_record(json::read_file(file), key);
  } catch (const InputError& error) {
    throw InputError(file, std::string(error.what()) + "; remove it to recreate it");
  }
}

void Store::put_result(const Record& record) const {
  const std::string key = key_of(record.question);
  const auto is_settled = [&] { return has_result(key); };
  if (!is_settled()) put({path(kResults, key), key}, record_text(record), is_settled);
  remove(path(kPartial, key));
}

std::vector<std::string> Store::result_keys() const {
  std::vector<std::string> keys;
  for (const std::string& name : names_in(path(kResults))) {
    if (name.ends_with(kExtension)) keys.push_back(name.substr(0, name.size() - std::string_view(kExtension).size()));
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

void Store::put_partial(const Record& record) const {
  const std::string key = key_of(record.question);
  const auto is_settled = [&] { return has_result(key); };
  if (!is_settled()) put({path(kPartial, key), key}, record_text(record), is_settled);
}

std::string Store::mark_path(const std::string& key) const {
  return (fs::path(folder_) / kBegun / key).string();
}

void Store::note_begun(const std::string& key) const {
  // Nothing is lost with a mark, so it need not be synced.
  if (!std::ofstream(mark_path(key))) throw InputError(mark_path(key), "cannot be written");
}

bool Store::is_begun(const std::string& key) const {
  return is_there(mark_path(key));
}

void Store::forget_begun(const std::string& key) const {
  remove(mark_path(key));
}

std::optional<TaskError> Store::error(const Task& task) const {
  const std::string file = path(kErrors, error_name_of(task));
  if (!is_there(file)) return std::nullopt;
  try {
    return read_error(json::read_file(file));
  } catch (const InputError& error) {
    throw InputError(file, std::string(error.what()) + "; remove it");
  }
}

void Store::put_error(const Task& task, const TaskError& error) const {
  const std::string name = error_name_of(task);
  put({path(kErrors, name), name}, error_text(error), [&] { return is_there(path(kErrors, name)); });
}

void Store::forget_error(const Task& task) const {
  remove(path(kErrors, error_name_of(task)));
}

void Store::clean(const std::vector<std::string>& settled) const {
  std::vector<std::string> sorted = settled;
  sorted.emplace_back(kManifest);
  std::sort(sorted.begin(), sorted.end());
  for (const std::string& name : names_in(path(kTemporary))) {
    if (!std::binary_search(sorted.begin(), sorted.end(), name.substr(0, name.find('-')))) continue;
    remove((fs::path(folder_) / kTemporary / name).string());
  }
  for (const std::string& key : settled) {
    // A process that was killed between a result and the removal of what came before.
    if (!has_result(key)) continue;
    remove(path(kPartial, key));
    remove(mark_path(key));
  }
}

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigits = 64;

}  // namespace

BlockFolder::BlockFolder(std::string folder, std::function<void(const std::string&)> warn)
    : folder_(std::move(folder)), warn_(std::move(warn)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw InputError(folder_, "cannot be made: " + error.message());
  json::remove_leftovers(folder_);
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
