// SPDX-License-Identifier: Apache-2.0
//
// The files of one run of a command: what it reads and what it writes, and that these are never the same.
//
// Arguments notes here every file that the command line names (options of type InputFile and OutputFile); a command
// adds those that it finds named inside others: a model's external data, the schedules of a curve, the graphs of a
// manifest. Whichever comes second is refused, before the work if it is known before. Two names are one file if they
// lead to the same regular file, through symbolic and hard links.
//
// All of frontends/cli writes through Files::write, so that no command can forget it (tests/frontends/cli/files_test).
#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace remora::cli {

class Files {
 public:
  /// Notes that `path` is read, "-" being standard input; `what` it is: "the file of --device". It need not exist.
  /// Throws UsageError if it is one that is written.
  void will_read(const std::string& path, const std::string& what);
  /// The same of every file in `folder`, and in the folders inside it.
  void will_read_in(const std::string& folder, const std::string& what);

  /// Notes that `path` is written, "-" being standard output, as `option` says: "--output". Throws UsageError if it is
  /// one that is read, or that another option writes. Removes what killed runs left in the folder where it goes.
  void will_write(const std::string& path, const std::string& option);

  /// The same of every file in `folder` that there is and whose name begins with `prefix`.
  void will_write_in(const std::string& folder, const std::string& prefix, const std::string& option);

  /// Notes that the file is read, and returns its bytes. Throws as will_read and json::read_file do.
  std::string read(const std::string& path, const std::string& what);

  /// Writes as json::write_file does. Throws UsageError if `path` is a file that is read.
  void write(const std::string& path, const std::function<void(std::ostream&)>& write) const;

  /// True if any file is to be written.
  [[nodiscard]] bool writes() const { return !written_.empty(); }

 private:
  /// Identity of a file: the place on the disk, or, where there is nothing yet, the path without links.
  struct Identity {
    dev_t device = 0;
    ino_t number = 0;
    std::string path{};
    bool operator==(const Identity&) const = default;
  };
  struct File {
    std::string path{};
    /// "the file of --device", or "--output".
    std::string what{};
    Identity identity{};
  };
  /// Nothing for what is no regular file: a pipe, a terminal, /dev/null.
  static std::optional<Identity> identity_of(const std::string& path);
  void clean(const std::string& folder);
  void expect_not_read(const std::string& path, const std::string& option, const Identity& identity) const;

  std::vector<File> read_{};
  std::vector<File> written_{};
  std::set<std::string> cleaned_{};
};

}  // namespace remora::cli
