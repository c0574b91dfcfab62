// SPDX-License-Identifier: Apache-2.0
#include "engine/bound/cover_mip.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <span>
#include <vector>

#ifdef REMORA_HAVE_CBC
#include "engine/bound/cbc.hpp"
#endif

namespace remora {

#ifndef REMORA_HAVE_CBC

bool cover_mip_available() {
  return false;
}

CoverMipResult solve_cover_mip(const CoverProblem&, const CoverMipLimits&) {
  return {};
}

#else

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxRounds = 30;
constexpr double kViolated = 1e-6;
constexpr double kChosen = 0.5;
/// Room for rows, so that very large graphs get a weaker bound in time: items looked at, a row each event and all of
/// them, and coefficients, which the solver holds several times over.
constexpr std::size_t kMaxLookedAt = 300'000'000;
constexpr std::size_t kMaxCoefficients = 8'000'000;
constexpr std::size_t kMaxItemsPresolved = 30'000;
constexpr std::size_t kItemsBetweenLooksAtTheClock = 256;
/// Clp's way to say that there is none.
constexpr double kNoLimit = -1;

/// Rows that are added at once: one at a time, all that is there is copied again and again, and each is searched for a column
/// that is there twice.
class NewRows {
 public:
  explicit NewRows(double infinity) : infinity_(infinity) {}

  void add(std::span<const int> columns, std::span<const double> factors, double least, double most) {
    columns_.insert(columns_.end(), columns.begin(), columns.end());
    factors_.insert(factors_.end(), factors.begin(), factors.end());
    begins_.push_back(static_cast<int>(columns_.size()));
    least_.push_back(least);
    most_.push_back(most);
  }
  void add_at_least_one(std::span<const int> columns, std::span<const double> factors) {
    add(columns, factors, 1.0, infinity_);
  }
  void add_at_most(std::span<const int> columns, double most) {
    add(columns, std::vector<double>(columns.size(), 1.0), -infinity_, most);
  }

  [[nodiscard]] bool empty() const { return least_.empty(); }
  void put_into(OsiClpSolverInterface& lp) const {
    if (empty()) return;
    lp.addRows(static_cast<int>(least_.size()), begins_.data(), columns_.data(), factors_.data(), least_.data(),
               most_.data());
  }

 private:
  double infinity_;
  std::vector<int> begins_{0};
  std::vector<int> columns_;
  std::vector<double> factors_;
  std::vector<double> least_;
  std::vector<double> most_;
};

/// True if no neighbor is above; of equal neighbors the last counts.
template <class Value>
bool is_peak(const std::vector<Value>& values, std::size_t k) {
  return (k == 0 || values[k] >= values[k - 1]) && (k + 1 == values.size() || values[k] > values[k + 1]);
}

class CoverMip {
 public:
  CoverMip(const CoverProblem& problem, const CoverMipLimits& limits)
      : problem_(problem), limits_(limits), begin_(Clock::now()), in_rows_(problem.excess.size(), false) {
    std::vector<std::int64_t> costs;
    for (const CoverItem& item : problem.items) costs.push_back(item.cost.count());
    unit_ = common_unit(costs);
  }

  CoverMipResult run() {
    build();
    if (!solve_relaxation() || limits_.nodes == 0) return result_;
    while (!stopped()) {
      if (!solve_integer() || !add_violated(chosen_)) break;
      result_.complete = false;
      if (!solve_relaxation()) break;
    }
    result_.complete = result_.complete && !truncated_;
    return result_;
  }

 private:
  [[nodiscard]] double seconds_left() const {
    return limits_.seconds - std::chrono::duration<double>(Clock::now() - begin_).count();
  }
  [[nodiscard]] bool stopped() const { return seconds_left() <= 0 || (limits_.interrupted && limits_.interrupted()); }

  void build() {
    prepare(lp_);
    stopper_.watch(lp_);
    lp_.setHintParam(OsiDoReducePrint);
    // In Clp's presolve nobody is asked: 3 s with 100,000 items.
    if (problem_.items.size() > kMaxItemsPresolved) lp_.setHintParam(OsiDoPresolveInInitial, false, OsiHintTry);
    std::vector<double> costs;
    for (const CoverItem& item : problem_.items) costs.push_back(whole_units(item.cost.count(), unit_));
    const std::vector<double> zeros(costs.size(), 0.0);
    const std::vector<double> ones(costs.size(), 1.0);
    const std::vector<int> begins(costs.size() + 1, 0);
    lp_.addCols(static_cast<int>(costs.size()), begins.data(), nullptr, nullptr, zeros.data(), ones.data(),
                costs.data());
    NewRows limits_of_ops(lp_.getInfinity());
    problem_.for_each_op([&](std::size_t begin, std::size_t end, std::size_t limit) {
      if (limit == end - begin) return;
      std::vector<int> columns(end - begin);
      std::iota(columns.begin(), columns.end(), static_cast<int>(begin));
      limits_of_ops.add_at_most(columns, static_cast<double>(limit));
    });
    limits_of_ops.put_into(lp_);
    add_cuts();
    first_event_row_ = lp_.getNumRows();
    add_peaks();
  }

