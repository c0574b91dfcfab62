// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/file.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/error.hpp"
#include "tests/frontends/formats/samples.hpp"

namespace remora::json {
namespace {

namespace fs = std::filesystem;

void write_text(const fs::path& path, const std::string& text) {
  write_file(path.string(), [&](std::ostream& out) { out << text; });
}

/// A directory of its own for every test.
class File : public ::testing::Test {
 protected:
  File() {
    std::string pattern = (fs::temp_directory_path() / "remora-file-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~File() override {
    fs::permissions(directory_, fs::perms::owner_all);
    fs::remove_all(directory_);
  }

  [[nodiscard]] std::vector<std::string> listing() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_)) names.push_back(entry.path().filename().string());
    return names;
  }

  fs::path directory_;
};

TEST_F(File, ReadsWhatWasWritten) {
  const std::string text = std::string("line\r\n\0binary \xff", 15) + std::string(200000, 'x');
  write_text(directory_ / "out", text);
  EXPECT_EQ(read_file((directory_ / "out").string()), text);
  write_text(directory_ / "out", "");
  EXPECT_EQ(read_file((directory_ / "out").string()), "");
  EXPECT_EQ(listing(), std::vector<std::string>{"out"});
}

TEST_F(File, TheTemporaryFileIsWhereTheCallerWantsIt) {
  const std::string path = (directory_ / "out").string();
  const std::string beginning = (directory_ / "temporary" / "mine").string();
  const auto write = [](std::ostream& out) { out << "text"; };
  EXPECT_THROW(write_file(path, write, beginning), InputError);
  fs::create_directory(directory_ / "temporary");
  // A killed process of the same number has left one there.
  write_text(beginning + "-" + std::to_string(::getpid()) + "-0", "half");
  write_file(path, write, beginning);
  EXPECT_EQ(read_file(path), "text");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_ / "temporary"), fs::directory_iterator()), 1);
}

TEST_F(File, LeftoversOfKilledProcessesAreRemovedAndNothingElse) {
  for (const char* name : {".remora-1-0", ".remora-22-3", ".remora-notes", ".remora", "remora-1-0"}) {
    write_text(directory_ / name, "half");
  }
  fs::create_directory(directory_ / ".remora-7-7");
  const fs::path in_work = directory_ / ".remora-5-5";
  write_text(in_work, "somebody writes here");
  const int descriptor = ::open(in_work.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(descriptor, LOCK_EX), 0);
  remove_leftovers(directory_.string());
  remove_leftovers((directory_ / "absent").string());
  std::vector<std::string> names = listing();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{".remora", ".remora-5-5", ".remora-7-7", ".remora-notes", "remora-1-0"}));
  ::close(descriptor);
  remove_leftovers(directory_.string());
  EXPECT_FALSE(fs::exists(in_work));
}

TEST_F(File, IsWrittenWhileOthersRemoveLeftovers) {
  std::atomic<bool> done = false;
  std::thread cleaner([&] {
    while (!done) remove_leftovers(directory_.string());
  });
  for (int i = 0; i < 100; ++i) write_text(directory_ / "out", std::to_string(i));
  done = true;
  cleaner.join();
  EXPECT_EQ(read_file((directory_ / "out").string()), "99");
  EXPECT_EQ(listing(), std::vector<std::string>{"out"});
}

TEST_F(File, WritesIntoTheCurrentDirectory) {
  const fs::path before = fs::current_path();
  fs::current_path(directory_);
  write_text("bare", "text");
  fs::current_path(before);
  EXPECT_EQ(read_file((directory_ / "bare").string()), "text");
}

TEST_F(File, SaysWhyItCannotRead) {
  const std::string absent = (directory_ / "absent").string();
  EXPECT_EQ(fault_of([&] { static_cast<void>(read_file(absent)); }).what,
            absent + ": cannot read: No such file or directory");
  EXPECT_EQ(fault_of([&] { static_cast<void>(read_file(directory_.string())); }).what,
            directory_.string() + ": cannot read: Is a directory");
  write_text(directory_ / "huge", "");
  fs::resize_file(directory_ / "huge", std::uintmax_t{1} << 42);  // of holes
  EXPECT_NE(fault_of([&] { static_cast<void>(read_file((directory_ / "huge").string())); }).what.find("larger than"),
            std::string::npos);
}

