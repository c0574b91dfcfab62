// SPDX-License-Identifier: Apache-2.0
#include "model/cp/tied_options.hpp"

#include <algorithm>

#include "model/cp/remove_options.hpp"

namespace remora::cp {

using Gecode::ExecStatus;
using Gecode::Space;

Gecode::PropCost TiedOptions::cost(const Space&, const Gecode::ModEventDelta&) const {
  return Gecode::PropCost::quadratic(Gecode::PropCost::LO, x.size());
}

ExecStatus TiedOptions::propagate(Space& home, const Gecode::ModEventDelta&) {
  for (bool changed = true; changed;) {
    changed = false;
    profile().refresh(x);
    for (int c = 0; c < problem().copy_count(); ++c) {
      const int variable = problem().option_variable(CopyId(c));
      if (variable < 0) continue;
      if (profile().domain(CopyId(c)).absent()) {
        GECODE_ME_CHECK(x[variable].eq(home, 0));
      } else if (!x[variable].in(0)) {
        const Gecode::ModEvent event = x[c].nq(home, problem().absent());
        if (Gecode::me_failed(event)) return Gecode::ES_FAILED;
        changed = changed || Gecode::me_modified(event);
      }
      if (!profile().domain(CopyId(c)).absent() && problem().free_ops()[problem().owner(CopyId(c))].leader.valid()) {
        GECODE_ES_CHECK(agree(home, CopyId(c), changed));
      }
    }
  }
  return all_assigned() ? home.ES_SUBSUMED(*this) : Gecode::ES_FIX;
}

ExecStatus TiedOptions::agree(Space& home, CopyId follower, bool& changed) {
  const Servers servers = servers_of(follower);
  const bool certain = profile().domain(follower).active();
  if ((profile().options(follower) & servers.options) == 0) {
    if (certain) return Gecode::ES_FAILED;
    GECODE_ME_CHECK(x[follower].eq(home, problem().absent()));
    changed = true;
    return Gecode::ES_OK;
  }
  if (!certain) return Gecode::ES_OK;
  GECODE_ES_CHECK(restrict(home, follower, servers.options, changed));
  if (servers.count > 1) return Gecode::ES_OK;
  return restrict(home, CopyId(servers.only), profile().options(follower), changed);
}

ExecStatus TiedOptions::restrict(Space& home, CopyId copy, std::uint64_t options, bool& changed) {
  const auto closed = [&](Option option) { return (options >> static_cast<unsigned>(option) & 1U) == 0; };
  return remove_options(home, x[problem().option_variable(copy)], closed, changed);
}

/// The computes of the leader that may be the latest one before the follower's.
TiedOptions::Servers TiedOptions::servers_of(CopyId follower) const {
  const FreeOp& free = problem().free_ops()[problem().owner(follower)];
  const FreeOp& leader = problem().free_ops()[free.leader];
  const StartDomain& domain = profile().domain(follower);
  const Moment latest = problem().moment_of(domain.latest(), free.op);
  const Moment certain = latest_certain(leader, problem().moment_of(domain.earliest(), free.op));
  Servers servers;
  for (int c = leader.first_copy; c < leader.first_copy + leader.copies; ++c) {
    const StartDomain& server = profile().domain(CopyId(c));
    if (server.absent()) continue;
    if (problem().moment_of(server.earliest(), leader.op) >= latest) continue;
    if (problem().moment_of(server.latest(), leader.op) < certain) continue;
    ++servers.count;
    servers.only = c;
    servers.options |= profile().options(CopyId(c));
  }
  return servers;
}

/// The latest moment before the given one at which the leader is known to be computed.
Moment TiedOptions::latest_certain(const FreeOp& leader, Moment before) const {
  Moment result = kNever;
  for (int c = leader.first_copy; c < leader.first_copy + leader.copies; ++c) {
    const StartDomain& server = profile().domain(CopyId(c));
    if (!server.assigned()) continue;
    const Moment moment = problem().moment_of(server.latest(), leader.op);
    if (moment < before) result = std::max(result, moment);
  }
  return result;
}

}  // namespace remora::cp
