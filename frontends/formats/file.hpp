// SPDX-License-Identifier: Apache-2.0
//
// Whole files in, whole files out.
#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "model/api.hpp"
#include "model/error.hpp"

namespace remora::json {

/// The disk is full, or the user's share of it.
class REMORA_API NoRoomError : public InputError {
 public:
  using InputError::InputError;
};

/// The bytes of the file, or of standard input for "-". Throws InputError with the path and the system's reason, also for what
/// is larger than a quarter of this machine's memory.
REMORA_API std::string read_file(const std::string& path);

/// Calls `write` on a stream and puts what it wrote into the file, entirely or not at all: a temporary file next to
/// `path` is written, synced and renamed into place, so that a reader sees the old file or the new one, never half of
/// it. On any failure, one of `write` included, the old file stays, nothing else is left, and the exception comes
/// through (for the system's failures an InputError with the path and the reason, NoRoomError for a full disk).
///
/// An existing file keeps its permissions; a read-only one is an error. A symbolic link stays: the file it points to is
/// replaced. "-" and "/dev/stdout" mean standard output. A path that is no regular file (a pipe, /dev/null), or one
/// under /dev or /proc, is written directly.
///
/// `temporary`: prefix of the temporary file's path, to find the remains of a killed process; on the file system of
/// `path`. Empty for ".remora" next to `path`.
REMORA_API void write_file(const std::string& path, const std::function<void(std::ostream&)>& write,
                           const std::string& temporary = "");

/// Removes what write_file left in the folder where a process was killed at it: temporary files that no process has
/// open any more, as their locks show. Where a file system has no locks they stay. Files that cannot be removed stay,
/// too.
REMORA_API void remove_leftovers(const std::string& folder);

/// Throws the InputError that write_file(path, ...) would run into, as far as it can be foreseen: before hours of work.
REMORA_API void check_writable(const std::string& path);

/// True if the file is named as ONNX models are, in whatever case.
REMORA_API bool is_model_name(const std::string& path);

/// The file that `path` means after all symbolic links, which need not exist yet: the one that write_file replaces.
/// Nothing for one under /dev or /proc, where a link may stand for an open file that has no name. Throws InputError for
/// links that never end.
REMORA_API std::optional<std::string> resolve_links(const std::string& path);

/// The text of a JSON document, which the readers take. A type of its own, so that no file's name passes for it:
///
///     json::read_graph(json::Text(json::read_file("graph.json")))   reads the file
///     json::read_graph("graph.json")                                does not compile
///
/// It holds no copy: the text must outlive it, as a temporary does to the end of its expression.
class Text {
 public:
  explicit constexpr Text(std::string_view text) : text_(text) {}
  [[nodiscard]] constexpr std::string_view view() const { return text_; }

 private:
  std::string_view text_;
};

}  // namespace remora::json
