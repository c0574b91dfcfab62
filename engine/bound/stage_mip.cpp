// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/stage_mip.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#ifdef REMORA_HAVE_CBC
#include <CglPreProcess.hpp>
#include <ClpEventHandler.hpp>

#include "engine/bound/cbc.hpp"
#endif

namespace remora {

#ifndef REMORA_HAVE_CBC

MipBound solve_mip(const MipProgram&, const CoverMipLimits&) {
  return {};
}

#else

namespace {

constexpr int kPreprocessingPasses = 5;

void load(const MipProgram& program, std::int64_t unit, OsiClpSolverInterface& solver) {
  prepare(solver);
  // At once: a matrix that grows row by row is copied for each.
  std::vector<CoinBigIndex> begins{0};
  std::vector<int> columns;
  std::vector<double> factors;
  for (const MipRow& row : program.rows) {
    columns.insert(columns.end(), row.columns.begin(), row.columns.end());
    factors.insert(factors.end(), row.factors.begin(), row.factors.end());
    begins.push_back(static_cast<CoinBigIndex>(columns.size()));
  }
  const CoinPackedMatrix rows(false, static_cast<int>(program.costs.size()), static_cast<int>(program.rows.size()),
                              begins.back(), factors.data(), columns.data(), begins.data(), nullptr);
  std::vector<double> costs;
  for (const std::int64_t cost : program.costs) costs.push_back(whole_units(cost, unit));
  std::vector<double> least;
  for (const MipRow& row : program.rows) least.push_back(row.least);
  const std::vector<double> zeros(costs.size(), 0.0);
  const std::vector<double> ones(costs.size(), 1.0);
  const std::vector<double> no_limit(least.size(), solver.getInfinity());
  solver.loadProblem(rows, zeros.data(), ones.data(), costs.data(), least.data(), no_limit.data());
}

/// Whether the linear program, which CglPreProcess begins with, was solved to its end. That one itself does not stand to
/// be stopped; from here on it has little left to do.
bool solve_relaxation(OsiClpSolverInterface& solver, const CoverMipLimits& limits) {
  const Stopper stopper(limits.interrupted);
  stopper.watch(solver);
  solver.initialSolve();
  const ClpEventHandler none;
  solver.getModelPtr()->passInEventHandler(&none);
  return !stopper.has_stopped() && solver.isProvenOptimal();
}

}  // namespace

MipBound solve_mip(const MipProgram& program, const CoverMipLimits& limits) {
  const std::int64_t unit = common_unit(program.costs);
  OsiClpSolverInterface solver;
  load(program, unit, solver);
  // Probing and the like shrink the program before the search; the objective keeps its meaning.
  std::vector<int> columns(program.costs.size());
  std::iota(columns.begin(), columns.end(), 0);
  solver.setInteger(columns.data(), static_cast<int>(columns.size()));
  // Of an empty program CglPreProcess reads what is not there.
  const bool empty = program.costs.empty() || program.rows.empty();
  if (empty || (limits.interrupted && limits.interrupted())) return {};
  if (!solve_relaxation(solver, limits)) return {};
  CglPreProcess process;
  process.messageHandler()->setLogLevel(0);
  const OsiSolverInterface* smaller = process.preProcess(solver, false, kPreprocessingPasses);
  if (smaller == nullptr || (limits.interrupted && limits.interrupted())) return {};
  CbcModel model(*smaller);
  // Rounded up: a choice just below the ceiling must not be cut off.
  if (limits.ceiling != Duration::max()) model.setCutoff(whole_units_up(limits.ceiling.count(), unit));
  const CbcAnswer answer = run_cbc(model, limits, limits.seconds);
  // Infeasible by CBC's word is no proof in exact arithmetic: nothing is concluded.
  if (!answer.bound) return {};
  return {std::min(limits.ceiling, safe_bound(*answer.bound, unit)), answer.complete};
}

#endif

namespace {

/// The columns, by op and stage, and what the input order says of every op with one output.
class StageColumns {
 public:
  StageColumns(const Instance& instance, const CoverProblem& problem) : instance_(instance), problem_(problem) {
    const auto ops = static_cast<std::size_t>(instance.op_count());
    items_.resize(ops);
    last_use_.assign(ops, 0);
    recompute_.resize(ops);
    held_.resize(ops);
    for (std::size_t i = 0; i < problem.items.size(); ++i) items_[problem.items[i].op].push_back(i);
    for (int v = 0; v < instance.op_count(); ++v) last_use_[static_cast<std::size_t>(v)] = natural_end(OpId(v));
    number_items();
    number_late_ones();
  }

