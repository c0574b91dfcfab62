// SPDX-License-Identifier: Apache-2.0
//
// A signal ends a search with the best answer so far.
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "tests/frontends/cli/run_words.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::cli {
namespace {

using test::run_words;
using Json = nlohmann::json;

class ASignal : public remora::test::TemporaryFolder {
 protected:
  /// Runs `remora` with these words, and sends it the signal as soon as it has said `sign`.
  void interrupt(std::vector<std::string> words, const std::string& sign, int signal) const {
    write("err.txt", "");
    words.insert(words.begin(), REMORA_PROGRAM);
    const pid_t child = remora::test::start_child(words, path("err.txt"));
    constexpr int kPolls = 3000;
    for (int i = 0; i < kPolls && read("err.txt").find(sign) == std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ASSERT_EQ(kill(child, signal), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "signal " << signal << ": " << read("err.txt");
  }
  [[nodiscard]] static std::int64_t own_peak(const std::string& file) {
    return Json::parse(run_words("info --json -q " + file).out)["no_recompute_peak"].get<std::int64_t>();
  }
};

TEST_F(ASignal, KeepsTheIncumbent) {
  const std::string model = REMORA_SOURCE_DIR "/tests/data/onnx/transformer_tiny.onnx";
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // Phase 2 begins with a schedule in hand; ten minutes do not end it without the period relaxation.
    interrupt({"solve", model, "--training", "--budget", "60%", "--time-limit", "600", "--without", "period-bound",
               "-o", path("schedule.json")},
              "phase 2", signal);
    EXPECT_EQ(run_words("verify -q " + model + " --training " + path("schedule.json")).code, 0);
    EXPECT_EQ(Json::parse(read("schedule.json"))["status"], "feasible");
  }
}

TEST_F(ASignal, KeepsTheBestOrder) {
  ASSERT_EQ(run_words("generate layered --ops 600 -o " + path("large.json")).code, 0);
  // The first line of the table comes once signals are taken.
  interrupt({"order", path("large.json"), "--time-limit", "600", "-o", path("ordered.json")}, "100.0 %", SIGINT);
  EXPECT_LE(own_peak(path("ordered.json")), own_peak(path("large.json")));
}

TEST_F(ASignal, KeepsTheCurve) {
  ASSERT_EQ(run_words("convert " REMORA_SOURCE_DIR "/tests/data/onnx/transformer_tiny.onnx --training -o " +
                      path("graph.json"))
                .code,
            0);
  interrupt({"sweep", path("graph.json"), "--points", "4", "--resolution", "0", "--time-limit", "600", "-o",
             path("curve.json")},
            " of 1\n", SIGINT);
  const Json points = Json::parse(read("curve.json"))["points"];
  ASSERT_GE(points.size(), 1U);
  EXPECT_TRUE(points.back().contains("duration"));
}

}  // namespace
}  // namespace remora::cli
