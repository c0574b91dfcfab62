// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/api.hpp"
#include "model/instance.hpp"

namespace remora {

/// The project's version, "major.minor.patch": options and what they do belong to it.
REMORA_API const char* version();

/// How a solve goes about it.
enum class Strategy : std::uint8_t {
  automatic,  ///< workers of every kind, each as it pays
  cp,         ///< complete search and neighbourhoods, both by the constraint program
  // The literature's methods, without a search of ours.
  none,    ///< the input order, no recomputation
  greedy,  ///< XLA's heuristic
  sqrt,    ///< checkpoints at segments' ends, for training graphs
  rotor,   ///< the dynamic program for chains, for training graphs
};

/// Which workers the strategy automatic has: all, or for study one kind.
enum class Workers : std::uint8_t {
  all,
  complete,  ///< the complete search
  lns,       ///< neighbourhoods of the constraint program
  local,     ///< ruin and annealing
  ruin,      ///< ruin and recreate
  anneal,    ///< annealing
};

/// Start of a search from groups' schedules, composed.
enum class GroupStart : std::uint8_t {
  automatic,  ///< on large training graphs, where nothing else is near the optimum
  on,         ///< at once, on any graph, and to the end
  off,
};

/// The covering relaxation before the search.
enum class Covering : std::uint8_t {
  off,
  lp,  ///< a quick bound on its linear program, without a solver
  on,  ///< and that program itself, then in integers
};

/// Solver of integer programs.
enum class IntegerSolver : std::uint8_t {
  highs,  ///< HiGHS if it is available, otherwise CBC
  cbc,
  off,  ///< none is solved
};

/// The runs per op that a strategy has by default: rotor's are many, all others' two.
REMORA_API int default_computes(Strategy strategy);

/// The largest time limit there is: thirty years.
inline constexpr double kNoTimeLimit = 1e9;

struct SolveOptions {
#define REMORA_CHOICE(type, name, reader, initial, help) type name = type::initial;
#define REMORA_OPTION(type, name, reader, initial, least, most, unit, help) type name = initial;
#define REMORA_INFERENCE(name, help) bool name = true;
#include "engine/base/options.def"

  // Constants of the methods, no options: tests make them small, or leave something out.
  /// Search nodes of a neighbourhood of the constraint program, at most.
  std::int64_t neighbourhood_nodes = 600;
  /// Limits on saved memory that a group is solved for, at most.
  int grid_levels = 32;
  /// The covering relaxation respects the maximum runs per op.
  bool covering_limits = true;
  /// The search starts from the covering relaxation's choice if that is better.
  bool covering_start = true;
};

/// True if the search may use all its methods: not one kind of worker alone.
inline bool is_whole_search(const SolveOptions& options) {
  return options.strategy == Strategy::automatic && options.workers == Workers::all;
}

/// Who needs an option: whoever solves, or whoever studies how.
enum class Reader : std::uint8_t { user, expert };

/// One row of the table, for help texts: the values as text.
struct OptionRow {
  const char* name;
  /// "number", "integer", "NAME,..." or a choice: "auto|on|off".
  std::string type;
  std::string initial;
  std::string range;
  std::string help;
  Reader reader;
};

/// The table in its order; its inferences are one row, `without`, at the end.
REMORA_API std::vector<OptionRow> option_rows();

/// The name as the table spells it, of one whose words are joined by - or by _.
REMORA_API std::string option_name(std::string name);

/// Sets one option from text; words of the name are joined by _ or by -. `without` takes inferences, separated by commas, or
/// "nothing". Throws InputError that names the option and what was expected; ranges are check_options'.
REMORA_API void set_option(SolveOptions& options, const std::string& name, const std::string& text);

/// Throws InputError for an option out of its range, and for options that the strategy ignores.
REMORA_API void check_options(const SolveOptions& options);

/// Every option as name and value, for the report.
REMORA_API std::vector<std::pair<std::string, std::string>> describe_options(const SolveOptions& options);

/// "auto", "cp", ...
REMORA_API const char* strategy_name(Strategy strategy);
/// "auto, cp, none, ..."
REMORA_API std::string strategy_names();

}  // namespace remora
