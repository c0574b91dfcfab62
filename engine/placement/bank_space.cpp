// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/bank_space.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <gecode/search.hh>

#include "engine/placement/part.hpp"

namespace remora::placement {
namespace {

/// The constraints, on all variables together. A pass costs the sections of all buffers, and sorts; of a problem that is too large for that,
/// what remains when the search is to end is left out: a bound is then lower, and fewer values are removed.
class BankBounds : public Gecode::NaryPropagator<Gecode::Int::IntView, Gecode::Int::PC_INT_DOM> {
 public:
  using Views = Gecode::ViewArray<Gecode::Int::IntView>;

  static Gecode::ExecStatus post(Gecode::Home home, Views& views, BankContext& context) {
    (void)new (home) BankBounds(home, views, context);
    return Gecode::ES_OK;
  }
  Gecode::PropCost cost(const Gecode::Space&, const Gecode::ModEventDelta&) const override {
    return Gecode::PropCost::quadratic(Gecode::PropCost::HI, x.size());
  }
  Gecode::Actor* copy(Gecode::Space& home) override { return new (home) BankBounds(home, *this); }

  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta&) override {
    bool changed = true;
    while (changed) {
      changed = false;
      GECODE_ES_CHECK(bound_costs(home, changed));
      GECODE_ES_CHECK(bound_loads(home, changed));
      GECODE_ES_CHECK(avoid_clashes(home, changed));
    }
    const std::int64_t bound = saturating_sum(cheapest(), least_moves());
    if (!context_->root_bound) context_->root_bound = bound;
    if (bound >= context_->best_cost()) return Gecode::ES_FAILED;
    for (std::size_t bank = 0; bank < context_->problem().banks.size(); ++bank) {
      if (!is_decided(bank)) continue;
      if (!context_->packs(bank, members(bank))) return Gecode::ES_FAILED;
    }
    return x.assigned() ? home.ES_SUBSUMED(*this) : Gecode::ES_FIX;
  }

 private:
  BankBounds(Gecode::Home home, Views& views, BankContext& context) : NaryPropagator(home, views), context_(&context) {}
  BankBounds(Gecode::Space& home, BankBounds& other) : NaryPropagator(home, other), context_(other.context_) {}

  [[nodiscard]] const BankChoice& choice(int i, int k) const { return context_->variables()[at(i)].choices[at(k)]; }

  [[nodiscard]] std::int64_t cheapest() const {
    std::int64_t sum = 0;
    for (int i = 0; i < x.size(); ++i) sum += choice(i, x[i].min()).cost;
    return sum;
  }

  Gecode::ExecStatus bound_costs(Gecode::Space& home, bool& changed) {
    const std::int64_t least = cheapest();
    if (least >= context_->best_cost()) return Gecode::ES_FAILED;
    for (int i = 0; i < x.size(); ++i) {
      while (least - choice(i, x[i].min()).cost + choice(i, x[i].max()).cost >= context_->best_cost()) {
        GECODE_ME_CHECK(x[i].lq(home, x[i].max() - 1));
        changed = true;
      }
    }
    return Gecode::ES_OK;
  }

  Gecode::ExecStatus bound_loads(Gecode::Space& home, bool& changed) {
    // Each size is added where a stretch begins and taken away where it ends; sums over the sections make loads of that.
    const std::size_t row = at(context_->sections()) + 1;
    loads_.assign(context_->problem().banks.size() * row, 0);
    for (int i = 0; i < x.size(); ++i) {
      if (!x[i].assigned()) continue;
      const std::size_t bank = choice(i, x[i].val()).bank;
      for (const BankContext::Stretch& stretch : context_->variables()[at(i)].alive) {
        load(bank, stretch.first) += context_->size(i);
        load(bank, stretch.end) -= context_->size(i);
      }
    }
    for (std::size_t bank = 0; bank < context_->problem().banks.size(); ++bank) {
      for (int s = 0; s < context_->sections(); ++s) {
        if (s > 0) load(bank, s) += load(bank, s - 1);
        if (load(bank, s) > capacity(bank)) return Gecode::ES_FAILED;
      }
    }
    for (int i = 0; i < x.size(); ++i) {
      if (x[i].assigned()) continue;
      if (context_->is_over()) break;
      const int most = x[i].max();
      for (int k = x[i].min(); k <= most; ++k) {
        if (!x[i].in(k) || has_room(i, choice(i, k).bank)) continue;
        GECODE_ME_CHECK(x[i].nq(home, k));
        changed = true;
      }
    }
    return Gecode::ES_OK;
  }

