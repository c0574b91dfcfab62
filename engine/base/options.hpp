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

/// Which workers take part in a solve.
enum class Strategy {
  automatic,     ///< workers of every kind, each as it pays
  cp,            ///< complete search and neighbourhoods, both by the constraint program
  complete,      ///< the complete search alone
  lns,           ///< neighbourhoods of the constraint program alone
  local,         ///< ruin and annealing
  ruin,          ///< ruin and recreate alone
  anneal,        ///< annealing alone
  hierarchical,  ///< groups' options composed, then the workers of automatic
  // The literature's methods, without a search of ours.
  none,          ///< the input order, no recomputation
  greedy,        ///< XLA's heuristic
  sqrt,          ///< checkpoints at segments' ends, for training graphs
  rotor,         ///< the dynamic program for chains, for training graphs
  twremat,       ///< tree decomposition, any order
  checkmate,     ///< Checkmate's mixed integer program
  checkmate_lp,  ///< its linear relaxation, rounded
};

/// How the hierarchy finds its groups.
enum class Grouping {
  h_partition,  ///< HiRemate's greedy choice of groups that share little memory with the rest
  chain,        ///< Rockmate's blocks between 1-separators
  intervals,    ///< stretches of the input order
};

/// The problem that a strategy is asked to solve where the user does not say: order and computes an op. The methods
/// that need other orders, or an op more often, are given them; everything else keeps the input order and two computes.
REMORA_API Problem default_problem(Strategy strategy);

/// The largest time limit there is: thirty years.
inline constexpr double kNoTimeLimit = 1e9;

struct SolveOptions {
  Strategy strategy = Strategy::automatic;
  Grouping grouping = Grouping::intervals;
#define REMORA_OPTION(type, name, reader, initial, least, most, help) type name = initial;
#include "engine/base/options.def"
#undef REMORA_OPTION
};

/// Who needs an option: whoever solves, or whoever studies how.
enum class Reader { user, expert };

/// One row of the table, for help texts: the values as text.
struct OptionRow {
  const char* name;
  const char* type;
  std::string initial;
  std::string range;
  const char* help;
  Reader reader;
};

/// The table in its order.
REMORA_API std::vector<OptionRow> option_rows();

/// The name as the table spells it, of one whose words are joined by - or by _.
REMORA_API std::string option_name(std::string name);

/// Sets one option from text, "strategy" and "grouping" among them; words of the name are joined by _ or by -. Throws
/// InputError that names the option and what was expected; ranges are check_options'.
REMORA_API void set_option(SolveOptions& options, const std::string& name, const std::string& text);

/// Throws InputError for an option out of its range.
REMORA_API void check_options(const SolveOptions& options);

/// Every option as name and value, for the report.
REMORA_API std::vector<std::pair<std::string, std::string>> describe_options(const SolveOptions& options);

/// "auto", "cp", ...
REMORA_API const char* strategy_name(Strategy strategy);
REMORA_API Strategy strategy_from_name(const std::string& name);
/// "auto, cp, complete, ..."
REMORA_API std::string strategy_names();

/// "h-partition", "chain", "intervals".
REMORA_API const char* grouping_name(Grouping grouping);
REMORA_API Grouping grouping_from_name(const std::string& name);

}  // namespace remora