  /// A last column stands for "at the cutoff or beyond": it satisfies every cut, at the cutoff's cost.
  void add_cuts() {
    if (limits_.cuts.empty()) return;
    const int beyond = lp_.getNumCols();
    lp_.addCol(0, nullptr, nullptr, 0, 1, whole_units_up(limits_.cutoff.count(), unit_));
    for (const CoverCut& cut : limits_.cuts) {
      std::vector<int> columns = cut;
      columns.push_back(beyond);
      const std::vector<double> ones(columns.size(), 1.0);
      lp_.addRow(static_cast<int>(columns.size()), columns.data(), ones.data(), 1.0, lp_.getInfinity());
    }
  }

  [[nodiscard]] bool exceeds(std::size_t k) const { return problem_.excess[k] > Bytes(0); }

  /// Events whose neighbours exceed less.
  void add_peaks() {
    std::vector<double> missing;
    for (const Bytes excess : problem_.excess) missing.push_back(static_cast<double>(excess.count()));
    std::vector<std::size_t> events;
    for (std::size_t k = 0; k < problem_.excess.size(); ++k) {
      if (exceeds(k) && is_peak(problem_.excess, k)) events.push_back(k);
    }
    add_events(std::move(events), missing);
  }

  /// Rows for these events or, where there is no room for all, for those that miss most. False if it added none.
  bool add_events(std::vector<std::size_t> events, const std::vector<double>& missing) {
    if (looked_at_ + events.size() * problem_.items.size() > kMaxLookedAt) {
      std::stable_sort(events.begin(), events.end(),
                       [&](std::size_t a, std::size_t b) { return missing[a] > missing[b]; });
    }
    NewRows rows(lp_.getInfinity());
    for (const std::size_t k : events) {
      truncated_ = truncated_ || looked_at_ > kMaxLookedAt || coefficients_ > kMaxCoefficients || stopped();
      if (truncated_) break;
      add_event(k, rows);
    }
    rows.put_into(lp_);
    return !rows.empty();
  }

  /// The row of event k, divided by its excess.
  void add_event(std::size_t k, NewRows& rows) {
    std::vector<int> columns;
    std::vector<double> parts;
    for (std::size_t i = 0; i < problem_.items.size(); ++i) {
      const double covered = part(i, k);
      if (covered <= 0) continue;
      columns.push_back(static_cast<int>(i));
      parts.push_back(covered);
    }
    looked_at_ += problem_.items.size();
    coefficients_ += columns.size();
    rows.add_at_least_one(columns, parts);
    in_rows_[k] = true;
    row_events_.push_back(k);
  }

  /// By event, how much of its excess is left uncovered by the (fractional) choice of items, as a part of it. As in the
  /// rows, no item counts beyond the excess. Empty if there is no time for it.
  [[nodiscard]] std::vector<double> shortfalls(const double* chosen) const {
    std::vector<double> result(problem_.excess.size(), 0.0);
    for (std::size_t k = 0; k < result.size(); ++k) result[k] = exceeds(k) ? 1.0 : 0.0;
    for (std::size_t i = 0; i < problem_.items.size(); ++i) {
      if (i % kItemsBetweenLooksAtTheClock == 0 && stopped()) return {};
      if (chosen[i] <= 0) continue;
      problem_.items[i].for_each_stretch([&](Stage first, Stage last) {
        for (auto event = static_cast<std::size_t>(first); event <= static_cast<std::size_t>(last); ++event) {
          if (exceeds(event)) result[event] -= chosen[i] * part(i, event);
        }
      });
    }
    return result;
  }

  /// The part of the event's excess that the item covers, at most all of it.
  [[nodiscard]] double part(std::size_t item, std::size_t event) const {
    const Bytes gain = problem_.items[item].gain(Stage(event));
    return std::min(1.0, static_cast<double>(gain.count()) / static_cast<double>(problem_.excess[event].count()));
  }

  /// Takes in the locally most violated events; false if there are none.
  bool add_violated(const std::vector<double>& chosen) {
    const auto missing = shortfalls(chosen.data());
    truncated_ = truncated_ || missing.empty();
    std::vector<std::size_t> events;
    for (std::size_t k = 0; k < missing.size(); ++k) {
      if (!in_rows_[k] && missing[k] > kViolated && is_peak(missing, k)) events.push_back(k);
    }
    return add_events(std::move(events), missing);
  }

