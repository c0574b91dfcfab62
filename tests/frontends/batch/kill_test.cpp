// SPDX-License-Identifier: Apache-2.0
//
// Whatever moment a batch is killed at, what it had is there, and what it has in the end is what it would have had.
#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <thread>

#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "tests/frontends/cli/run_words.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/fewer.hpp"
#include "tests/support/temporary_folder.hpp"

namespace remora::batch {
namespace {

using cli::test::run_words;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

/// What must be the same: status and steps by the name of the file.
using Answers = std::map<std::string, std::string>;

class Killing : public remora::test::TemporaryFolder {
 protected:
  static constexpr int kTasks = 24;
  const int kills_ = remora::test::fewer(80);

  void write_tasks() const {
    std::string text;
    for (int i = 0; i < kTasks; ++i) {
      const std::string graph = "g" + std::to_string(i / 3) + ".json";
      if (i % 3 == 0) {
        const std::string words = "generate layered --ops 20 --seed " + std::to_string(i / 3);
        ASSERT_EQ(run_words(words + " -o " + path(graph)).code, 0);
      }
      const std::string budget = std::to_string(70 + 10 * (i % 3)) + "%";
      text += json{{"id", "t" + std::to_string(i)}, {"graph", graph}, {"budget", budget}}.dump() + "\n";
    }
    text += R"({"id": "absent", "graph": "absent.json", "budget": "80%"})";
    write("m.jsonl", text);
  }

  /// With a work limit the same question has the same answer.
  [[nodiscard]] pid_t start(const std::string& out) const {
    return remora::test::start_child(
        {REMORA_PROGRAM, "batch", path("m.jsonl"), "-o", path(out), "--work-limit", "500", "--threads", "1"},
        path("err.txt"));
  }
  static int wait(pid_t child) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }

  [[nodiscard]] Answers answers(const std::string& out) const {
    Answers all;
    for (const auto& entry : std::filesystem::directory_iterator(path(out + "/results"))) {
      const std::string name = entry.path().filename().string();
      const json result = json::parse(read(out + "/results/" + name));
      EXPECT_EQ(result["key"].get<std::string>() + ".json", name);
      all.emplace(name, result["status"].get<std::string>() + result["schedule"]["steps"].dump());
    }
    return all;
  }
  [[nodiscard]] bool is_empty(const std::string& folder) const { return std::filesystem::is_empty(path(folder)); }
};

/// Everything that was there before is still there, the same.
void expect_within(const Answers& before, const Answers& after) {
  for (const auto& [name, answer] : before) {
    const auto at = after.find(name);
    ASSERT_NE(at, after.end()) << name;
    EXPECT_EQ(at->second, answer) << name;
  }
}

TEST_F(Killing, ManyTimesAtRandomMomentsLosesNothing) {
  write_tasks();
  const auto begin = Clock::now();
  const int whole = wait(start("whole"));
  ASSERT_TRUE(WIFEXITED(whole));
  EXPECT_EQ(WEXITSTATUS(whole), 65) << read("err.txt");
  // What a run takes on this machine, whatever it is.
  const auto duration = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
  const Answers expected = answers("whole");
  ASSERT_EQ(expected.size(), static_cast<std::size_t>(kTasks));

  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  // Up to a quarter of the whole: some kills come before anything is solved, some after several tasks.
  std::uniform_int_distribution<std::int64_t> moment(0, duration / 4);
  Answers before;
  int kills = 0;
  for (int runs = 0; kills < kills_; ++runs) {
    ASSERT_LT(runs, 20 * kills_);
    const pid_t child = start("killed");
    std::this_thread::sleep_for(std::chrono::microseconds(moment(random)));
    kill(child, SIGKILL);
    kills += WIFSIGNALED(wait(child)) ? 1 : 0;
    const Answers after = std::filesystem::exists(path("killed/results")) ? answers("killed") : Answers{};
    expect_within(before, after);
    before = after;
    if (after.size() == expected.size()) {
      // Done early: what is there must be right; the rest of the kills meet a new batch.
      EXPECT_EQ(after, expected);
      std::filesystem::remove_all(path("killed"));
      before.clear();
    }
  }
  EXPECT_EQ(WEXITSTATUS(wait(start("killed"))), 65);
  EXPECT_EQ(answers("killed"), expected);
  EXPECT_TRUE(is_empty("killed/temporary"));
  EXPECT_TRUE(is_empty("killed/partial"));
  EXPECT_TRUE(is_empty("killed/begun"));
  EXPECT_EQ(run_words("merge " + path("killed") + " --verify --quiet").code, 65);
}

TEST_F(Killing, OneOfSeveralWritersDoesNotDisturbTheOthers) {
  write_tasks();
  ASSERT_TRUE(WIFEXITED(wait(start("whole"))));
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) children.push_back(start("shared"));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  kill(children.front(), SIGKILL);
  wait(children.front());
  for (std::size_t i = 1; i < children.size(); ++i) {
    const int status = wait(children[i]);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 65) << read("err.txt");
  }
  EXPECT_EQ(answers("shared"), answers("whole"));
  EXPECT_TRUE(is_empty("shared/temporary"));
}

}  // namespace
}  // namespace remora::batch
