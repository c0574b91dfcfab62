// SPDX-License-Identifier: Apache-2.0
//
// A benchmark suite: instances x budgets x contenders x seeds, each under a limit (docs/benchmark.md has the format).
//
//     {"format": "remora-suite", "version": 1, "name": "quick", "time_limit": 5, "threads": 2, "seeds": [1],
//      "instances": [{"name": "layered-100", "make": ["remora", "generate", "layered", "--ops", "100"]},
//                    {"name": "rl100", "file": "../../../shared/instances/rl100.json"},
//                    {"name": "deep", "file": "deep.json", "budgets": ["40%"], "time_limit": 300},
//                    {"folder": "{1}"}],
//      "budgets": ["90%", "80%"],
//      "contenders": ["auto", {"name": "auto, 3 computes", "arguments": ["--max-computes", "3"]},
//                     {"name": "moccasin", "command": ["../peers/moccasin", "{graph}", "{budget}", "{output}"]}]}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace remora::bench {

/// What others published of the network that an instance is made after. Orientation, not a contender: their graph,
/// their machine and their way to measure are others.
struct Reference {
  /// Whose it is.
  std::string name{};
  /// Per cent more than without recompute, of the durations that their schedule adds up to, as ours does.
  double overhead = 0;
  /// Peak in per cent of that without recompute.
  double relative_peak = 0;
  /// Until their schedule was there.
  double minutes = 0;
};

struct SuiteInstance {
  /// Unique in the suite.
  std::string name{};
  /// A graph in any format that is read; empty if it is made.
  std::string file{};
  /// The program ("remora" or "remora_zoo", which stand beside each other) and its arguments; `-o FILE` is added.
  std::vector<std::string> make{};
  /// How `remora convert` reads it: "--training" and the like.
  std::vector<std::string> reading{};
  /// Instead of the suite's budgets, where given.
  std::vector<std::string> budgets{};
  /// Seconds a run, instead of the suite's limit, where given.
  std::optional<double> time_limit{};
  std::optional<Reference> reference{};
};

/// One of those that are compared.
struct Contender {
  std::string name{};
  /// Of `remora solve`; empty where there is a command.
  std::vector<std::string> arguments{};
  /// Another program, with {graph}, {budget} (bytes), {time_limit}, {threads}, {seed} and {output} replaced; it writes
  /// a remora-schedule and ends with the exit codes of `remora solve`.
  std::vector<std::string> command{};
  /// Arguments or command as the suite has them, in one line.
  std::string asked{};
  /// Instead of the suite's seeds, where given: one is enough for what draws no lots.
  std::vector<std::int64_t> seeds{};
  /// It is not asked about larger graphs; 0 for any.
  std::int64_t most_ops = 0;
};

struct Suite {
  std::string name{};
  /// Seconds a run, of the instances that have no limit of their own.
  double time_limit = 60;
  /// Threads of a run, each pinned to a core.
  int threads = 2;
  std::vector<std::int64_t> seeds{};
  std::vector<std::string> budgets{};
  std::vector<SuiteInstance> instances{};
  std::vector<Contender> contenders{};
};

/// The suite in `text`. Paths (of files and folders, and of a command's program and arguments that begin with ./ or
/// ../) are taken from `folder`; "{1}", "{2}", ... in them are replaced by `parameters`, all of which must be used. A
/// folder becomes one instance a file in it. Throws InputError with the JSON path.
Suite read_suite(std::string_view text, const std::string& folder, const std::vector<std::string>& parameters);

}  // namespace remora::bench