  [[nodiscard]] std::int64_t& load(std::size_t bank, int section) {
    return loads_[bank * (at(context_->sections()) + 1) + at(section)];
  }
  [[nodiscard]] std::int64_t capacity(std::size_t bank) const {
    return context_->problem().banks[bank].capacity.count();
  }
  [[nodiscard]] bool has_room(int i, std::size_t bank) {
    return std::ranges::all_of(context_->variables()[at(i)].alive, [&](const BankContext::Stretch& stretch) {
      const std::int64_t* const first = &load(bank, stretch.first);
      return std::all_of(first, first + (stretch.end - stretch.first),
                         [&](std::int64_t load) { return load <= capacity(bank) - context_->size(i); });
    });
  }

  Gecode::ExecStatus avoid_clashes(Gecode::Space& home, bool& changed) {
    for (const BankContext::Clash& clash : context_->clashes()) {
      int open = -1;
      int opens = 0;
      bool apart = false;
      for (const int i : clash.members) {
        const int k = choice_in(i, clash.bank);
        if (!x[i].in(k)) {
          apart = true;
          break;
        }
        if (x[i].assigned()) continue;
        open = i;
        if (++opens > 1) break;
      }
      if (apart || opens > 1) continue;
      if (opens == 0) return Gecode::ES_FAILED;
      GECODE_ME_CHECK(x[open].nq(home, choice_in(open, clash.bank)));
      changed = true;
    }
    return Gecode::ES_OK;
  }

  /// Its choice of this bank, which it has.
  [[nodiscard]] int choice_in(int i, std::size_t bank) const {
    int k = 0;
    while (choice(i, k).bank != bank) ++k;
    return k;
  }

  /// To the next bank, of a buffer that is not assigned.
  struct Move {
    std::int64_t cost;
    std::int64_t size;
    int variable;

    /// The cheapest for its bytes first.
    friend bool operator<(const Move& a, const Move& b) {
      const auto left = static_cast<long double>(a.cost) * static_cast<long double>(b.size);
      const auto right = static_cast<long double>(b.cost) * static_cast<long double>(a.size);
      return left != right ? left < right : a.variable < b.variable;
    }
  };

  /// A lower bound on the cost of moves where cheapest choices do not fit: of every bank the costliest section.
  [[nodiscard]] std::int64_t least_moves() {
    const std::size_t banks = context_->problem().banks.size();
    std::vector<std::vector<int>> open(banks);
    for (int i = 0; i < x.size(); ++i) {
      if (!x[i].assigned()) open[choice(i, x[i].min()).bank].push_back(i);
    }
    std::int64_t sum = 0;
    for (std::size_t bank = 0; bank < banks; ++bank) sum = saturating_sum(sum, costliest_section(bank, open[bank]));
    return sum;
  }

  /// The costliest section of a bank, the cheapest choice of these variables: a sweep over the sorted moves of live
  /// buffers.
  [[nodiscard]] std::int64_t costliest_section(std::size_t bank, const std::vector<int>& open) {
    struct Change {
      int section;
      bool begins;
      int variable;
    };
    std::vector<Change> changes;
    for (const int i : open) {
      for (const BankContext::Stretch& stretch : context_->variables()[at(i)].alive) {
        changes.push_back({stretch.first, true, i});
        changes.push_back({stretch.end, false, i});
      }
    }
    // Ends come first: a buffer may end and begin in one section.
    std::ranges::sort(changes, {}, [](const Change& change) { return std::pair(change.section, change.begins); });
    std::set<Move> moves;
    std::int64_t sizes = 0;
    std::int64_t dearest = 0;
    auto change = changes.begin();
    for (int s = 0; s < context_->sections() && !context_->is_over(); ++s) {
      for (; change != changes.end() && change->section == s; ++change) {
        const int i = change->variable;
        const Move move{choice(i, next(i)).cost - choice(i, x[i].min()).cost, context_->size(i), i};
        change->begins ? (void)moves.insert(move) : (void)moves.erase(move);
        sizes += change->begins ? move.size : -move.size;
      }
      dearest = std::max(dearest, cost_of_moves(moves, load(bank, s) + sizes - capacity(bank)));
    }
    return dearest;
  }

