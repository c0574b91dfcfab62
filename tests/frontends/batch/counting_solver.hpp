// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/batch/question.hpp"

namespace remora::batch::test {

/// An answer without steps, which is one for every graph.
inline Answer answer_of(const std::string& status) {
  std::string schedule =
      R"({"format": "remora-schedule", "version": 1, "graph": "g", "status": "unknown", "order": "input", "budget": 1, )"
      R"("duration": 0, "baseline_duration": 0, "overhead": 0.0, "peak_memory": 0, "baseline_peak_memory": 0, )"
      R"("lower_bound": 0, "gap": 1.0, "steps": []})";
  return {.status = status, .schedule = std::move(schedule), .seconds = 1.5, .work = 10, .threads = 1};
}

/// Stands in for the solver: notes what it is asked and says what it is told to.
class CountingSolver : public Solver {
 public:
  explicit CountingSolver(std::function<std::optional<Answer>(const Request&)> say =
                              [](const Request&) { return answer_of("unknown"); })
      : say_(std::move(say)) {}

  Settings settings(const Task& task) override {
    Settings settings;
    for (const auto& [name, values] : task.options) settings.emplace_back(name, values.front());
    return settings;
  }
  std::optional<Answer> solve(const Request& request) override {
    asked.push_back(request.task.id);
    return say_(request);
  }

  std::vector<std::string> asked{};

 private:
  std::function<std::optional<Answer>(const Request&)> say_;
};

}  // namespace remora::batch::test
