// SPDX-License-Identifier: Apache-2.0
//
// Results of the relaxation for a search: a bound in whole numbers, and plans.
//
//     linear program -> bound; what costs too much below the incumbent goes out
//                    -> a dive: a solution, a plan
//     integer program below the incumbent: there is none, so that the incumbent is the optimum; or a solution, a plan; where
//                       that breaks a budget, periods end there and runs again have their own memory; from the start
//                    -> or it takes too long: of the incumbent's solution all but a part is fixed, the rest solved to the end
//                       (a large neighbourhood): plans
//
// Steps (Next), and their successors:
//
//     [relax] ---> [dive] ---> [whole] ----> [improve] -+
//        ^                      |   ^                   |  again, and back after some neighbourhoods that have taken
//        |   a plan breaks      |   |                   |  as long as the integer program
//        +------ a budget ------+   +-------------------+
//
// none where the graph is too large, or under a work limit the program.
//
// A plan of the relaxation may break budgets: the search mends it. The bound of linear programs is proved in whole numbers;
// that of integer programs is CBC's word.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/bound/periods/period_solver.hpp"
#include "engine/devices/program.hpp"
#include "model/random.hpp"

namespace remora::devices {

struct ProverUpdate {
  /// No schedule that is looked for costs less.
  std::int64_t bound = 0;
  /// No schedule holds the limits.
  bool infeasible = false;
  std::vector<Plan> plans{};
  /// In units of the search.
  std::int64_t work = 0;
  /// Nothing more will come.
  bool finished = false;
};

class Prover {
 public:
  /// Graph and problem outlive it.
  Prover(const DeviceGraph& graph, const Problem& problem, std::uint64_t seed);

  struct Limits {
    /// Plans that cost less are sought; never more than before.
    std::int64_t below = kNoWay;
    /// The best plan known, which costs that; may be null.
    const EvaluatedPlan* incumbent = nullptr;
    std::function<bool()> interrupted{};
    /// Seconds for one neighbourhood; without them, nodes alone.
    double seconds = 0;
  };

  /// A linear program, a dive, an integer program or a neighbourhood.
  ProverUpdate step(const Limits& limits);

 private:
  /// A program, where memory is counted in it, and what its linear program has said.
  struct Relaxation {
    Detail detail{};
    std::unique_ptr<Program> program{};
    std::vector<double> prices{};
    /// Below this the reduced costs were used last.
    std::int64_t ruled_below = kNoWay;
  };

  void build(Relaxation& relaxation) const;
  [[nodiscard]] static bool is_within(const Limits& limits, const Relaxation& relaxation);
  bool solve(Relaxation& relaxation, const Limits& limits, ProverUpdate& update);
  Relaxation& finer(const Limits& limits, ProverUpdate& update);
  ProverUpdate relax(const Limits& limits);
  ProverUpdate dive(const Limits& limits);
  ProverUpdate solve_whole(const Limits& limits);
  ProverUpdate improve(const Limits& limits);
  ProverUpdate improve_a_while(const Limits& limits);
  /// The limits outlive them.
  [[nodiscard]] static IntegerLimits integer_limits(const Limits& limits, double seconds);
  void rule_out(Relaxation& relaxation, std::int64_t below);
  bool refine(const Plan& plan, Detail& detail) const;
  std::vector<bool> neighbourhood(const Program& program, std::size_t most);
  [[nodiscard]] static std::int64_t work_of(const remora::Program& program);

  enum class Next : std::uint8_t {
    relax,    ///< the linear program
    dive,     ///< a plan of its solution
    whole,    ///< the integer program
    improve,  ///< a neighbourhood of the incumbent
    none,     ///< nothing more
  };
  /// In the integer program.
  enum class Branching : std::uint8_t {
    cuts,     ///< as the solver likes, with cuts
    devices,  ///< on where ops run first before all else, in many nodes without cuts
  };

  Instance instance_;
  Allowed allowed_;
  Random random_;
  Relaxation whole_;
  /// With more memory counted; without a program where it is the same.
  Relaxation finer_;
  Next next_ = Next::relax;
  std::int64_t bound_ = 0;
  /// Times the seconds for one neighbourhood: what the whole program may take.
  double time_factor_ = 2;
  Branching branching_ = Branching::cuts;
  /// Until the whole program is tried again: neighbourhoods, and CPU seconds, as many as it took the last time.
  int improvements_ = 0;
  double owed_ = 0;
  /// CPU seconds of the last finer linear program, and of neighbourhoods since.
  double relaxing_ = 0;
  double improving_ = 0;
  /// Columns of a neighbourhood.
  double size_;
};

}  // namespace remora::devices
