// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/file.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontends/text/text.hpp"
#include "model/error.hpp"

namespace remora::json {
namespace {

constexpr int kLinksFollowed = 40;
/// How temporary files are named that stand beside the file that they become: .remora-PID-NUMBER.
constexpr std::string_view kBeginning = ".remora";

std::string reason_of(std::string_view action, int code) {
  return "cannot " + std::string(action) + ": " + std::generic_category().message(code);
}

[[noreturn]] void fail(const std::string& path, std::string_view action, int code) {
  if (code == ENOSPC || code == EDQUOT) throw NoRoomError(path, reason_of(action, code));
  throw InputError(path, reason_of(action, code));
}

/// An open file, closed at the end of its life.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int number() const { return number_; }
  /// Some file systems report a failed write only here.
  [[nodiscard]] bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

/// A file to be renamed or, if that did not happen, removed.
class Temporary {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)) {}
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  [[nodiscard]] bool rename_to(const std::string& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) return false;
    path_.clear();
    return true;
  }

 private:
  std::string path_;
};

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

void write_standard_output(std::string_view text) {
  std::cout.flush();  // what the program has printed so far comes first
  if (!write_all(STDOUT_FILENO, text)) fail("standard output", "write", errno);
}

void write_directly(const std::string& path, std::string_view text) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.number() < 0 || !write_all(file.number(), text) || !file.close()) fail(path, "write", errno);
}

/// True if `path` is still the open file.
bool is_at(int descriptor, const std::string& path) {
  struct stat open {};
  struct stat named {};
  return ::fstat(descriptor, &open) == 0 && ::lstat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

/// A new file of its own name that begins so, locked while it is open. The mode is that of any new file: all that umask
/// allows.
std::pair<int, std::string> create_new(const std::string& beginning) {
  for (int i = 0;; ++i) {
    std::string path = beginning + "-" + std::to_string(::getpid()) + "-" + std::to_string(i);
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno == EEXIST) continue;
    // Where there are no locks, remove_leftovers removes nothing. What it took for a leftover before is made again.
    if (descriptor < 0 || ::flock(descriptor, LOCK_EX) != 0 || is_at(descriptor, path)) return {descriptor, path};
    ::close(descriptor);
  }
}

/// Writes the name of a file into its directory for good. Not every file system can; the file is whole either way.
void sync_directory(const std::string& target) {
  const std::filesystem::path directory = std::filesystem::path(target).parent_path();
  const Descriptor file(::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.number() >= 0) ::fsync(file.number());
}

/// `permissions`: of the file that is replaced, if there is one.
void replace(const std::string& target, std::optional<mode_t> permissions, std::string_view text,
             const std::string& beginning) {
  const std::string beside = (std::filesystem::path(target).parent_path() / kBeginning).string();
  const auto [descriptor, path] = create_new(beginning.empty() ? beside : beginning);
  if (descriptor < 0) fail(target, "write", errno);
  const Descriptor file(descriptor);
  Temporary temporary(path);
  // Closed, and so unlocked, only after it has its name: until then it looks like a leftover.
  const bool written = write_all(file.number(), text) && (!permissions || ::fchmod(file.number(), *permissions) == 0) &&
                       ::fsync(file.number()) == 0 && temporary.rename_to(target);
  if (!written) fail(target, "write", errno);
  sync_directory(target);
}

}  // namespace

namespace {

/// A quarter of this machine's memory: what is read takes several times as much as its file.
std::size_t longest_input() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) / 4 * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::string read_file(const std::string& path) {
  const bool standard_input = path == "-";
  const std::string place = standard_input ? "standard input" : path;
  const Descriptor file(standard_input ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) fail(place, "read", errno);
  const std::size_t most = longest_input();
  const auto refuse_more_than_most = [&](std::size_t bytes) {
    if (bytes > most) throw InputError(place, "is larger than a quarter of this machine's memory");
  };
  struct stat status {};
  if (::fstat(file.number(), &status) == 0) refuse_more_than_most(static_cast<std::size_t>(status.st_size));
  std::string text;
  std::array<char, 1 << 16> buffer{};
  while (true) {
    refuse_more_than_most(text.size());  // a device or a pipe may never end
    const ssize_t count = ::read(file.number(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(place, "read", errno);
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

std::optional<std::string> resolve_links(const std::string& path) {
  std::filesystem::path resolved = path;
  for (int link = 0; link < kLinksFollowed; ++link) {
    const std::string text = resolved.string();
    if (text.starts_with("/dev/") || text.starts_with("/proc/")) return std::nullopt;
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(resolved, error);
    if (error) return text;  // no link
    resolved = target.is_absolute() ? target : resolved.parent_path() / target;
  }
  fail(path, "write", ELOOP);
}

void check_writable(const std::string& path) {
  if (path == "-" || path == "/dev/stdout") return;
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) fail(path, "write", EISDIR);
    if (::access(path.c_str(), W_OK) != 0) fail(path, "write", errno);
    return;
  }
  if (path.empty()) throw InputError("output", "the file name is empty");
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string directory = parent.empty() ? "." : parent.string();
  if (::stat(directory.c_str(), &status) == 0 && !S_ISDIR(status.st_mode)) fail(path, "write", ENOTDIR);
  if (::access(directory.c_str(), W_OK | X_OK) != 0) fail(path, "write", errno);
}

bool is_model_name(const std::string& path) {
  std::string ending = std::filesystem::path(path).extension();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".onnx";
}

void remove_leftovers(const std::string& folder) {
  std::error_code error;
  auto at = std::filesystem::directory_iterator(folder.empty() ? "." : folder, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string path = at->path().string();
    const std::string name = at->path().filename().string();
    if (!name.starts_with(std::string(kBeginning) + "-") ||
        name.find_first_not_of("0123456789-", kBeginning.size()) != std::string::npos) {
      continue;
    }
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    const bool is_left = file.number() >= 0 && ::flock(file.number(), LOCK_EX | LOCK_NB) == 0;
    if (is_left && is_at(file.number(), path)) ::unlink(path.c_str());
  }
}

void write_file(const std::string& path, const std::function<void(std::ostream&)>& write,
                const std::string& temporary) {
  const std::string text = text::written(write);
  if (path == "-" || path == "/dev/stdout") return write_standard_output(text);

  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) fail(path, "write", EISDIR);
  if (exists && !S_ISREG(status.st_mode)) return write_directly(path, text);
  const std::optional<std::string> target = resolve_links(path);
  if (!target) return write_directly(path, text);
  if (!exists) return replace(*target, std::nullopt, text, temporary);
  // Renaming needs no right to write the old file; to replace a protected one would still be rude.
  if (::access(path.c_str(), W_OK) != 0) fail(path, "write", errno);
  replace(*target, status.st_mode & 07777U, text, temporary);
}

}  // namespace remora::json
