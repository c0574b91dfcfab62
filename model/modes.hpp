// SPDX-License-Identifier: Apache-2.0
//
// Ways to compute an op: modes of duration, workspace, output sizes and inputs, of which every compute chooses one.
//
// An op's own amounts are its mode 0; some ops have further ones (Op::modes), as where schedules of subgraphs are
// composed (Rockmate, HiRemate: a mode is one ready schedule of a block). An op may follow another: each of its runs
// takes the mode of that run of the leader which serves its inputs, as a backward half takes the forward half's. The
// leader may have modes that the follower lacks (a forward half that saves nothing for the backward half): then the
// leader runs again, with another mode, before the follower can.
//
//     leader    F(1)          F(0)            1: fast, saves nothing; 0: saves what the backward half needs
//     follower                     B(0)       served by the second F
//
// A mode need not read all of its op's inputs (HiRemate, B.1.2: one backward half recomputes what another reads): the
// others need not be resident. First runs keep the graph's order all the same: an op's first run comes after those of
// the producers of all its inputs.
//
// A mode may stand for a schedule of its own, which no longer needs some inputs before its memory is highest (HiRemate,
// B.3): its inner peaks give its memory over time, in addition to all inputs and outputs, and the inputs that are
// released by then if no later op needs them.
//
// A mode may stand for several computes of the ops inside, of which only so many are allowed: then it weighs more
// than one of its op's computes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "model/api.hpp"
#include "model/types.hpp"

namespace remora {

/// A mode's number, from 0: the graph's own amounts.
using ModeNumber = std::int32_t;

/// Modes an op may have, the graph's own included.
inline constexpr int kMaxModes = 64;

/// Number of runs that is no limit.
inline constexpr int kNoMostComputes = std::numeric_limits<int>::max();

/// An input that a compute is done with before a moment inside.
struct FreedInput {
  // NOLINTNEXTLINE(google-explicit-constructor): most often a tensor is all there is to say
  FreedInput(TensorId freed, Bytes at_most = Bytes::max()) : tensor(freed), most(at_most) {}

  TensorId tensor{};
  /// No more of its bytes go: those that an output takes over, where that is smaller.
  Bytes most = Bytes::max();

  friend bool operator==(const FreedInput&, const FreedInput&) = default;
};

/// A moment inside a compute.
struct InnerPeak {
  /// Memory in addition to what is retained, all inputs and outputs included; negative if some are not needed.
  Bytes workspace{};
  /// Inputs that the mode reads and is done with before: released if their retention ends with this compute.
  std::vector<FreedInput> freed{};

  friend bool operator==(const InnerPeak&, const InnerPeak&) = default;
};

struct Mode {
  Duration duration{};
  /// Not read where there are inner peaks.
  Bytes workspace{};
  /// One size an output, in the order of the op's outputs.
  std::vector<Bytes> output_sizes{};
  /// Inputs of the op that this mode does not read. A follower reads some output of its leader by every mode.
  std::vector<TensorId> unread{};
  /// Weight of a run by this mode, counted against the op's most_computes; at least 1.
  int computes = 1;
  /// The memory of a compute is the most of these; if empty, `workspace` says it.
  std::vector<InnerPeak> inner{};

  friend bool operator==(const Mode&, const Mode&) = default;
};

/// Modes of an op besides mode 0, and what its other members do not say of mode 0. They replace its `in_place`.
struct OpModes {
  /// Modes 1, 2, ...; nothing where this op lacks the mode.
  std::vector<std::optional<Mode>> further{};
  /// The leader, a producer of one of the op's inputs, or none.
  OpId follows{};
  /// For mode 0, as in Mode.
  std::vector<TensorId> unread{};
  int computes = 1;
  std::vector<InnerPeak> inner{};
  /// Maximum weight of the op's runs together; at least one of its modes weighs no more.
  int most_computes = kNoMostComputes;

  friend bool operator==(const OpModes&, const OpModes&) = default;
};

struct Op;

/// Amounts of an op by the mode that has most: durations; sizes of an output, whose `own` size the graph says;
/// workspaces, or inner peaks without their sign.
[[nodiscard]] REMORA_API Duration longest_duration(const Op& op);
[[nodiscard]] REMORA_API Bytes largest_size(const Op& op, std::size_t output, Bytes own);
[[nodiscard]] REMORA_API Bytes largest_workspace(const Op& op);

/// One step of a sequence: an op and how it is computed.
struct Compute {
  OpId op{};
  ModeNumber mode = 0;

  friend constexpr bool operator==(const Compute&, const Compute&) = default;
};

/// Size of the highest of the peaks (at least one) in addition to all inputs and outputs; `released(tensor)`: bytes
/// saved for an input that is freed before a peak, were all of it freed.
template <class Released>
Bytes highest_peak(std::span<const InnerPeak> peaks, Released released) {
  Bytes highest(std::numeric_limits<std::int64_t>::min());
  for (const InnerPeak& peak : peaks) {
    Bytes here = peak.workspace;
    for (const FreedInput& freed : peak.freed) here -= std::min(freed.most, Bytes(released(freed.tensor)));
    highest = std::max(highest, here);
  }
  return highest;
}

/// The sequence with mode 0 everywhere, and the ops of a sequence.
REMORA_API std::vector<Compute> computes_of(std::span<const OpId> sequence);
REMORA_API Sequence ops_of(std::span<const Compute> sequence);

}  // namespace remora
