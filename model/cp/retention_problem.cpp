// SPDX-License-Identifier: Apache-2.0
#include "model/cp/retention_problem.hpp"

#include <algorithm>

#include "model/error.hpp"

namespace remora::cp {
namespace {

/// Gecode's integers end at 2^31 - 2; half of that leaves room for sums.
constexpr std::int64_t kMaxStarts = std::int64_t{1} << 30;
constexpr int kMaxCopies = 1 << 24;

}  // namespace

RetentionProblem::RetentionProblem(const Instance& instance, std::span<const Compute> incumbent,
                                   std::span<const OpId> free_ops, const Limits& limits, const Inferences& inferences)
    : instance_(instance),
      limits_(limits),
      inferences_(inferences),
      free_order_(instance.problem().order == OrderMode::free) {
  collect(incumbent, free_ops);
  collect_events(incumbent);
  collect_touched();
  anchor_touched();
  collect_rest_memory();
  order_first_computes();
  bound_useful_starts();
  collect_bans();
}

void RetentionProblem::collect(std::span<const Compute> incumbent, std::span<const OpId> free_ops) {
  Table<OpId, bool> marked(instance_.op_count(), false);
  for (const OpId op : free_ops) mark_free(op, marked);
  free_of_op_.assign(marked.size(), FreeId::none());
  for (const OpId op : marked.ids()) {
    if (marked[op]) add_free_op(op);
  }
  for (FreeOp& free : free_ops_) {
    const OpId leader = instance_.leader(free.op);
    if (leader.valid()) free.leader = free_of_op_[leader];
  }
  places_ = std::max(1, copy_count());
  std::int64_t fixed = 0;
  for (const Compute& compute : incumbent) fixed += free_of_op_[compute.op].valid() ? 0 : 1;
  const std::int64_t values = free_order_ ? (fixed + 1) * places_ : instance_.op_count() + 1;
  if (values > kMaxStarts)
    throw InputError::of_option("order", "so many free ops over so long a sequence are more than 2^30 places");
  absent_ = static_cast<Start>(values);
}

/// With an op go all that are tied to it: their modes are one choice.
void RetentionProblem::mark_free(OpId first, Table<OpId, bool>& marked) const {
  std::vector<OpId> open{first};
  while (!open.empty()) {
    const OpId op = open.back();
    open.pop_back();
    if (marked[op]) continue;
    marked[op] = true;
    if (const OpId leader = instance_.leader(op); leader.valid()) open.push_back(leader);
    for (const OpId follower : instance_.followers(op)) open.push_back(follower);
  }
}

void RetentionProblem::add_free_op(OpId op) {
  const int modes = instance_.mode_count(op);
  const bool first_included = free_order_ || modes > 1;
  const int copies = instance_.max_computes(op) - (first_included ? 0 : 1);
  if (copies < 1) return;
  if (copies > kMaxCopies - copy_count())
    throw InputError::of_option("max_computes", "so many recomputes are more than 2^24");
  const FreeId id(free_ops_.size());
  free_of_op_[op] = id;
  free_ops_.push_back({.op = op,
                       .duration = instance_.duration(op),
                       .workspace = instance_.workspace(op),
                       .first_copy = copy_count(),
                       .copies = copies,
                       .first_included = first_included,
                       .modes = modes,
                       .reads_differ = instance_.reads_differ(op),
                       .has_inner = instance_.has_inner(op)});
  copy_owner_.resize(copy_count() + copies, id);
}

bool RetentionProblem::limits_computes() const {
  return std::any_of(free_ops_.begin(), free_ops_.end(), [&](const FreeOp& free) { return limits_computes(free); });
}

bool RetentionProblem::limits_computes(const FreeOp& free) const {
  const std::int64_t most = instance_.most_computes(free.op);
  if (most == kNoMostComputes) return false;
  int heaviest = 1;
  for (ModeNumber mode = 0; mode < free.modes; ++mode) {
    if (instance_.offers(free.op, mode)) heaviest = std::max(heaviest, instance_.computes(free.op, mode));
  }
  // With one mode, max_computes says it all.
  return free.modes > 1 && most < std::int64_t{heaviest} * free.copies;
}

RetentionProblem::StartRange RetentionProblem::possible_starts(CopyId copy) const {
  const FreeId owner = copy_owner_[copy];
  if (!is_recompute(copy)) return first_starts_[owner];
  return {first_starts_[owner].first + 1, latest_useful_[owner]};
}

/// Walks along the incumbent: what is free becomes the incumbent's values, the rest the fixed events.
void RetentionProblem::collect_events(std::span<const Compute> incumbent) {
  mode_variable_.assign(copy_owner_.size(), -1);
  for (const CopyId copy : copy_ids()) {
    if (free_ops_[copy_owner_[copy]].modes < 2) continue;
    mode_variable_[copy] = variable_count();
    mode_copies_.emplace_back(copy);
  }
  incumbent_.assign(at(variable_count()), 0);
  std::fill_n(incumbent_.begin(), copy_count(), absent_);

  Table<OpId, std::int32_t> seen(instance_.op_count(), 0);
  Stage stage{0};
  std::int32_t place = 0;
  if (!free_order_) stage_begin_.push_back(0);
  for (const Compute& compute : incumbent) {
    const std::int32_t earlier = seen[compute.op]++;
    const FreeId owner = free_of_op_[compute.op];
    const auto opening = static_cast<std::int32_t>(fixed_events_.size());
    const FreeOp* free = owner.valid() ? &free_ops_[owner] : nullptr;
    const bool is_copy = free != nullptr && (earlier > 0 || free->first_included);
    if (!is_copy) {
      add_fixed_event(compute, free_order_ ? Moment{opening, places_} : Moment{stage, compute.op}, earlier > 0);
      place = 0;
    } else if (const int index = earlier - (free->first_included ? 0 : 1); index < free->copies) {
      const CopyId copy(free->first_copy + index);
      incumbent_[copy.index()] = free_order_ ? opening * places_ + place++ : stage;
      if (const int variable = mode_variable(copy); variable >= 0) {
        incumbent_[at(variable)] = compute.mode;
      }
    }
    if (!free_order_ && earlier == 0) {
      ++stage;
      stage_begin_.push_back(static_cast<std::int32_t>(fixed_events_.size()));
    }
  }
  if (!free_order_) stage_begin_.push_back(static_cast<std::int32_t>(fixed_events_.size()));
}

void RetentionProblem::add_fixed_event(Compute compute, Moment moment, bool recompute) {
  fixed_events_.push_back({moment, compute});
  rest_extra_ += instance_.duration(compute.op, compute.mode);
  if (!recompute) rest_extra_ -= instance_.duration(compute.op);
}

/// Bounds the first computes' starts. In free order they follow those of the producers of their inputs and of their
/// `after` ops; that is all the supply constraint (eq. 5) asks of a sequence.
void RetentionProblem::order_first_computes() {
  first_starts_.reserve(free_ops_.size());
  for (const FreeOp& free : free_ops_) {
    first_starts_.push_back(free_order_ ? StartRange{0, absent_ - 1} : StartRange{free.op, free.op});
  }
  awaited_.assign(free_ops_.size(), false);
  if (!free_order_) return;
  Table<OpId, Moment> fixed_first(instance_.op_count(), kNever);
  for (const FixedEvent& event : fixed_events_) {
    Moment& first = fixed_first[event.compute.op];
    if (first == kNever) first = event.moment;
  }
  const auto precede = [&](OpId before, OpId after) {
    const FreeId earlier = free_of_op_[before];
    const FreeId later = free_of_op_[after];
    if (earlier.valid() && later.valid()) {
      precedences_.push_back({earlier, later});
    } else if (later.valid()) {
      Start& bound = first_starts_[later].first;
      bound = std::max(bound, first_start_after(after, fixed_first[before]));
    } else if (earlier.valid()) {
      Start& bound = first_starts_[earlier].last;
      bound = std::min(bound, last_start_before(before, fixed_first[after]));
    }
  };
  for (const OpId v : instance_.ops()) {
    for (const OpId earlier : instance_.graph()[v].after) {
      precede(earlier, v);
      if (free_of_op_[earlier].valid()) awaited_[free_of_op_[earlier]] = true;
    }
  }
  for (const TouchedTensor& touched : touched_) {
    const OpId producer = instance_.producer(touched.tensor);
    for (const OpId user : instance_.users(touched.tensor)) {
      precede(producer, user);
      const bool by_all = ~instance_.readers(user, touched.tensor) == 0;
      if (!by_all && free_of_op_[producer].valid()) awaited_[free_of_op_[producer]] = true;
    }
  }
  // Several tensors between two ops say the same.
  std::sort(precedences_.begin(), precedences_.end());
  precedences_.erase(std::unique(precedences_.begin(), precedences_.end()), precedences_.end());
}

void RetentionProblem::bound_useful_starts() {
  latest_useful_.assign(free_ops_.size(), absent_ - 1);
  if (!inferences_.useless_recompute) return;
  // The input order is topological: going down, every user is done before its producers.
  for (std::size_t f = free_ops_.size(); f-- > 0;) {
    const FreeId id(f);
    const OpId op = free_ops_[id].op;
    Start latest = -1;
    for (const TouchedId t : outputs_[id]) {
      if (!fixed_uses_[t].empty()) latest = std::max(latest, last_start_before(op, fixed_uses_[t].back().moment));
      for (const FreeId user : free_users_[t]) {
        const OpId reader = free_ops_[user].op;
        if (free_ops_[user].first_included) {
          latest = std::max(latest, last_start_before(op, moment_of(first_starts_[user].last, reader)));
        }
        if (latest_useful_[user] >= 0) {
          latest = std::max(latest, last_start_before(op, moment_of(latest_useful_[user], reader)));
        }
      }
    }
    latest_useful_[id] = std::min(latest, absent_ - 1);
  }
}

void RetentionProblem::collect_bans() {
  auto ban = limits_.bans.begin();
  for (const FreeOp& free : free_ops_) {
    for (; ban != limits_.bans.end() && ban->op < free.op; ++ban) {
    }
    for (; !free_order_ && ban != limits_.bans.end() && ban->op == free.op; ++ban)
      banned_.push({ban->first, std::min<Start>(ban->last, absent_ - 1)});
    banned_.end_row();
  }
  limits_.bans = {};
}

int RetentionProblem::gap_slot(Start start, OpId op) const {
  if (free_order_) return 2 * (start / places_);
  // Within a stage the fixed events are sorted by op, and there may be as many as ops.
  const auto first = fixed_events_.begin() + stage_begin_[Stage{start}];
  const auto last = fixed_events_.begin() + stage_begin_[Stage{start + 1}];
  const auto here = std::partition_point(first, last, [&](const FixedEvent& event) { return event.moment.minor < op; });
  return 2 * static_cast<int>(here - fixed_events_.begin());
}

std::vector<Compute> RetentionProblem::sequence_with(std::span<const int> values) const {
  std::vector<FixedEvent> events = fixed_events_;
  for (const CopyId copy : copy_ids()) {
    const Start start = values[copy.index()];
    if (start == absent_) continue;
    const OpId op = free_ops_[copy_owner_[copy]].op;
    const int variable = mode_variable(copy);
    events.push_back({moment_of(start, op), {op, variable < 0 ? 0 : values[at(variable)]}});
  }
  const auto by_moment = [](const FixedEvent& a, const FixedEvent& b) { return a.moment < b.moment; };
  std::sort(events.begin() + static_cast<std::ptrdiff_t>(fixed_events_.size()), events.end(), by_moment);
  std::inplace_merge(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(fixed_events_.size()), events.end(),
                     by_moment);
  std::vector<Compute> sequence;
  sequence.reserve(events.size());
  for (const FixedEvent& event : events) sequence.push_back(event.compute);
  return sequence;
}

}  // namespace remora::cp
