// SPDX-License-Identifier: Apache-2.0
//
// What the relaxation over several devices (device_program.hpp) gives a search: a bound in whole numbers, and plans.
//
//     linear program -> bound; what costs too much below the incumbent goes out
//                    -> a dive: a solution, a plan
//     integer program below the incumbent: there is none, so that the incumbent is the optimum; or a solution, a plan; where
//                       that breaks a budget, periods end there and runs again have their own memory; from the start
//                    -> or it takes too long: of the incumbent's solution all but a part is fixed, the rest solved to the end
//                       (a large neighbourhood): plans
//
// A plan of the relaxation may break budgets: the search mends it. The bound of linear programs is proved in whole numbers;
// that of integer programs is CBC's word.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/devices/device_plan.hpp"
#include "engine/devices/device_program.hpp"
#include "model/random.hpp"

namespace remora {

struct DeviceNews {
  /// No schedule that is looked for costs less.
  std::int64_t bound = 0;
  /// No schedule holds the limits.
  bool infeasible = false;
  std::vector<DevicePlan> plans{};
  /// In units of the search.
  std::int64_t work = 0;
  /// Nothing more will come.
  bool finished = false;
};

class DeviceProver {
 public:
  /// Graph and problem outlive it.
  DeviceProver(const DeviceGraph& graph, const DeviceProblem& problem, std::uint64_t seed);

  struct Limits {
    /// What costs less is looked for; never more than before.
    std::int64_t below = kNoWay;
    /// The best plan known, which costs that; may be null.
    const EvaluatedPlan* incumbent = nullptr;
    std::function<bool()> interrupted{};
    /// Seconds for one neighbourhood; without them, nodes alone.
    double seconds = 0;
  };

  /// A linear program, a dive, an integer program or a neighbourhood.
  DeviceNews step(const Limits& limits);

 private:
  void build();
  DeviceNews relax(const Limits& limits);
  DeviceNews fall(const Limits& limits);
  DeviceNews solve_whole(const Limits& limits);
  DeviceNews improve(const Limits& limits);
  void rule_out(std::int64_t below);
  bool refine(const DevicePlan& plan);
  std::vector<bool> neighbourhood(std::size_t most);
  [[nodiscard]] static std::int64_t work_of(const Program& program);

  enum class Next : std::uint8_t { relax, dive, whole, improve, none };

  DeviceInstance instance_;
  DeviceState::Allowed allowed_;
  Random random_;
  DeviceProgram::Detail detail_;
  std::unique_ptr<DeviceProgram> program_;
  Next next_ = Next::relax;
  std::int64_t bound_ = 0;
  /// Of the linear program.
  std::vector<double> prices_;
  /// Below this the reduced costs were used last.
  std::int64_t ruled_below_ = kNoWay;
  /// Times the seconds for one neighbourhood: what the whole program may take.
  double patience_ = 2;
  /// Until the whole program is tried again.
  int improvements_ = 0;
  /// Columns of a neighbourhood.
  double size_;
};

}  // namespace remora
