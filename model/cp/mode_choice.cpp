// SPDX-License-Identifier: Apache-2.0
#include "model/cp/mode_choice.hpp"

#include <algorithm>
#include <bit>

namespace remora::cp {

using Gecode::ExecStatus;
using Gecode::Space;

Gecode::PropCost TiedModes::cost(const Space&, const Gecode::ModEventDelta&) const {
  return Gecode::PropCost::quadratic(Gecode::PropCost::LO, x.size());
}

ExecStatus TiedModes::propagate(Space& home, const Gecode::ModEventDelta&) {
  for (bool changed = true; changed;) {
    changed = false;
    profile().refresh(x);
    for (const CopyId c : problem().copy_ids()) {
      const int variable = problem().mode_variable(c);
      if (variable < 0) continue;
      if (profile().domain(c).absent()) {
        GECODE_ME_CHECK(x[variable].eq(home, 0));
      } else if (!x[variable].in(0)) {
        const Gecode::ModEvent event = x[c].nq(home, problem().absent());
        if (Gecode::me_failed(event)) return Gecode::ES_FAILED;
        changed = changed || Gecode::me_modified(event);
      }
      if (!profile().domain(c).absent() && problem().free_ops()[problem().owner(c)].leader.valid()) {
        GECODE_ES_CHECK(agree(home, c, changed));
      }
    }
  }
  return all_assigned() ? home.ES_SUBSUMED(*this) : Gecode::ES_FIX;
}

ExecStatus TiedModes::agree(Space& home, CopyId follower, bool& changed) {
  const Servers servers = servers_of(follower);
  const bool certain = profile().domain(follower).active();
  if ((profile().modes(follower) & servers.modes) == 0) {
    if (certain) return Gecode::ES_FAILED;
    GECODE_ME_CHECK(x[follower].eq(home, problem().absent()));
    changed = true;
    return Gecode::ES_OK;
  }
  if (!certain) return Gecode::ES_OK;
  GECODE_ES_CHECK(restrict(home, follower, servers.modes, changed));
  if (servers.count > 1) return Gecode::ES_OK;
  return restrict(home, CopyId(servers.only), profile().modes(follower), changed);
}

ExecStatus TiedModes::restrict(Space& home, CopyId copy, std::uint64_t modes, bool& changed) {
  const auto closed = [&](ModeNumber mode) { return (modes >> static_cast<unsigned>(mode) & 1U) == 0; };
  return remove_modes(home, x[problem().mode_variable(copy)], closed, changed);
}

/// The computes of the leader that may be the latest one before the follower's.
TiedModes::Servers TiedModes::servers_of(CopyId follower) const {
  const FreeOp& free = problem().free_ops()[problem().owner(follower)];
  const FreeOp& leader = problem().free_ops()[free.leader];
  const StartDomain& domain = profile().domain(follower);
  const Moment latest = problem().moment_of(domain.latest(), free.op);
  const Moment certain = latest_certain(leader, problem().moment_of(domain.earliest(), free.op));
  Servers servers;
  for (const CopyId c : leader.ids()) {
    const StartDomain& server = profile().domain(c);
    if (server.absent()) continue;
    if (problem().moment_of(server.earliest(), leader.op) >= latest) continue;
    if (problem().moment_of(server.latest(), leader.op) < certain) continue;
    ++servers.count;
    servers.only = c;
    servers.modes |= profile().modes(c);
  }
  return servers;
}

/// The latest moment before the given one at which the leader is known to be computed.
Moment TiedModes::latest_certain(const FreeOp& leader, Moment before) const {
  Moment result = kNever;
  for (const CopyId c : leader.ids()) {
    const StartDomain& server = profile().domain(c);
    if (!server.assigned()) continue;
    const Moment moment = problem().moment_of(server.latest(), leader.op);
    if (moment < before) result = std::max(result, moment);
  }
  return result;
}

Gecode::PropCost WeightedComputes::cost(const Space&, const Gecode::ModEventDelta&) const {
  return Gecode::PropCost::linear(Gecode::PropCost::HI, x.size());
}

ExecStatus WeightedComputes::propagate(Space& home, const Gecode::ModEventDelta&) {
  profile().refresh(x);
  for (const FreeOp& free : problem().free_ops()) {
    if (problem().limits_computes(free)) GECODE_ES_CHECK(weigh(home, free));
  }
  return all_assigned() ? home.ES_SUBSUMED(*this) : Gecode::ES_FIX;
}

ExecStatus WeightedComputes::weigh(Space& home, const FreeOp& free) {
  std::int64_t room = problem().instance().most_computes(free.op);
  for (const CopyId c : free.ids()) {
    if (profile().domain(c).active()) room -= lightest(free, c);
  }
  if (room < 0) return Gecode::ES_FAILED;
  for (const CopyId copy : free.ids()) {
    const StartDomain& domain = profile().domain(copy);
    if (domain.absent()) continue;
    const std::int64_t least = lightest(free, copy);
    if (domain.undecided() && least > room) {
      GECODE_ME_CHECK(x[copy].eq(home, problem().absent()));
      continue;
    }
    // Mode 0 is also an absent copy's.
    const std::int64_t most = domain.active() ? room + least : room;
    const auto too_heavy = [&](ModeNumber mode) {
      return (domain.active() || mode > 0) && problem().instance().computes(free.op, mode) > most;
    };
    bool changed = false;
    GECODE_ES_CHECK(remove_modes(home, x[problem().mode_variable(copy)], too_heavy, changed));
  }
  return Gecode::ES_OK;
}

std::int64_t WeightedComputes::lightest(const FreeOp& free, CopyId copy) const {
  std::int64_t result = kNoMostComputes;
  for (std::uint64_t open = profile().modes(copy); open != 0; open &= open - 1) {
    const auto mode = static_cast<ModeNumber>(std::countr_zero(open));
    result = std::min(result, std::int64_t{problem().instance().computes(free.op, mode)});
  }
  return result;
}

}  // namespace remora::cp