  /// The LP with all rows it needs; false if there is nothing more to be done.
  bool solve_relaxation() {
    for (int round = 0; round < kMaxRounds; ++round) {
      lp_.getModelPtr()->setMaximumWallSeconds(std::max(0.0, seconds_left()));
      if (solved_)
        lp_.resolve();
      else
        lp_.initialSolve();
      solved_ = true;
      if (lp_.isProvenPrimalInfeasible()) {
        prove_infeasibility();
        return false;
      }
      if (!lp_.isProvenOptimal()) return false;
      take_prices();
      if (stopped()) return false;
      const std::vector<double> chosen(lp_.getColSolution(), lp_.getColSolution() + lp_.getNumCols());
      if (!add_violated(chosen)) break;
    }
    return true;
  }

  [[nodiscard]] std::vector<double> prices(const OsiSolverInterface& solver, double unit) const {
    std::vector<double> result(problem_.excess.size(), 0.0);
    for (std::size_t row = 0; row < row_events_.size(); ++row) {
      const std::size_t k = row_events_[row];
      const double dual = solver.getRowPrice()[first_event_row_ + static_cast<int>(row)];
      result[k] = dual * unit / static_cast<double>(problem_.excess[k].count());
    }
    return result;
  }

  void take_prices() {
    PricedBound priced = priced_bound(problem_, prices(lp_, static_cast<double>(unit_)));
    if (priced.bound < result_.priced.bound) return;
    result_.priced = std::move(priced);
    result_.bound = std::max(result_.bound, result_.priced.bound);
  }

  /// Minimises the part of its excess by which any event is missed. If that is not 0, the dual values prove it.
  void prove_infeasibility() {
    OsiClpSolverInterface elastic(lp_);
    prepare(elastic);
    stopper_.watch(elastic);
    for (int column = 0; column < elastic.getNumCols(); ++column) elastic.setObjCoeff(column, 0);
    std::vector<int> rows(row_events_.size());
    std::iota(rows.begin(), rows.end(), first_event_row_);
    const std::vector<double> ones(rows.size(), 1.0);
    elastic.addCol(static_cast<int>(rows.size()), rows.data(), ones.data(), 0, elastic.getInfinity(), 1);
    elastic.getModelPtr()->setMaximumWallSeconds(std::max(0.0, seconds_left()));
    elastic.initialSolve();
    if (!elastic.isProvenOptimal()) return;
    result_.infeasible = proves_infeasible(problem_, prices(elastic, 1.0));
  }

  /// The integer program over the present rows; false if it was not solved to the end.
  bool solve_integer() {
    // The model copies the LP. CBC has a limit of its own; an LP that stops under it would look infeasible.
    lp_.getModelPtr()->setMaximumWallSeconds(kNoLimit);
    CbcModel model(lp_);
    const CbcAnswer answer = run_cbc(model, limits_, seconds_left());
    if (const double* best = model.bestSolution()) {
      chosen_.assign(best, best + lp_.getNumCols());
      result_.given_up.assign(problem_.items.size(), false);
      for (std::size_t i = 0; i < problem_.items.size(); ++i) result_.given_up[i] = chosen_[i] > kChosen;
    }
    result_.complete = answer.complete;
    // Infeasible as an integer program although the LP was not: no proof in exact arithmetic, nothing is concluded.
    if (!answer.bound) return false;
    result_.bound = std::max(result_.bound, safe_bound(result_.complete ? chosen_cost() : *answer.bound, unit_));
    return result_.complete;
  }

  [[nodiscard]] double chosen_cost() const {
    std::int64_t units = 0;
    for (std::size_t i = 0; i < problem_.items.size(); ++i) {
      if (result_.given_up[i]) units += problem_.items[i].cost.count() / unit_;
    }
    const bool beyond = !limits_.cuts.empty() && chosen_.back() > kChosen;
    return static_cast<double>(units) + (beyond ? whole_units_up(limits_.cutoff.count(), unit_) : 0.0);
  }

  const CoverProblem& problem_;
  const CoverMipLimits& limits_;
  Clock::time_point begin_;
  std::int64_t unit_ = 1;
  OsiClpSolverInterface lp_;
  Stopper stopper_{limits_.interrupted};
  bool solved_ = false;
  int first_event_row_ = 0;
  std::vector<bool> in_rows_;
  std::vector<std::size_t> row_events_;
  std::size_t looked_at_ = 0;
  std::size_t coefficients_ = 0;
  /// There was no room for all the rows that were wanted.
  bool truncated_ = false;
  std::vector<double> chosen_;
  CoverMipResult result_;
};

}  // namespace

bool cover_mip_available() {
  return true;
}

CoverMipResult solve_cover_mip(const CoverProblem& problem, const CoverMipLimits& limits) {
  return CoverMip(problem, limits).run();
}

#endif

}  // namespace remora
