// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "engine/base/callbacks.hpp"
#include "frontends/batch/question.hpp"
#include "frontends/cli/reading/graph_source.hpp"

namespace remora::cli {

/// Solves a batch's tasks as `remora solve` does. Interrupted tasks go on from their schedule, with what is left of
/// their limits; a method that does not start from a schedule begins anew. Every schedule is verified.
class TaskSolver : public batch::Solver {
 public:
  /// `cancel`: ends the solve in work with its incumbent; may be null, must outlive the solver. `quiet`: no warnings
  /// about graphs on standard error. `progress`: of every solve; may be empty. `blocks`: what tasks share; may be null,
  /// must outlive the solver.
  explicit TaskSolver(const std::atomic<bool>* cancel, bool quiet = true,
                      std::function<void(const Progress&)> progress = {}, BlockStore* blocks = nullptr)
      : cancel_(cancel), quiet_(quiet), progress_(std::move(progress)), blocks_(blocks) {}

  batch::Settings settings(const batch::Task& task) override;
  std::optional<batch::Answer> solve(const batch::Request& request) override;

 private:
  std::optional<batch::Answer> solve(const batch::Request& request, const LoadedDeviceGraph& loaded,
                                     const Arguments& arguments);

  const std::atomic<bool>* cancel_;
  bool quiet_;
  std::function<void(const Progress&)> progress_;
  BlockStore* blocks_;
};

/// Replays a record's schedule on the task's graph, and compares it with what was asked. What is wrong with it, in one
/// line; empty if nothing is, and, with a warning on standard error, for a graph that is no more there or another now.
std::string verify_record(const batch::Task& task, const batch::Record& record);

}  // namespace remora::cli
