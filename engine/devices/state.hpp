// SPDX-License-Identifier: Apache-2.0
//
// What is the case after some steps over several devices, which steps can come next, and what the rest costs at least.
//
// A move is a step, or the release of a tensor on a device. Of all schedules that cost the same only those of one form are
// followed; that loses no optimum and refutes no feasible problem:
//
//   releases     come just before a step on the same device that does not fit without every one of them, in ascending
//                order of tensors. (Put each off until then: what is resident longer does no harm where it fits, and a copy or
//                recompute of what is still there is left out.) Outputs take storage over only where that is needed to fit.
//   copies       are due before the next run: either that run reads what was copied, or the copy was passed on, or its
//                source gave way. (Else put it off beyond the run: less is resident meanwhile.)
//   recomputes   bring an output that is not there; in free order they are due like copies, where they need no workspace.
//
//     run A   copy a out, release a, run B   copy a in, run C           never: copy a out, run B, release a ...
//
// So the moves from one run to the next are a bundle that serves the run; bundles are unlimited, as copies are.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/devices/plan.hpp"

namespace remora::devices {

/// A price that nothing has: there is no way.
inline constexpr std::int64_t kNoWay = std::numeric_limits<std::int64_t>::max();

/// Graph and problem, indexed. Both must outlive it.
class Instance {
 public:
  Instance(const DeviceGraph& graph, const Problem& problem);

  [[nodiscard]] const DeviceGraph& graph() const { return graph_; }
  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] const Op& op(OpId v) const { return graph_.graph[v]; }
  [[nodiscard]] Bytes size(TensorId t) const { return graph_.graph[t].size; }
  [[nodiscard]] int op_count() const { return static_cast<int>(graph_.runs.size()); }
  [[nodiscard]] int device_count() const { return static_cast<int>(graph_.devices.size()); }
  /// The place of a tensor on a device, from 0.
  [[nodiscard]] std::size_t place(TensorId t, DeviceId d) const {
    return t.index() * graph_.devices.size() + d.index();
  }
  /// None for an input of the graph.
  [[nodiscard]] OpId producer(TensorId t) const { return producers_[t]; }
  [[nodiscard]] const std::vector<OpId>& readers(TensorId t) const { return readers_[t]; }
  [[nodiscard]] bool at_home(TensorId t, DeviceId d) const { return home_[place(t, d)]; }
  /// Whether what an op writes must be there at the end.
  [[nodiscard]] bool kept_at(TensorId t, DeviceId d) const {
    const auto& home = graph_.places[t].home;
    return graph_.graph[t].keep && producers_[t].valid() && !home.empty() && home.front() == d;
  }
  [[nodiscard]] Bytes base(DeviceId d) const { return base_[d]; }
  [[nodiscard]] Bytes budget(DeviceId d) const { return problem_.budget[d].value_or(Bytes::max()); }
  /// Inputs, outputs and workspace beside what is always there, less what is taken over.
  [[nodiscard]] Bytes footprint(OpId v, const RunCost& run) const;
  [[nodiscard]] bool has_room(OpId v, const RunCost& run) const { return footprint(v, run) <= budget(run.device); }
  [[nodiscard]] int most_runs(OpId v) const { return most_runs_[v]; }
  /// In the objective's unit: the cheapest copy of the tensor to the device; a run of the op there; or kNoWay.
  [[nodiscard]] std::int64_t copy_price(TensorId t, DeviceId d) const { return copy_prices_[place(t, d)]; }
  [[nodiscard]] std::int64_t run_price(OpId v, DeviceId d) const {
    return run_prices_[v.index() * graph_.devices.size() + d.index()];
  }
  /// Whether the tensor can be copied from the device.
  [[nodiscard]] bool leaves(TensorId t, DeviceId d) const { return leaves_[place(t, d)]; }
  /// Devices on which some op can run.
  [[nodiscard]] const std::vector<DeviceId>& computing() const { return computing_; }

 private:
  const DeviceGraph& graph_;
  const Problem& problem_;
  Table<TensorId, OpId> producers_;
  Table<TensorId, std::vector<OpId>> readers_;
  std::vector<bool> home_;
  Table<DeviceId, Bytes> base_;
  Table<OpId, int> most_runs_;
  std::vector<std::int64_t> copy_prices_;
  std::vector<std::int64_t> run_prices_;
  std::vector<bool> leaves_;
  std::vector<DeviceId> computing_;
};

struct Move {
  enum class Kind : std::uint8_t { run, copy, release };
  Kind kind = Kind::run;
  OpId op{};
  /// Copied or released.
  TensorId tensor{};
  /// Of a run or a release; where a copy comes from.
  DeviceId device{};
  DeviceId to{};
  /// Of a run: a bit for each pair of Op::in_place by which storage is taken over.
  std::uint32_t takes_over = 0;
};