  [[nodiscard]] int count() const { return static_cast<int>(costs_.size()); }
  [[nodiscard]] std::int64_t cost(int column) const { return costs_[static_cast<std::size_t>(column)]; }
  [[nodiscard]] bool simple(OpId op) const { return instance_.outputs(op).size() == 1; }
  [[nodiscard]] Bytes size(OpId op) const { return instance_.size(instance_.outputs(op).front()); }
  /// The op of the last first compute at which the outputs are resident anyway.
  [[nodiscard]] Stage last_use(OpId op) const { return last_use_[op]; }
  [[nodiscard]] const std::vector<std::size_t>& items(OpId op) const { return items_[op]; }
  [[nodiscard]] const std::map<Stage, int>& stages(std::size_t item) const { return stages_[item]; }
  [[nodiscard]] const std::map<Stage, int>& recomputes(OpId op) const { return recompute_[op]; }
  [[nodiscard]] const std::map<Stage, int>& holds(OpId op) const { return held_[op]; }
  /// Whether the tensor may be away between the first computes of k - 1 and k: it is in one of its op's gaps.
  [[nodiscard]] bool in_gap(OpId op, Stage k) const {
    return std::any_of(items_[op].begin(), items_[op].end(), [&](std::size_t i) {
      return std::any_of(problem_.items[i].gaps.begin(), problem_.items[i].gaps.end(),
                         [&](const Gap& gap) { return gap.first <= k && k <= gap.last + 1; });
    });
  }

 private:
  [[nodiscard]] Stage natural_end(OpId op) const {
    Stage last = op;
    for (const TensorId t : instance_.outputs(op)) {
      if (instance_.keep(t)) return instance_.op_count();
      if (!instance_.users(t).empty()) last = std::max(last, Stage{instance_.users(t).back()});
    }
    return last;
  }

  int add(std::int64_t cost) {
    costs_.push_back(cost);
    return count() - 1;
  }

  /// A merged item of several outputs has one column, at its last stage: no stage is chosen.
  void number_items() {
    stages_.resize(problem_.items.size());
    for (std::size_t i = 0; i < problem_.items.size(); ++i) {
      const CoverItem& item = problem_.items[i];
      Stage last = 0;
      for (const Gap& gap : item.gaps) last = std::max(last, gap.last + 1);
      const Stage first = simple(item.op) ? item.gaps.front().first : last;
      for (Stage k = first; k <= last; ++k) stages_[i].emplace(k, add(item.cost.count()));
    }
  }

  /// Users come after their producers: going down, the stages of all that might read an op are known.
  void number_late_ones() {
    for (int v = instance_.op_count(); v-- > 0;) {
      const OpId op(v);
      if (!simple(op)) continue;
      Stage latest = 0;
      for (const OpId user : instance_.users(instance_.outputs(op).front())) {
        for (const std::size_t i : items_[user]) latest = std::max(latest, stages_[i].rbegin()->first);
        if (!recompute_[user].empty()) latest = std::max(latest, recompute_[user].rbegin()->first);
      }
      for (Stage k = last_use_[op] + 1; k <= latest; ++k) {
        if (instance_.max_computes(op) > 1) recompute_[op].emplace(k, add(instance_.duration(op).count()));
        if (k < latest && k < instance_.op_count()) held_[op].emplace(k, add(0));
      }
    }
  }

  const Instance& instance_;
  const CoverProblem& problem_;
  std::vector<std::vector<std::size_t>> items_;
  std::vector<Stage> last_use_;
  std::vector<std::map<Stage, int>> stages_;
  std::vector<std::map<Stage, int>> recompute_;
  std::vector<std::map<Stage, int>> held_;
  std::vector<std::int64_t> costs_;
};

class StageMip {
 public:
  StageMip(const Instance& instance, const CoverProblem& problem)
      : instance_(instance), problem_(problem), columns_(instance, problem) {}

  [[nodiscard]] MipProgram build() {
    for (int column = 0; column < columns_.count(); ++column) program_.costs.push_back(columns_.cost(column));
    add_across();
    for (Stage k = 0; k < instance_.op_count(); ++k) add_first_compute(k);
    for (int v = 0; v < instance_.op_count(); ++v) {
      add_limit(OpId(v));
      add_holding(OpId(v));
    }
    for (std::size_t i = 0; i < problem_.items.size(); ++i) {
      if (!columns_.simple(problem_.items[i].op)) continue;
      for (const auto& [k, column] : columns_.stages(i)) add_recompute(problem_.items[i].op, k, column);
    }
    for (int v = 0; v < instance_.op_count(); ++v) {
      for (const auto& [k, column] : columns_.recomputes(OpId(v))) add_recompute(OpId(v), k, column);
    }
    return std::move(program_);
  }

 private:
  static double part(Bytes size, Bytes of) {
    return std::min(1.0, static_cast<double>(size.count()) / static_cast<double>(of.count()));
  }

  /// Memory across each moment between the first computes of k - 1 and k: what cannot be away, or is in a gap of its.
  void add_across() {
    across_.assign(static_cast<std::size_t>(instance_.op_count()) + 1, instance_.base_memory());
    for (int t = 0; t < instance_.tensor_count(); ++t) {
      const OpId op = instance_.producer(TensorId(t));
      if (!op.valid()) continue;
      const auto users = instance_.users(TensorId(t));
      Stage last = users.empty() ? Stage{op} : Stage{users.back()};
      if (instance_.keep(TensorId(t))) last = instance_.op_count();
      for (Stage k = op + 1; k <= last; ++k) {
        if (counts_across(op, k)) across_[static_cast<std::size_t>(k)] += instance_.size(TensorId(t));
      }
    }
  }
  /// Between two uses next to each other a tensor may be away without any gap: it does not count.
  [[nodiscard]] bool counts_across(OpId op, Stage k) const {
    return instance_.max_computes(op) < 2 || (columns_.simple(op) && columns_.in_gap(op, k));
  }

