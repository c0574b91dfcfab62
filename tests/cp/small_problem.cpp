// SPDX-License-Identifier: Apache-2.0
#include "tests/cp/small_problem.hpp"

#include <algorithm>

#include "model/evaluate.hpp"
#include "tests/cp/assignment_truth.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/random_modes.hpp"

namespace remora::test {
namespace {

constexpr cp::Inferences kNoInferences{false, false, false, false, false, false};

bool may_come(const Instance& instance, OpId op, const std::vector<int>& counts) {
  const auto computed = [&](OpId earlier) { return counts[static_cast<std::size_t>(earlier)] > 0; };
  const auto inputs = instance.inputs(op);
  const auto& after = instance.graph().ops[static_cast<std::size_t>(op)].after;
  return counts[static_cast<std::size_t>(op)] < instance.max_computes(op) &&
         std::all_of(inputs.begin(), inputs.end(), [&](TensorId t) { return computed(instance.producer(t)); }) &&
         std::all_of(after.begin(), after.end(), computed);
}

std::vector<OpId> random_free_sequence(std::mt19937& random, const Instance& instance) {
  Sequence sequence;
  std::vector<int> counts(static_cast<std::size_t>(instance.op_count()), 0);
  for (bool complete = false; !complete || random() % 2 == 0;) {
    std::vector<OpId> candidates;
    for (int v = 0; v < instance.op_count(); ++v) {
      if (may_come(instance, OpId(v), counts)) candidates.emplace_back(v);
    }
    if (candidates.empty()) break;
    sequence.push_back(candidates[random() % candidates.size()]);
    ++counts[static_cast<std::size_t>(sequence.back())];
    complete = std::find(counts.begin(), counts.end(), 0) == counts.end();
  }
  return sequence;
}

std::vector<OpId> random_staged_sequence(std::mt19937& random, const Instance& instance) {
  RecomputePlan plan;
  for (int v = 0; v < instance.op_count(); ++v) {
    int left = instance.max_computes(OpId(v)) - 1;
    for (Stage stage{v + 1}; stage <= instance.op_count() && left > 0; ++stage) {
      if (random() % 3 != 0) continue;
      plan.push_back({stage, OpId(v)});
      --left;
    }
  }
  std::sort(plan.begin(), plan.end());
  return sequence_of(instance, plan);
}

std::vector<Compute> random_incumbent(std::mt19937& random, const Instance& instance) {
  const bool free_order = instance.problem().order == OrderMode::free;
  const auto sequence =
      computes_of(free_order ? random_free_sequence(random, instance) : random_staged_sequence(random, instance));
  auto with_modes = sequence;
  std::vector<ModeNumber> latest(static_cast<std::size_t>(instance.op_count()), 0);
  for (Compute& compute : with_modes) {
    const OpId leader = instance.leader(compute.op);
    const auto modes = static_cast<unsigned>(instance.mode_count(compute.op));
    compute.mode =
        leader.valid() ? latest[static_cast<std::size_t>(leader)] : static_cast<ModeNumber>(random() % modes);
    latest[static_cast<std::size_t>(compute.op)] = compute.mode;
  }
  return modes_hold(instance, with_modes) ? with_modes : sequence;
}

}  // namespace

SmallProblem::SmallProblem(std::mt19937& random, const SmallProblemKind& kind) {
  while (!draw(random, kind)) {
  }
}

bool SmallProblem::draw(std::mt19937& random, const SmallProblemKind& kind) {
  auto graph = random_graph(random, {.least_ops = kind.least_ops, .most_ops = kind.most_ops});
  if (kind.with_modes) graph = with_random_modes(random, *graph);
  const int max_computes = 1 + static_cast<int>(random() % 3);
  instance_ = std::make_shared<const Instance>(graph, Problem{.max_computes = max_computes, .order = kind.order});
  free_ops_ = input_order(*instance_);
  incumbent_ = computes_of(free_ops_);
  if (kind.neighbourhood) {
    incumbent_ = random_incumbent(random, *instance_);
    if (!modes_hold(*instance_, incumbent_)) return false;
    const auto fixed = std::remove_if(free_ops_.begin(), free_ops_.end(), [&](OpId) { return random() % 2 == 0; });
    free_ops_.erase(fixed, free_ops_.end());
  }
  const cp::RetentionProblem data = problem({Bytes::max()}, kNoInferences);
  if (data.copy_count() == 0) return false;
  list_domains(data);
  std::size_t combinations = 1;
  for (const auto& domain : domains_) {
    combinations *= domain.size();
    if (combinations > kind.most_assignments) return false;
  }
  list_assignments(data);
  return true;
}

void SmallProblem::list_domains(const cp::RetentionProblem& problem) {
  domains_.assign(static_cast<std::size_t>(problem.variable_count()), {});
  for (int c = 0; c < problem.copy_count(); ++c) {
    const cp::CopyId copy(c);
    const OpId op = problem.free_ops()[problem.owner(copy)].op;
    const bool recompute = problem.is_recompute(copy);
    int first = 0;
    if (!problem.free_order()) first = op + (recompute ? 1 : 0);
    int last = problem.absent() - (recompute ? 0 : 1);
    if (!problem.free_order() && !recompute) last = first;
    for (int value = first; value <= last; ++value) domains_[static_cast<std::size_t>(c)].push_back(value);
    if (const int variable = problem.mode_variable(copy); variable >= 0) {
      for (ModeNumber mode = 0; mode < instance_->mode_count(op); ++mode) {
        if (instance_->offers(op, mode)) domains_[static_cast<std::size_t>(variable)].push_back(mode);
      }
    }
  }
}

void SmallProblem::list_assignments(const cp::RetentionProblem& problem) {
  assignments_.clear();
  std::vector<std::size_t> index(domains_.size(), 0);
  std::vector<int> values(domains_.size());
  for (;;) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = domains_[i][index[i]];
    assignments_.push_back(truth_of(problem, values));
    std::size_t digit = 0;
    while (digit < index.size() && ++index[digit] == domains_[digit].size()) index[digit++] = 0;
    if (digit == index.size()) return;
  }
}

Bytes SmallProblem::draw_capacity(std::mt19937& random) const {
  std::vector<Bytes> peaks;
  for (const Assignment& assignment : assignments_) {
    if (assignment.meaningful()) peaks.push_back(assignment.peak);
  }
  if (peaks.empty() || random() % 8 == 0) return Bytes::max();
  return peaks[random() % peaks.size()] - Bytes(random() % 4 == 0 ? 1 : 0);
}

Duration SmallProblem::draw_bound(std::mt19937& random, Bytes capacity) const {
  std::vector<Duration> costs;
  for (const Assignment& assignment : assignments_) {
    if (assignment.meaningful() && assignment.peak <= capacity) costs.push_back(assignment.extra);
  }
  if (costs.empty()) return Duration::max();
  return costs[random() % costs.size()] + Duration(random() % 2 == 0 ? 1 : 0);
}

}  // namespace remora::test
