// SPDX-License-Identifier: Apache-2.0
#include "frontends/bench/process.hpp"

#include <csignal>

#include "model/error.hpp"
#include "tests/frontends/bench/temporary_folder.hpp"

namespace remora::bench {
namespace {

using Process = TemporaryFolder;

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

TEST_F(Process, IsEndedWhenItHangsWithAllItsChildren) {
  const ProcessOutcome outcome = run_process({"sh", "-c", "sleep 1000; exit 0"}, {.patience = 0.1});
  EXPECT_TRUE(outcome.late);
  EXPECT_EQ(outcome.code, 128 + SIGTERM);
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
