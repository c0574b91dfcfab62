// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/process.hpp"

#include <chrono>
#include <csignal>
#include <thread>

#include "model/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::bench {
namespace {

using Process = remora::test::TemporaryFolder;

TEST_F(Process, TellsHowItEndedAndItsLastWords) {
  const ProcessOutcome outcome =
      run_process({"sh", "-c", "echo out; echo first >&2; echo last words >&2; exit 7"}, {.patience = 60});
  EXPECT_EQ(outcome.code, 7);
  EXPECT_EQ(outcome.last_error, "last words");
  EXPECT_FALSE(outcome.late);
}

TEST_F(Process, IsPinnedToAsManyCoresAsAsked) {
  EXPECT_EQ(run_process({"sh", "-c", "nproc > " + path("cores")}, {.cores = 1, .patience = 60}).code, 0);
  EXPECT_EQ(read("cores"), "1\n");
}

/// Whether the process whose number the file holds is there and no zombie.
bool runs(const std::string& file) {
  std::ifstream number(file);
  std::string process;
  number >> process;
  std::ifstream status("/proc/" + process + "/stat");
  std::string word;
  status >> word >> word >> word;
  return status && word != "Z";
}

/// The system ends a killed process in its own time.
bool ends(const std::string& file) {
  for (int i = 0; i < 1000 && runs(file); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return !runs(file);
}

TEST_F(Process, IsEndedWhenItHangsWithAllItsChildren) {
  const ProcessOutcome outcome =
      run_process({"sh", "-c", "sleep 1000 & echo $! > " + path("child") + "; wait"}, {.patience = 0.3});
  EXPECT_TRUE(outcome.late);
  EXPECT_EQ(outcome.code, 128 + SIGTERM);
  EXPECT_TRUE(ends(path("child")));
}

TEST_F(Process, LeavesNothingBehind) {
  EXPECT_EQ(run_process({"sh", "-c", "sleep 1000 & echo $! > " + path("child")}, {.patience = 60}).code, 0);
  EXPECT_TRUE(ends(path("child")));
}

TEST_F(Process, MemoryIsItsOwn) {
  const std::vector<char> ours(100'000'000, 'x');
  const ProcessOutcome outcome = run_process({"sleep", "0.2"}, {.patience = 60});
  EXPECT_GT(outcome.peak_kibibytes, 100);
  EXPECT_LT(outcome.peak_kibibytes, 50'000) << ours.size();
}

TEST_F(Process, TellsWhatItSaidInPrintableLetters) {
  EXPECT_EQ(run_process({"sh", "-c", "printf 'a\\377b\\n' >&2"}, {.patience = 60}).last_error, "a?b");
}

TEST_F(Process, IsKilledWhenCancelled) {
  const std::atomic<bool> cancel = true;
  const ProcessOutcome outcome = run_process({"sleep", "1000"}, {.patience = 2000, .cancel = &cancel});
  EXPECT_TRUE(outcome.cancelled);
  EXPECT_EQ(outcome.code, 128 + SIGKILL);
}

TEST_F(Process, WritesMoreErrorsThanAPipeHolds) {
  const ProcessOutcome outcome =
      run_process({"sh", "-c", "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done >&2"}, {.patience = 60});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.last_error, "line 19999");
}

TEST_F(Process, SaysWhatCannotBeStarted) {
  EXPECT_THROW(run_process({path("no-such-program")}, {.patience = 1}), InputError);
}

}  // namespace
}  // namespace remora::bench
