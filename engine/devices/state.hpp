// SPDX-License-Identifier: Apache-2.0
//
// State after some steps over several devices, and the possible next steps.
//
// A move is a step, or the release of a tensor on a device. Of all schedules that cost the same only those of one form are
// followed; that loses no optimum and rejects no feasible problem:
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
#include <string>
#include <vector>

#include "engine/devices/problem.hpp"

namespace remora::devices {

struct Move {
  enum class Kind : std::uint8_t { run, copy, release };
  Kind kind = Kind::run;
  OpId op{};
  /// Copied or released.
  TensorId tensor{};
  /// Device of a run or a release; source of a copy.
  DeviceId device{};
  DeviceId to{};
  /// For a run: a bit for each pair of Op::in_place by which storage is taken over.
  std::uint32_t takes_over = 0;
};

/// State after some moves.
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

}  // namespace remora::devices
