// SPDX-License-Identifier: Apache-2.0
#include "engine/free/view_search.hpp"

#include <algorithm>
#include <utility>

#include "engine/groups/groups.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/search/start.hpp"

namespace remora {

ViewSearch::ViewSearch(const Instance& free, std::vector<OpId> order, bool with_groups)
    : view_(free, std::move(order)), with_groups_(with_groups) {
  state_.incumbent = first_solution(view_.staged(), {});
}

std::vector<OpId> ViewSearch::sequence() const {
  return view_.sequence_of(state_.incumbent.plan);
}

std::string ViewSearch::source() const {
  return state_.history.empty() ? "start" : state_.history.back().source;
}

bool ViewSearch::begins_with_groups(const SolveOptions& options) const {
  return !begun_ && with_groups_ && wants_groups(view_.staged(), options);
}

void ViewSearch::learn(std::span<const OpId> sequence) {
  Solution taken = make_solution(view_.staged(), within_limits(view_.staged(), view_.plan_of(sequence)));
  if (better(view_.staged(), taken, state_.incumbent)) state_.incumbent = std::move(taken);
}

void ViewSearch::begin(const SolveOptions& options, const SolveCallbacks& callbacks, const Deadline& deadline) {
  const bool groups_wanted = begins_with_groups(options);
  begun_ = true;
  find_first_bound(view_.staged(), options, deadline, state_, description_);
  if (settled()) return;
  start_from_relaxation(view_.staged(), options, state_);
  if (!groups_wanted || settled()) return;
  const Groups groups = find_groups(view_.staged(), options, deadline, callbacks.blocks);
  state_.work += groups.work;
  start_from_groups(view_.staged(), options, groups, deadline, state_, description_.solver);
}

void ViewSearch::sit(const SolveOptions& options, const SolveCallbacks& callbacks, const Deadline& deadline) {
  const std::int64_t before = state_.work;
  if (!begun_) begin(options, callbacks, deadline);
  if (settled()) return;
  SolveOptions limited = options;
  if (options.work_limit > 0) {
    // What came before the search may have taken all there was; it gets a little all the same.
    const std::int64_t room = INT64_MAX - before;
    limited.work_limit = std::max(before + std::min(room, options.work_limit), state_.work + 1);
  }
  run_phases(view_.staged(), limited, callbacks, deadline, workers_, state_, description_.solver);
}

}  // namespace remora