TEST_F(File, SaysWhyItCannotWrite) {
  const std::string lost = (directory_ / "no" / "out").string();
  EXPECT_EQ(fault_of([&] { write_text(lost, "x"); }).what, lost + ": cannot write: No such file or directory");
  EXPECT_EQ(fault_of([&] { write_text(directory_, "x"); }).what,
            directory_.string() + ": cannot write: Is a directory");
  const std::string below_file = (directory_ / "file" / "out").string();
  write_text(directory_ / "file", "old");
  EXPECT_EQ(fault_of([&] { write_text(below_file, "x"); }).what, below_file + ": cannot write: Not a directory");
  EXPECT_EQ(fault_of([&] { check_writable(below_file); }).what, below_file + ": cannot write: Not a directory");
  EXPECT_EQ(listing(), std::vector<std::string>{"file"});
}

TEST_F(File, KeepsTheOldFileWhenTheWriterFails) {
  write_text(directory_ / "out", "old");
  const auto failing = [&] {
    write_file((directory_ / "out").string(), [](std::ostream& out) {
      out << "half";
      throw InputError("place", "no");
    });
  };
  EXPECT_EQ(fault_of(failing).place, "place");
  EXPECT_EQ(read_file((directory_ / "out").string()), "old");
  EXPECT_EQ(listing(), std::vector<std::string>{"out"});
}

TEST_F(File, KeepsPermissions) {
  const fs::path path = directory_ / "out";
  write_text(path, "old");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  write_text(path, "new");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0640U);
}

TEST_F(File, GivesANewFileTheUsualPermissions) {
  write_text(directory_ / "ours", "x");
  std::ofstream(directory_ / "theirs") << "x";
  EXPECT_EQ(fs::status(directory_ / "ours").permissions(), fs::status(directory_ / "theirs").permissions());
}

TEST_F(File, RefusesReadOnlyFilesAndDirectories) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everything";
  write_text(directory_ / "out", "old");
  fs::permissions(directory_ / "out", fs::perms::owner_read);
  EXPECT_NE(fault_of([&] { write_text(directory_ / "out", "x"); }).what.find("Permission denied"), std::string::npos);
  fs::permissions(directory_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_NE(fault_of([&] { write_text(directory_ / "new", "x"); }).what.find("Permission denied"), std::string::npos);
}

TEST_F(File, WritesThroughSymbolicLinks) {
  fs::create_directory(directory_ / "sub");
  write_text(directory_ / "sub" / "target", "old");
  fs::create_symlink("sub/target", directory_ / "link");
  fs::create_symlink(directory_ / "link", directory_ / "link-to-link");
  write_text(directory_ / "link-to-link", "new");
  EXPECT_TRUE(fs::is_symlink(directory_ / "link-to-link"));
  EXPECT_TRUE(fs::is_symlink(directory_ / "link"));
  EXPECT_EQ(read_file((directory_ / "sub" / "target").string()), "new");

  fs::create_symlink("sub/later", directory_ / "dangling");
  write_text(directory_ / "dangling", "made");
  EXPECT_EQ(read_file((directory_ / "sub" / "later").string()), "made");

  fs::create_symlink("loop", directory_ / "loop");
  EXPECT_NE(fault_of([&] { write_text(directory_ / "loop", "x"); }).what.find("symbolic links"), std::string::npos);
}

TEST_F(File, WritesDevicesDirectly) {
  write_text("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_EQ(fault_of([] { write_text("/dev/full", "x"); }).what, "/dev/full: cannot write: No space left on device");
}

TEST_F(File, WritesAndReadsPipes) {
  const fs::path pipe = directory_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = read_file(pipe.string()); });
  write_text(pipe, std::string(100000, 'p'));
  reader.join();
  EXPECT_EQ(received, std::string(100000, 'p'));
  EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST_F(File, WritesStandardOutput) {
  ::testing::internal::CaptureStdout();
  write_text("-", "to the terminal");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "to the terminal");
}

}  // namespace
}  // namespace remora::json
