// SPDX-License-Identifier: Apache-2.0
//
// The folder that a batch writes into, which any number of processes on any number of machines may share.
//
//     DIR/manifest.jsonl        the tasks, with their options written out
//     DIR/results/KEY.json      answers, each written once
//     DIR/partial/KEY.json      interrupted tasks: the best schedule so far
//     DIR/errors/NAME.json      tasks that could not be asked
//     DIR/begun/KEY             a task that is in work, or that a killed process had in work
//     DIR/temporary/            files on their way to one of these
//     DIR/blocks/               groups of graphs solved before (BlockFolder)
//
// Every file is written in `temporary`, synced and renamed into its place, so that it is there whole or not at all,
// whenever a process is killed. There are no locks, which not every file system of a cluster has: two processes that
// solve the same task both do the work, and the first result stays. What a killed process leaves in `temporary` bears
// the name of its task, and goes when the task is settled; whoever still writes there then finds the task settled too,
// or writes again.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/callbacks.hpp"
#include "frontends/batch/manifest.hpp"
#include "frontends/batch/question.hpp"

namespace remora::batch {

/// Safe to use from several threads and processes at once. All calls throw InputError, with the path, for what cannot
/// be read or written.
class Store {
 public:
  /// Makes and checks nothing: where there is no such folder, it is empty.
  explicit Store(std::string folder) : folder_(std::move(folder)) {}
  /// Makes the folders where they are missing.
  static Store create(const std::string& folder);
  /// Throws if there is no batch in the folder.
  static Store open(const std::string& folder);

  [[nodiscard]] std::string manifest_path() const { return path("manifest.jsonl"); }
  /// The folders of answers and errors.
  [[nodiscard]] std::vector<std::string> record_folders() const;
  /// True if it is there and says the same.
  [[nodiscard]] bool has_manifest(const std::vector<Task>& tasks) const;
  /// Writes it unless it is there, the same.
  void put_manifest(const std::vector<Task>& tasks) const;

  [[nodiscard]] bool has_result(const std::string& key) const;
  [[nodiscard]] std::optional<Record> result(const std::string& key) const { return record("results", key); }
  /// Files the answer unless there is one, and forgets what was partial.
  void put_result(const Record& record) const;
  /// The keys of all results, sorted.
  [[nodiscard]] std::vector<std::string> result_keys() const;

  [[nodiscard]] std::optional<Record> partial(const std::string& key) const { return record("partial", key); }
  /// Files it unless there is a result.
  void put_partial(const Record& record) const;

  /// That a task is in work: a mark that stays where the process is killed.
  void note_begun(const std::string& key) const;
  [[nodiscard]] bool is_begun(const std::string& key) const;
  void forget_begun(const std::string& key) const;

  [[nodiscard]] std::optional<TaskError> error(const Task& task) const;
  void put_error(const Task& task, const TaskError& error) const;
  void forget_error(const Task& task) const;

  /// Removes what killed processes left behind of the tasks of these keys or error names, which are settled.
  void clean(const std::vector<std::string>& settled) const;

 private:
  [[nodiscard]] std::string path(const std::string& name) const;
  [[nodiscard]] std::string path(const char* kind, const std::string& name) const;
  [[nodiscard]] std::string mark_path(const std::string& key) const;
  [[nodiscard]] std::optional<Record> record(const char* kind, const std::string& key) const;
  struct File {
    std::string path{};
    /// Key in the name of its temporary file.
    std::string task{};
  };
  /// `is_settled`: whether the file is not needed any more should it fail to get into its place.
  void put(const File& file, const std::string& text, const std::function<bool()>& is_settled) const;

  std::string folder_;
};

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
