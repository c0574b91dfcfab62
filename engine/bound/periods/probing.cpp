// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/bound/periods/period_solver.hpp"

#ifdef REMORA_HAVE_CBC
#include "engine/bound/periods/clp_program.hpp"
#endif

namespace remora {

#ifndef REMORA_HAVE_CBC

std::vector<bool> probe(const Program& program, const LinearAnswer&, std::span<const std::vector<int>>, Duration, int,
                        const Interrupted&) {
  return program.out;
}

#else

namespace {

/// Steps of the simplex method for a group that is probed, and groups in a row that are probed in vain.
constexpr int kStepsOfProbe = 300;
constexpr int kMaxVain = 40;

/// The state from which a simplex method is started again.
class SimplexEnd {
 public:
  explicit SimplexEnd(ClpSimplex& simplex) : simplex_(simplex) {
    const int rows = simplex.numberRows();
    const int columns = simplex.numberColumns();
    status_.assign(simplex.statusArray(), simplex.statusArray() + rows + columns);
    for (const auto& [values, count] :
         {std::pair{simplex.primalColumnSolution(), columns}, std::pair{simplex.primalRowSolution(), rows},
          std::pair{simplex.dualRowSolution(), rows}, std::pair{simplex.dualColumnSolution(), columns}}) {
      values_.emplace_back(values, std::vector<double>(values, values + count));
    }
  }

  void restore() const {
    std::copy(status_.begin(), status_.end(), simplex_.statusArray());
    for (const auto& [where, values] : values_) std::copy(values.begin(), values.end(), where);
  }

 private:
  ClpSimplex& simplex_;
  std::vector<unsigned char> status_;
  std::vector<std::pair<double*, std::vector<double>>> values_;
};

/// Rows that ask nothing yet: each that one of a group's columns is 1.
void add_groups(ClpSimplex& simplex, std::span<const std::vector<int>> groups) {
  std::vector<CoinBigIndex> begins{0};
  std::vector<int> columns;
  for (const std::vector<int>& group : groups) {
    columns.insert(columns.end(), group.begin(), group.end());
    begins.push_back(static_cast<CoinBigIndex>(columns.size()));
  }
  const std::vector<double> ones(columns.size(), 1.0);
  const std::vector<double> nothing(groups.size(), -COIN_DBL_MAX);
  simplex.addRows(static_cast<int>(groups.size()), nothing.data(), nullptr, begins.data(), columns.data(), ones.data());
}

}  // namespace

std::vector<bool> probe(const Program& program, const LinearAnswer& answer, std::span<const std::vector<int>> groups,
                        Duration cutoff, int most, const Interrupted& interrupted) {
  std::vector<bool> out = program.out;
  if (answer.basis.empty()) return out;
  const std::int64_t unit = common_unit(program.costs);
  const WatchedSimplex watched(program, unit, interrupted);
  ClpSimplex& simplex = watched.simplex();
  simplex.createStatus();
  std::copy(answer.basis.begin(), answer.basis.end(), simplex.statusArray());
  const int own = simplex.numberRows();
  add_groups(simplex, groups);
  watched.count_next();
  simplex.dual();
  if (!simplex.isProvenOptimal()) return out;
  const SimplexEnd end(simplex);
  simplex.setDualObjectiveLimit(whole_units_up(cutoff.count(), unit));
  simplex.setMaximumIterations(kStepsOfProbe);
  int found = 0;
  int vain = 0;
  for (std::size_t g = 0; g < groups.size() && found <= most && vain < kMaxVain; ++g) {
    const auto all_out = [&] {
      return std::all_of(groups[g].begin(), groups[g].end(), [&](int j) { return out[at(j)]; });
    };
    if (all_out()) continue;
    end.restore();
    watched.count_next();
    simplex.setRowLower(own + static_cast<int>(g), 1);
    simplex.setNumberIterations(0);
    simplex.dual();
    if (watched.stopper().has_stopped()) break;
    simplex.setRowLower(own + static_cast<int>(g), -COIN_DBL_MAX);
    ++vain;
    if (simplex.status() != 1 && simplex.objectiveValue() < simplex.dualObjectiveLimit()) continue;
    const ProgramBound bound =
        program_bound(program, prices_of({simplex.dualRowSolution(), program.rows.size()}, program, unit));
    for (const std::vector<int>& group : groups) {
      for (const int j : group) {
        if (out[at(j)] || bound.bound + bound.penalties[at(j)] < cutoff) continue;
        out[at(j)] = true;
        simplex.setColumnUpper(j, 0);
        ++found;
      }
    }
    if (all_out()) vain = 0;
  }
  return out;
}

#endif

}  // namespace remora