  /// Until the bytes in excess are gone; the last move in part.
  [[nodiscard]] static std::int64_t cost_of_moves(const std::set<Move>& moves, std::int64_t excess) {
    long double cost = 0;
    for (const Move& move : moves) {
      if (excess <= 0) break;
      const auto part = static_cast<long double>(std::min(excess, move.size)) / static_cast<long double>(move.size);
      cost += static_cast<long double>(move.cost) * part;
      excess -= move.size;
    }
    // Costs are whole, sums of floats are not exact.
    constexpr long double kDoubt = 1e-9L;
    return std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(cost - kDoubt * (1 + cost))));
  }

  /// The second choice of a variable that is not assigned.
  [[nodiscard]] int next(int i) const {
    int k = x[i].min() + 1;
    while (!x[i].in(k)) ++k;
    return k;
  }

  /// Nobody who is not yet decided may come in.
  [[nodiscard]] bool is_decided(std::size_t bank) const {
    for (int i = 0; i < x.size(); ++i) {
      if (x[i].assigned()) continue;
      for (int k = x[i].min(); k <= x[i].max(); ++k) {
        if (x[i].in(k) && choice(i, k).bank == bank) return false;
      }
    }
    return true;
  }
  [[nodiscard]] std::vector<int> members(std::size_t bank) const {
    std::vector<int> result;
    for (int i = 0; i < x.size(); ++i) {
      if (x[i].assigned() && choice(i, x[i].val()).bank == bank) result.push_back(i);
    }
    return result;
  }

  BankContext* context_;
  /// By bank and section; of one pass.
  std::vector<std::int64_t> loads_;
};

class BankStop : public Gecode::Search::Stop {
 public:
  explicit BankStop(BankContext& context) : context_(context) {}
  bool stop(const Gecode::Search::Statistics& statistics, const Gecode::Search::Options&) override {
    const auto seen = static_cast<std::int64_t>(statistics.node);
    context_.nodes += seen - seen_;
    seen_ = seen;
    context_.cut = context_.cut || seen >= context_.node_limit || context_.is_over();
    return context_.cut;
  }

 private:
  BankContext& context_;
  std::int64_t seen_ = 0;
};

}  // namespace

BankSpace::BankSpace(BankContext& context, const std::vector<int>& given) {
  choices_ = Gecode::IntVarArray(*this, context.count());
  for (int i = 0; i < context.count(); ++i) {
    const int last = static_cast<int>(context.variables()[at(i)].choices.size()) - 1;
    const int choice = given.empty() ? -1 : given[at(i)];
    choices_[i] = Gecode::IntVar(*this, std::max(choice, 0), choice < 0 ? last : choice);
  }
  Gecode::ViewArray<Gecode::Int::IntView> views(*this, Gecode::IntVarArgs(choices_));
  Gecode::Home home(*this);
  GECODE_ES_FAIL(BankBounds::post(home, views, context));
  Gecode::branch(*this, choices_, Gecode::INT_VAR_NONE(), Gecode::INT_VAL_MIN());
}

std::vector<int> BankSpace::choices() const {
  std::vector<int> values;
  values.reserve(at(choices_.size()));
  for (int i = 0; i < choices_.size(); ++i) values.push_back(choices_[i].val());
  return values;
}

bool search_banks(BankContext& context, const std::vector<int>& given) {
  context.cut = false;
  BankStop stop(context);
  Gecode::Search::Options options;
  options.threads = 1;
  options.clone = false;
  options.stop = &stop;
  Gecode::DFS<BankSpace> engine(new BankSpace(context, given), options);
  while (const std::unique_ptr<BankSpace> found{engine.next()}) context.accept(found->choices());
  return !context.cut;
}

}  // namespace remora::placement
