// SPDX-License-Identifier: Apache-2.0
#include "engine/devices/prover.hpp"

#include <algorithm>
#include <utility>

#include "engine/bound/periods/replay.hpp"

namespace remora::devices {
namespace {

/// With more columns no program is solved; under a work limit, which must not wait for long.
constexpr int kMaxColumns = 400'000;
constexpr int kMaxColumnsOfWork = 20'000;
/// Under a work limit, of integer programs.
constexpr int kMaxChoicesOfWork = 2'000;
/// Ops times tensors and devices: beyond this the program takes too long to write.
constexpr double kMaxEntries = 5e7;
constexpr double kFirstSize = 600;
constexpr double kMinSize = 150;
constexpr double kGrowth = 1.3;
constexpr double kTimeFactorGrowth = 2;
constexpr int kImprovements = 4;
/// Under a work limit, of an integer program.
constexpr std::int64_t kNodes = 200;
/// A unit of work is a plan that was evaluated, or a node of the tree search.
constexpr std::int64_t kColumnsOfWork = 16;
/// Places where a replay breaks that are mended at once.
constexpr std::size_t kMended = 4;

std::vector<Excess> excesses(const Instance& instance, const EvaluatedPlan& plan) {
  std::vector<OpId> ops;
  for (const DeviceStep& step : plan.plan) ops.push_back(step.op);
  std::vector<Excess> found;
  for (const DeviceId d : instance.graph().devices.ids()) {
    if (instance.problem().budget[d]) add_excesses(ops, plan.evaluation.memory[d], instance.budget(d), found);
  }
  return found;
}

}  // namespace

Prover::Prover(const DeviceGraph& graph, const Problem& problem, std::uint64_t seed)
    : instance_(graph, problem), random_(seed), size_(kFirstSize) {
  allowed_ = [this](OpId v, DeviceId d) {
    const RunCost* const run = run_cost(instance_.graph(), v, d);
    return run != nullptr && instance_.has_room(v, *run);
  };
  if (problem.order == OrderMode::free) next_ = Next::none;
}

std::int64_t Prover::work_of(const remora::Program& program) {
  return 1 + program.columns() / kColumnsOfWork;
}

ProverUpdate Prover::step(const Limits& limits) {
  if (next_ != Next::relax && next_ != Next::none) rule_out(whole_, limits.below);
  switch (next_) {
    case Next::relax:
      return relax(limits);
    case Next::dive:
      return dive(limits);
    case Next::whole:
      return solve_whole(limits);
    case Next::improve:
      return improve_a_while(limits);
    case Next::none:
      break;
  }
  return {.bound = bound_, .finished = true};
}

ProverUpdate Prover::relax(const Limits& limits) {
  next_ = Next::none;
  const double tensors = static_cast<double>(instance_.graph().places.size());
  if (tensors * instance_.op_count() * instance_.device_count() > kMaxEntries) return {.finished = true};
  build(whole_);
  finer_.program.reset();
  finer_.detail.ends.insert(whole_.detail.ends.begin(), whole_.detail.ends.end());
  finer_.detail.reruns.insert(whole_.detail.reruns.begin(), whole_.detail.reruns.end());
  ProverUpdate update{.bound = bound_};
  if (is_within(limits, whole_) && solve(whole_, limits, update)) next_ = Next::dive;
  update.bound = bound_;
  update.finished = next_ == Next::none;
  return update;
}

void Prover::build(Relaxation& relaxation) const {
  relaxation.program = std::make_unique<Program>(instance_, allowed_, relaxation.detail);
  relaxation.prices.clear();
  relaxation.ruled_below = kNoWay;
}

bool Prover::is_within(const Limits& limits, const Relaxation& relaxation) {
  return relaxation.program->program().columns() <= (limits.seconds > 0 ? kMaxColumns : kMaxColumnsOfWork);
}

/// The linear program: a bound, prices and plans, or that there is no schedule. False without a solution.
bool Prover::solve(Relaxation& relaxation, const Limits& limits, ProverUpdate& update) {
  remora::Program& program = relaxation.program->program();
  update.work += work_of(program);
  LinearAnswer answer = solve_linear(program, limits.interrupted);
  if (answer.outcome == LinearAnswer::Outcome::no_solution && !answer.prices.empty()) {
    update.infeasible = proves_no_solution(program, answer.prices);
  }
  if (answer.outcome != LinearAnswer::Outcome::optimal) return false;
  bound_ = std::max(bound_, program_bound(program, answer.prices).bound.count());
  relaxation.prices = std::move(answer.prices);
  for (const double least : kMinParts)
    update.plans.push_back(relaxation.program->columns().plan(answer.solution, least));
  return true;
}

/// By the linear program's reduced costs.
void Prover::rule_out(Relaxation& relaxation, std::int64_t below) {
  if (relaxation.prices.empty() || below >= relaxation.ruled_below) return;
  relaxation.ruled_below = below;
  remora::Program& program = relaxation.program->program();
  const ProgramBound bound = program_bound(program, relaxation.prices);
  for (const auto& group : relaxation.program->columns().decisions()) {
    for (const int j : group) {
      if (bound.bound + bound.penalties[at(j)] >= Duration(below)) program.out[at(j)] = true;
    }
  }
  bound_ = std::max(bound_, std::min(below, program_bound(program, relaxation.prices).bound.count()));
}

ProverUpdate Prover::dive(const Limits& limits) {
  next_ = Next::whole;
  remora::Program& program = whole_.program->program();
  ProverUpdate update{.bound = bound_, .work = 4 * work_of(program)};
  if (limits.seconds <= 0 && program.columns() > kMaxChoicesOfWork) next_ = Next::none;
  const Columns& columns = whole_.program->columns();
  const std::vector<double> solution = remora::dive(program, columns.decisions(), limits.interrupted);
  if (!solution.empty()) update.plans.push_back(columns.plan(solution, 0.5));
  update.finished = next_ == Next::none;
  return update;
}

/// An integer program takes so many CPU seconds from now on, or nodes where time does not count.
IntegerLimits Prover::integer_limits(const Limits& limits, double seconds) {
  if (limits.seconds <= 0) return {.nodes = kNodes, .interrupted = limits.interrupted};
  const double end = cpu_seconds_of_thread() + seconds;
  return {.interrupted = [&limits, end] {
    return (limits.interrupted && limits.interrupted()) || cpu_seconds_of_thread() > end;
  }};
}

ProverUpdate Prover::solve_whole(const Limits& limits) {
  const remora::Program& program = whole_.program->program();
  ProverUpdate update{.bound = bound_};
  const double begin = cpu_seconds_of_thread();
  IntegerLimits integer = integer_limits(limits, time_factor_ * limits.seconds);
  if (branching_ == Branching::devices) {
    integer.first = whole_.program->columns().decisions().front();
    integer.by_bound = true;
  }
  if (limits.below != kNoWay) integer.cutoff = Duration(limits.below);
  const IntegerAnswer answer = solve_integer(program, integer);
  update.work = work_of(program) * (1 + answer.nodes);
  bound_ = std::max(bound_, std::min(limits.below, answer.bound.count()));
  if (answer.complete && answer.solution.empty()) {
    if (limits.below != kNoWay) bound_ = std::max(bound_, limits.below);
    update.finished = true;
  }
  update.bound = bound_;
  bool refined = false;
  if (!answer.solution.empty()) {
    update.plans.push_back(whole_.program->columns().plan(answer.solution, 0.5));
    refined = refine(update.plans.back(), whole_.detail);
    if (answer.complete && !refined) update.finished = true;
  }
  if (!answer.complete) time_factor_ *= kTimeFactorGrowth;
  // If one way leads nowhere, the other may.
  if (!answer.complete && answer.solution.empty()) {
    branching_ = branching_ == Branching::cuts ? Branching::devices : Branching::cuts;
  }
  next_ = refined ? Next::relax : Next::improve;
  improvements_ = kImprovements;
  owed_ = cpu_seconds_of_thread() - begin;
  return update;
}

/// Counts memory where the plan takes too much; false if it does not, or if there it is counted.
bool Prover::refine(const Plan& plan, Detail& detail) const {
  const auto whole = mended(instance_.graph(), instance_.problem(), plan);
  if (!whole) return false;
  std::vector<Excess> found = excesses(instance_, *whole);
  found.resize(std::min(found.size(), kMended));
  const std::size_t before = detail.size();
  for (const Excess& excess : found) {
    if (excess.op.valid() && !excess.is_first) detail.reruns.insert({excess.stage, excess.op});
    detail.ends.insert(excess.stage);
    if (!excess.is_first) detail.ends.insert(excess.stage - 1);
  }
  return detail.size() > before;
}

/// Stages beside each other, or ops that are read or written together, up to so many columns.
std::vector<bool> Prover::neighbourhood(const Program& program, std::size_t most) {
  std::vector<bool> columns(program.program().costs.size(), false);
  const auto size = [&] { return static_cast<std::size_t>(std::count(columns.begin(), columns.end(), true)); };
  const int ops = instance_.op_count();
  const int centre = static_cast<int>(random_.below(at(ops)));
  const std::size_t kind = random_.below(3);
  if (kind == 0) {
    for (int reach = 0; reach < ops && size() < most; ++reach) {
      program.columns().mark_stages(std::max(0, centre - reach), std::min(ops, centre + reach), columns);
    }
    return columns;
  }
  std::vector<bool> seen(at(ops), false);
  std::vector<OpId> queue{OpId(centre)};
  seen[at(centre)] = true;
  for (std::size_t next = 0; next < queue.size() && size() < most; ++next) {
    const OpId v = queue[next];
    program.columns().mark(v, columns);
    std::vector<OpId> others;
    if (kind == 1 && v + 1 < ops) others.emplace_back(v + 1);
    for (const TensorId t : instance_.op(v).inputs) {
      if (instance_.producer(t).valid()) others.push_back(instance_.producer(t));
    }
    for (const TensorId t : instance_.op(v).outputs) {
      const auto& readers = instance_.readers(t);
      others.insert(others.end(), readers.begin(), readers.end());
    }
    if (kind == 2) random_.shuffle(others);
    for (const OpId other : others) {
      if (seen[other.index()]) continue;
      seen[other.index()] = true;
      queue.push_back(other);
    }
  }
  return columns;
}

/// The relaxation whose parts are neighborhoods. It counts memory only where their plans exceeded budgets: all of it
/// would take too long. Its linear program, which makes neighborhoods smaller, takes no more time than they do.
Prover::Relaxation& Prover::finer(const Limits& limits, ProverUpdate& update) {
  if (!finer_.program && finer_.detail.size() > whole_.detail.size()) {
    build(finer_);
    if (!is_within(limits, finer_)) {
      finer_ = {.detail = whole_.detail};
    } else if (limits.seconds > 0 && improving_ >= relaxing_) {
      const double begin = cpu_seconds_of_thread();
      solve(finer_, limits, update);
      relaxing_ = cpu_seconds_of_thread() - begin;
      // This is part of a neighbourhood's seconds, which improve_a_while() adds.
      improving_ = -relaxing_;
    }
  }
  return finer_.program ? finer_ : whole_;
}

ProverUpdate Prover::improve_a_while(const Limits& limits) {
  const double begin = cpu_seconds_of_thread();
  ProverUpdate update = improve(limits);
  const double seconds = cpu_seconds_of_thread() - begin;
  owed_ -= seconds;
  improving_ += seconds;
  const bool waits = limits.seconds > 0 && limits.incumbent != nullptr && owed_ > 0;
  if (--improvements_ <= 0 && !waits) next_ = Next::whole;
  return update;
}

ProverUpdate Prover::improve(const Limits& limits) {
  ProverUpdate update{.bound = bound_};
  if (limits.incumbent == nullptr) return update;
  Relaxation& relaxation = finer(limits, update);
  rule_out(relaxation, limits.below);
  update.bound = bound_;
  const Program& whole = *relaxation.program;
  const remora::Program& program = whole.program();
  update.work += work_of(program);
  std::vector<double> from = whole.columns().solution(*limits.incumbent);
  const RestrictedProgram part = restricted(program, neighbourhood(whole, static_cast<std::size_t>(size_)), from);
  const std::int64_t before = cost_of(program, from);
  if (before <= part.cost) return update;
  IntegerLimits integer = integer_limits(limits, limits.seconds);
  integer.cutoff = Duration(before - part.cost);
  const bool by_devices = random_.below(2) == 0;
  for (std::size_t j = 0; j < part.columns.size() && by_devices; ++j) {
    if (whole.columns().is_first_run(part.columns[j])) integer.first.push_back(static_cast<int>(j));
  }
  const IntegerAnswer answer = solve_integer(part.program, integer);
  update.work += work_of(part.program) * (1 + answer.nodes);
  size_ = answer.complete ? std::min(size_ * kGrowth, program.columns() + 1.0) : std::max(kMinSize, size_ / kGrowth);
  if (answer.solution.empty()) return update;
  for (std::size_t j = 0; j < part.columns.size(); ++j) from[at(part.columns[j])] = answer.solution[j] > 0.5 ? 1 : 0;
  update.plans.push_back(whole.columns().plan(from, 0.5));
  if (refine(update.plans.back(), finer_.detail)) finer_.program.reset();
  return update;
}

}  // namespace remora::devices
