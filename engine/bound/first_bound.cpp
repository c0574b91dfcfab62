// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/first_bound.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include "engine/bound/cover_mip.hpp"
#include "engine/bound/covering.hpp"
#include "model/evaluate.hpp"

namespace remora {
namespace {

/// The tensors that must be resident after the last op, and base memory. Base memory alone where there are inner peaks:
/// the last compute may be said to take less than what it leaves.
Certificate kept_at_the_end(const Instance& instance) {
  Certificate kept{OpId(instance.op_count() - 1), instance.base_memory(), {}};
  if (instance.has_inner()) return kept;
  for (const TensorId t : instance.kept()) {
    kept.required += instance.size(t);
    kept.tensors.push_back(t);
  }
  return kept;
}

Certificate footprint_of(const Instance& instance, OpId op) {
  Certificate certificate{op, instance.footprint(op), {}};
  const auto inputs = instance.inputs(op);
  const auto outputs = instance.outputs(op);
  certificate.tensors.assign(inputs.begin(), inputs.end());
  certificate.tensors.insert(certificate.tensors.end(), outputs.begin(), outputs.end());
  return certificate;
}

}  // namespace

Bytes least_budget(const Instance& instance) {
  Bytes least = kept_at_the_end(instance).required;
  for (int v = 0; v < instance.op_count(); ++v) least = std::max(least, instance.footprint(OpId(v)));
  return least;
}

std::vector<Certificate> footprint_certificates(const Instance& instance) {
  std::vector<Certificate> all;
  for (const OpId op : instance.ops()) all.push_back(footprint_of(instance, op));
  if (!all.empty()) all.push_back(kept_at_the_end(instance));
  return all;
}

std::optional<Certificate> footprint_certificate(const Instance& instance) {
  if (instance.op_count() == 0) return std::nullopt;
  OpId worst(0);
  for (const OpId op : instance.ops()) {
    if (instance.footprint(op) > instance.footprint(worst)) worst = op;
  }
  if (instance.footprint(worst) > instance.budget()) return footprint_of(instance, worst);
  Certificate kept = kept_at_the_end(instance);
  if (kept.required > instance.budget()) return kept;
  return std::nullopt;
}

namespace {

/// CBC's share of the time limit, and its limits.
constexpr double kCoverShare = 0.05;
constexpr double kMaxCoverSeconds = 1;
/// The ascent's part of the time limit, and the time that it has even where the limit is over.
constexpr double kAscentShare = 0.1;
constexpr double kLeastAscentSeconds = 0.02;
/// The relaxation of larger graphs alone takes longer than that: once the limit is over, they have no bound.
constexpr int kMaxOpsBeyondLimit = 2'000;
/// With more items CBC's presolve alone takes longer than all the time it has, and can't be interrupted: 15 s for
/// nothing on a training step of GPT-2 with 1000 layers (66,010 ops).
constexpr std::size_t kMaxBoundItems = 30'000;
constexpr std::int64_t kCoverNodes = 5000;
/// Under a work limit, which does not count them: of 400 items they take two seconds, of 1,000 half a minute. Of more items
/// so many fewer are solved that it stays at two seconds; of the largest programs the linear one is enough.
constexpr double kItemsOfAllNodes = 400;
constexpr std::int64_t kMinNodes = 100;

std::int64_t nodes_under_work_limit(std::size_t items) {
  const double part = std::min(1.0, std::pow(kItemsOfAllNodes / std::max(1.0, static_cast<double>(items)), 3));
  const auto nodes = static_cast<std::int64_t>(part * static_cast<double>(kCoverNodes));
  return nodes < kMinNodes ? 0 : nodes;
}

/// How much of a solve CBC may take: under a work limit, nodes instead of seconds.
CoverMipLimits cover_mip_limits(const SolveOptions& options, std::size_t items, const Deadline& deadline) {
  CoverMipLimits limits;
  if (options.work_limit > 0) {
    limits.nodes = nodes_under_work_limit(items);
  } else {
    limits.seconds = std::min(kMaxCoverSeconds, options.time_limit * kCoverShare);
    limits.nodes = kCoverNodes;
  }
  if (options.mip == IntegerSolver::off) limits.nodes = 0;
  limits.interrupted = [&deadline] { return deadline.reached(); };
  return limits;
}

/// Takes so many bytes off the tensors, the first ones first; false if they are fewer.
bool take_off(std::span<const TensorId> tensors, Bytes& bytes, Graph& graph) {
  for (const TensorId t : tensors) {
    const Bytes part = std::min(bytes, graph[t].size);
    graph[t].size -= part;
    bytes -= part;
  }
  return bytes == Bytes(0);
}

bool proved_infeasible(const Instance& instance, const Deadline& deadline) {
  const CoverProblem problem = covering_relaxation(instance);
  if (covering_bound(problem, [&deadline] { return deadline.reached(); }).infeasible) return true;
  if (problem.items.size() > kMaxBoundItems) return false;
  CoverMipLimits limits;
  // The linear program alone proves infeasibility.
  limits.nodes = 0;
  limits.interrupted = [&deadline] { return deadline.reached(); };
  return solve_cover_mip(problem, limits).infeasible;
}

/// By the covering relaxation.
void relax(const Instance& instance, const SolveOptions& options, const Deadline& deadline, FirstBound& found) {
  CoverProblem& problem = found.cover.problem;
  problem = covering_relaxation(instance, options.covering_limits);
  // Under a work limit nothing depends on a share of the time.
  const Deadline share(std::max(kLeastAscentSeconds, options.time_limit * kAscentShare), nullptr);
  const auto is_over = [&] { return share.reached() && (options.work_limit == 0 || deadline.reached()); };
  const auto ascent = covering_bound(problem, [&] { return deadline.cancelled() || is_over(); });
  found.infeasible = ascent.infeasible;
  found.lower_bound = found.exact_bound = ascent.extra;
  // The tensors resident at an event are determined in the input order only.
  if (ascent.event.valid() && instance.problem().order == OrderMode::input)
    found.certificate = cover_certificate(instance, problem, ascent.event);
  const bool exceeded = std::any_of(problem.excess.begin(), problem.excess.end(), [](Bytes b) { return b > Bytes(0); });
  if (found.infeasible || !exceeded || options.covering != Covering::on || problem.items.size() > kMaxBoundItems)
    return;
  const CoverMipLimits limits = cover_mip_limits(options, problem.items.size(), deadline);
  auto mip = solve_cover_mip(problem, limits);
  if (limits.nodes > 0 && cover_mip_available()) found.solved_by = IntegerSolver::cbc;
  found.infeasible = mip.infeasible;
  found.lower_bound = std::max(found.lower_bound, mip.bound);
  found.exact_bound = std::max(found.exact_bound, mip.priced.bound);
  found.cover.given_up = std::move(mip.given_up);
  if (options.reduced_costs) found.cover.priced = std::move(mip.priced);
}

/// An instance whose shared count is of this file's type: that of an exported class would be a symbol of the library.
struct Kept {
  Instance instance;
};

}  // namespace

std::shared_ptr<const Instance> least_of_modes(const Instance& instance) {
  if (!instance.has_modes()) return {std::shared_ptr<const Instance>(), &instance};
  Graph graph = instance.graph();
  for (const OpId v : instance.ops()) {
    Mode least{.duration = instance.duration(v), .workspace = std::max(Bytes(0), instance.workspace(v))};
    for (const TensorId t : graph[v].outputs) least.output_sizes.push_back(instance.size(t));
    std::ranges::copy_if(instance.inputs(v), std::back_inserter(least.unread),
                         [&](TensorId t) { return ~instance.readers(v, t) != 0; });
    graph[v].max_computes = instance.max_computes(v);
    run_by(instance, least, v, graph);
  }
  for (const OpId v : instance.ops()) {
    Bytes negative = std::max(Bytes(0), Bytes(0) - instance.workspace(v));
    std::vector<TensorId> own = graph[v].outputs;
    for (const TensorId t : graph[v].inputs) {
      if (instance.producer(t).valid()) own.push_back(t);
    }
    if (!take_off(own, negative, graph)) return nullptr;
  }
  const auto kept =
      std::make_shared<const Kept>(Kept{Instance(std::make_shared<const Graph>(std::move(graph)), instance.problem())});
  return {kept, &kept->instance};
}

FirstBound find_first_bound(const Instance& instance, const SolveOptions& options, const Deadline& deadline) {
  FirstBound found;
  found.infeasible = least_budget(instance) > instance.budget();
  found.certificate = footprint_certificate(instance);
  if (found.infeasible || options.covering == Covering::off) return found;
  if (deadline.cancelled() || (deadline.reached() && instance.op_count() > kMaxOpsBeyondLimit)) return found;
  const std::shared_ptr<const Instance> least = least_of_modes(instance);
  if (least) relax(*least, options, deadline, found);
  // It guides searches of this very problem.
  if (least.get() != &instance) found.cover = {};
  return found;
}

Bytes proved_least_budget(const Instance& instance, const Deadline& deadline, double resolution, int most_steps) {
  Bytes low = least_budget(instance);
  const std::shared_ptr<const Instance> least = least_of_modes(instance);
  if (!least) return low;
  Bytes high = std::max(low, baseline_peak(*least));
  const auto near = static_cast<std::int64_t>(static_cast<double>((high - low).count()) * resolution);
  for (int step = 0; step < most_steps && high - low > Bytes(near) && !deadline.reached(); ++step) {
    const Bytes middle(low.count() + (high - low).count() / 2);
    if (proved_infeasible(least->with_budget(middle), deadline))
      low = middle + Bytes(1);
    else
      high = middle;
  }
  return low;
}

}  // namespace remora
