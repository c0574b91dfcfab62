// SPDX-License-Identifier: Apache-2.0
//
// Bounds of a problem over several devices without a search.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/ask/ask.hpp"
#include "engine/devices/problem.hpp"

namespace remora::devices {

struct Bound {
  /// Bound on the objective: no schedule costs less.
  std::int64_t least = 0;
  /// Why there is no schedule at all; of no cause if that is not known.
  Refusal refusal{};
  /// A device for the first run of each op: where the bound has it. Empty if infeasible.
  Table<OpId, DeviceId> assignment{};

  [[nodiscard]] bool is_infeasible() const { return refusal.cause != Refusal::Cause::none; }
};

/// Why there is no schedule, for the note of a schedule file.
std::string note_of(const DeviceGraph& graph, const Refusal& refusal);

/// Every op once on its cheapest device that has room for it, or the cheapest assignment to two devices with what crosses
/// from one to the other paid (remaining.hpp, of the state before all steps), and what memory adds to
/// that (cover_of). Infeasible where an op has room nowhere, whatever gives way; where what is always on a device, with
/// what must be kept there, exceeds its budget; or where something can be brought to no device that reads it.
/// Once `interrupted`, which may be empty, says so, the cut and what memory adds are left out: the bound is lower then.
Bound bound_of(const DeviceGraph& graph, const Problem& problem, const std::function<bool()>& interrupted = {});

/// In input order, once a schedule is known that costs `below`: an op runs first where a schedule may still cost less, and
/// what certainly runs on a device makes memory count there. No schedule costs less than what is returned, which is
/// `below` at most; 0 where the bound above knows all that already. A cut for each op and device, some rounds of them.
std::int64_t bound_below(const DeviceGraph& graph, const Problem& problem, std::int64_t below,
                         const std::function<bool()>& interrupted);

}  // namespace remora::devices