/// What is the case after some moves.
class State {
 public:
  explicit State(const Instance& instance);

  /// By place.
  [[nodiscard]] bool resident(std::size_t place) const { return resident_[place] != 0; }
  [[nodiscard]] int runs(OpId v) const { return runs_[v]; }
  [[nodiscard]] Bytes memory(DeviceId d) const { return memory_[d]; }
  [[nodiscard]] Duration duration() const { return duration_; }
  [[nodiscard]] Energy energy() const { return energy_; }
  /// The first op that has not run; in input order it is the next one.
  [[nodiscard]] OpId next() const { return next_; }
  /// Every op has run, and what must be kept is where it must be.
  [[nodiscard]] bool finished(const Instance& instance) const;
  /// Between releases and the step that they are for.
  [[nodiscard]] bool releasing() const { return releasing_.valid(); }

  /// All that may come next, in the form described above; first runs where `allowed` says so alone. It says no where the op
  /// cannot run.
  using Allowed = std::function<bool(OpId, DeviceId)>;
  [[nodiscard]] std::vector<Move> moves(const Instance& instance, const Allowed& allowed) const;
  /// False if that leaves something undone that was due.
  [[nodiscard]] bool apply(const Instance& instance, const Move& move);
  /// Equal for states from which the same can follow; without what is due, or with it.
  [[nodiscard]] std::string key(bool with_due) const;
  [[nodiscard]] bool anything_due() const { return !due_.empty(); }

 private:
  /// A copy of the tensor from one device to the other, or, without a tensor, a recompute.
  struct Due {
    TensorId tensor{};
    OpId op{};
    DeviceId from{};
    DeviceId device{};

    friend auto operator<=>(const Due&, const Due&) = default;
  };
  class MoveFinder;

  [[nodiscard]] Bytes beside(const Instance& instance, const Move& run) const;
  [[nodiscard]] bool run(const Instance& instance, const Move& move);
  void copy(const Instance& instance, const Move& move);
  [[nodiscard]] bool release(const Instance& instance, const Move& move);
  void drop(const Instance& instance, TensorId t, DeviceId d);

  std::vector<std::uint8_t> resident_;
  Table<OpId, std::uint8_t> runs_;
  Table<DeviceId, Bytes> memory_;
  Duration duration_{};
  Energy energy_{};
  OpId next_{0};
  /// Input order: the latest recompute of the stage, by op and device; -1 for none.
  std::int32_t latest_ = -1;
  std::vector<Due> due_;
  /// The device that releases make room on, the last one's tensor, and the least size among them.
  DeviceId releasing_{};
  TensorId released_{};
  Bytes smallest_{};
};

/// What the rest costs at least.
struct RemainingCost {
  /// In the objective's unit; kNoWay if it cannot be done.
  std::int64_t least = 0;
  /// By op: a device for each first run with which it is that; those that have run are without.
  Table<OpId, DeviceId> assignment{};
};

/// Every first run that is still to come on its cheapest device; and what has to be brought to a device where it is read, by
/// the cheaper of a copy and another run, once a producer and device. Where ops can run on two devices alone, of all assignments
/// the cheapest, by a minimum cut:
///
///     the cost of v on device 1 is cut between the source and v, that on device 0 between v and the sink; and if v
///     stays with the source (device 0) while a reader goes with the sink, the price of bringing its outputs there is cut, once
///
/// Exact integers. Memory only rules devices out, by `allowed`. The search looks at bounds below `enough` alone: where a
/// weaker one reaches that, it is returned.
RemainingCost remaining_cost(const Instance& instance, const State& state, const State::Allowed& allowed,
                             std::int64_t enough = kNoWay);

/// What memory adds to that before all steps, in input order: the covering relaxation (engine/bound/covering.hpp) on each device.
struct Cover {
  /// An op whose first run has no room on the device: so many bytes must be there, whatever is given up.
  struct Crowded {
    OpId op{};
    DeviceId device{};
    Bytes needed{};
  };
  std::vector<Crowded> crowded{};
  /// In the objective's unit: no schedule costs less than remaining_cost and this.
  std::int64_t extra = 0;
};

/// The events are the first runs that certainly are on the device, the gaps those between two of them that read a tensor. To give a
/// gap up costs another run of the producer or a copy in, whichever is cheaper; and a share of one copy out, where the tensor is
/// nowhere else by itself. remaining_cost has none of these: it pays for what comes to a device once.
///
///     runs on the device   A      B      C      D        a: made by A, read by C and D
///     a there              ####################          given up over B: back before C, for a price
///
/// The devices add up. Exact integers: dual ascent, and the duals of a linear program where there is CBC.
Cover cover_of(const Instance& instance, const State::Allowed& allowed);

}  // namespace remora::devices