  void add_first_compute(Stage k) {
    const Bytes excess = problem_.excess[static_cast<std::size_t>(k)];
    MipRow row;
    const double scale = 1.0 / static_cast<double>(std::max(Bytes(1), instance_.budget()).count());
    Bytes worst = excess;
    for (std::size_t i = 0; i < problem_.items.size(); ++i) {
      const Bytes gain = problem_.items[i].gain(k);
      if (gain <= Bytes(0)) continue;
      for (const auto& [stage, column] : columns_.stages(i)) {
        if (stage > k) row.add(column, static_cast<double>(gain.count()) * scale);
      }
    }
    for (int v = 0; v < instance_.op_count(); ++v) {
      const auto& holds = columns_.holds(OpId(v));
      const auto hold = holds.find(k);
      if (hold == holds.end()) continue;
      worst += columns_.size(OpId(v));
      row.add(hold->second, -static_cast<double>(columns_.size(OpId(v)).count()) * scale);
    }
    if (worst <= Bytes(0)) return;
    // The tolerances of the solver are absolute: a hair less is asked for.
    row.least = static_cast<double>(excess.count()) * scale - kLoosening;
    program_.rows.push_back(std::move(row));
  }

  void add_limit(OpId op) {
    MipRow row;
    for (const std::size_t i : columns_.items(op)) {
      for (const auto& [stage, column] : columns_.stages(i)) row.add(column, -1);
    }
    for (const auto& [stage, column] : columns_.recomputes(op)) row.add(column, -1);
    row.least = -(instance_.max_computes(op) - 1);
    if (!row.columns.empty()) program_.rows.push_back(std::move(row));
  }

  /// What is held was held or computed a stage before; right after the last use it is there anyway.
  void add_holding(OpId op) {
    for (const auto& [k, column] : columns_.holds(op)) {
      if (k > columns_.last_use(op) + 1) require(column, op, k);
    }
  }

  /// column <= h(op, k - 1) + r(op, k)
  void require(int column, OpId op, Stage k) {
    MipRow row;
    row.add(column, -1);
    const auto& holds = columns_.holds(op);
    if (const auto before = holds.find(k - 1); before != holds.end()) row.add(before->second, 1);
    const auto& recomputes = columns_.recomputes(op);
    if (const auto now = recomputes.find(k); now != recomputes.end()) row.add(now->second, 1);
    program_.rows.push_back(std::move(row));
  }

  void add_recompute(OpId op, Stage k, int column) {
    Bytes needed = across_[static_cast<std::size_t>(k)] + instance_.workspace(op);
    // Its output, where it is not one of those counted across.
    if (k > columns_.last_use(op) || !counts_across(op, k)) needed += columns_.size(op);
    for (const TensorId t : instance_.inputs(op)) {
      const OpId producer = instance_.producer(t);
      if (!columns_.simple(producer)) continue;
      const bool dead = columns_.last_use(producer) < k;
      if (dead || !counts_across(producer, k)) needed += instance_.size(t);
      if (dead && k - 1 > columns_.last_use(producer)) require(column, producer, k);
    }
    const Bytes excess = needed - instance_.budget();
    if (excess <= Bytes(0)) return;
    MipRow row;
    row.add(column, -1);
    row.least = -kLoosening;
    for (std::size_t i = 0; i < problem_.items.size(); ++i) {
      const CoverItem& item = problem_.items[i];
      if (item.op == op || !columns_.simple(item.op) || reads(op, item.op)) continue;
      const Gap& gap = item.gaps.front();
      if (k < gap.first || k > gap.last + 1) continue;
      for (const auto& [stage, away] : columns_.stages(i)) {
        if (stage > k || (stage == k && item.op > op)) row.add(away, part(gap.size, excess));
      }
    }
    program_.rows.push_back(std::move(row));
  }

  [[nodiscard]] bool reads(OpId op, OpId producer) const {
    const auto inputs = instance_.inputs(op);
    return std::any_of(inputs.begin(), inputs.end(), [&](TensorId t) { return instance_.producer(t) == producer; });
  }

  static constexpr double kLoosening = 1e-7;

  const Instance& instance_;
  const CoverProblem& problem_;
  StageColumns columns_;
  std::vector<Bytes> across_;
  MipProgram program_;
};

}  // namespace

std::int64_t stage_mip_columns(const Instance& instance, const CoverProblem& problem) {
  return StageColumns(instance, problem).count();
}

StageMipResult solve_stage_mip(const Instance& instance, const CoverProblem& problem, const CoverMipLimits& limits) {
  const MipBound result = solve_mip(StageMip(instance, problem).build(), limits);
  return {result.bound, result.complete};
}

}  // namespace remora
