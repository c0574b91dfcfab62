// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/bank_space.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include <gecode/search.hh>

#include "engine/placement/part.hpp"

namespace remora::placement {
namespace {

/// The constraints, on all variables together. A pass costs the sections of all buffers, and sorts.
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
    loads_.assign(context_->problem().banks.size() * at(context_->sections()), 0);
    for (int i = 0; i < x.size(); ++i) {
      if (!x[i].assigned()) continue;
      const std::size_t bank = choice(i, x[i].val()).bank;
      for (const int s : context_->variables()[at(i)].sections) {
        if ((load(bank, s) += context_->size(i)) > capacity(bank)) return Gecode::ES_FAILED;
      }
    }
    for (int i = 0; i < x.size(); ++i) {
      if (x[i].assigned()) continue;
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
    return loads_[bank * at(context_->sections()) + at(section)];
  }
  [[nodiscard]] std::int64_t capacity(std::size_t bank) const {
    return context_->problem().banks[bank].capacity.count();
  }
  [[nodiscard]] bool has_room(int i, std::size_t bank) {
    if (context_->size(i) > capacity(bank) && !context_->variables()[at(i)].sections.empty()) return false;
    const std::vector<int>& sections = context_->variables()[at(i)].sections;
    return std::all_of(sections.begin(), sections.end(),
                       [&](int s) { return load(bank, s) <= capacity(bank) - context_->size(i); });
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

  /// What moves cost at least, where cheapest choices do not fit: of every bank the dearest section.
  [[nodiscard]] std::int64_t least_moves() {
    struct Move {
      std::int64_t cost;
      std::int64_t size;
    };
    const std::size_t banks = context_->problem().banks.size();
    std::vector<std::vector<Move>> moves(banks * at(context_->sections()));
    for (int i = 0; i < x.size(); ++i) {
      if (x[i].assigned()) continue;
      const std::size_t bank = choice(i, x[i].min()).bank;
      const Move move{choice(i, next(i)).cost - choice(i, x[i].min()).cost, context_->size(i)};
      for (const int s : context_->variables()[at(i)].sections) {
        moves[bank * at(context_->sections()) + at(s)].push_back(move);
      }
    }
    std::int64_t sum = 0;
    for (std::size_t bank = 0; bank < banks; ++bank) {
      std::int64_t dearest = 0;
      for (int s = 0; s < context_->sections(); ++s) {
        std::vector<Move>& here = moves[bank * at(context_->sections()) + at(s)];
        std::int64_t excess = load(bank, s) - capacity(bank);
        for (const Move& move : here) excess += move.size;
        if (excess <= 0) continue;
        std::sort(here.begin(), here.end(), [](const Move& a, const Move& b) {
          return static_cast<long double>(a.cost) * static_cast<long double>(b.size) <
                 static_cast<long double>(b.cost) * static_cast<long double>(a.size);
        });
        long double cost = 0;
        for (const Move& move : here) {
          if (excess <= 0) break;
          const auto part = static_cast<long double>(std::min(excess, move.size)) / static_cast<long double>(move.size);
          cost += static_cast<long double>(move.cost) * part;
          excess -= move.size;
        }
        // Costs are whole, sums of floats are not exact.
        constexpr long double kDoubt = 1e-9L;
        dearest = std::max(dearest, static_cast<std::int64_t>(std::ceil(cost - kDoubt * (1 + cost))));
      }
      sum = saturating_sum(sum, dearest);
    }
    return sum;
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
