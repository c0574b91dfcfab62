// SPDX-License-Identifier: Apache-2.0
//
// Nogoods learned from failures of the complete search, and the search that learns them: Gecode's spaces, propagators
// and brancher, in place of its engine a depth-first branch and bound that explains each failure and goes back to where
// the explanation would first have said something (conflict-directed backjumping; Marques-Silva and Sakallah 1999 for
// satisfiability).
//
// A *fact* says that a variable's value is within some ranges: a recompute is absent, it is certain, it is not in these
// stages. A *nogood* is a set of facts that cannot all hold (Schiex and Verfaillie 1994). When a node fails, the facts
// that held at its parent and the decision taken there are a nogood; propagation from the root says which of them fail
// without the others (QuickXplain, Junker 2004), and how far back each of them suffices as it was (the domains that
// the variable had higher up). What is left is short, often four or five facts, and holds wherever they come together
// again.
//
// So explanations need no propagator's help: whatever fails, by memory, duration, order or modes, is explained by
// failing again. Each nogood was seen to fail from the root, under the limits of then; these only fall. Where a dominance
// rule had a part in it, it is one that some optimum obeys everywhere (no recompute without a use, none that could as
// well be later), so that nogoods may be combined.
//
// The store belongs to one search, not to a space. Each nogood is watched by two of its facts that do not hold yet
// (Moskewicz et al. 2001): a watch that was moved in a node is right in all nodes above it, too, for a fact that does
// not hold below holds nowhere above.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gecode/int.hh>
#include <gecode/search.hh>

#include "model/cp/branching.hpp"
#include "model/cp/propagator.hpp"

namespace remora::cp {

class RetentionSpace;

struct Fact {
  struct Range {
    int first = 0;
    int last = 0;

    friend bool operator==(const Range&, const Range&) = default;
  };

  int variable = 0;
  /// Ascending, with gaps between them.
  std::vector<Range> within{};

  /// True if every value of the domain is within the ranges.
  [[nodiscard]] bool holds(const Gecode::Int::IntView& view) const;
  /// True if none is.
  [[nodiscard]] bool refuted(const Gecode::Int::IntView& view) const;
  /// Makes it hold, or makes it refuted. False if no value is left.
  [[nodiscard]] bool impose(Gecode::Space& home, Gecode::Int::IntView view) const;
  [[nodiscard]] bool exclude(Gecode::Space& home, Gecode::Int::IntView view) const;
};

/// State of the variable by its domain.
Fact fact_of(int variable, const Gecode::Int::IntView& view);

class NogoodStore {
 public:
  explicit NogoodStore(int variables) : known_(at(variables)) {}

  /// At least two facts. The first is about to be made false, the second became true last of the others, so that
  /// neither holds in any node above.
  void add(const std::vector<Fact>& facts);

  /// Looks at the nogoods that watch facts about the variable, whose domain has changed, and removes values where all
  /// facts but one hold. False if all facts of one do, or no value is left.
  bool propagate(Gecode::Space& home, Views& views, int variable);

 private:
  /// Literals shared by several nogoods are stored, and tested, once.
  struct Watched {
    Fact fact{};
    /// The nogoods that watch it.
    std::vector<std::size_t> nogoods{};
  };
  struct Nogood {
    /// Positions in watched_; the first two are watched.
    std::vector<std::size_t> facts{};
    /// When it last said something, counted in nogoods learned.
    std::int64_t used = 0;
  };

  std::size_t number_of(const Fact& fact);
  void insert(Nogood nogood);
  void forget_half();
  bool came_true(Gecode::Space& home, Views& views, std::size_t fact);

  std::vector<Nogood> nogoods_;
  std::vector<Watched> watched_;
  /// By variable: the facts about it.
  std::vector<std::vector<std::size_t>> known_;
  std::int64_t learned_ = 0;
  std::size_t capacity_ = 10'000;
};

/// The propagator: what the store knows, in this space.
class LearnedNogoods : public StartPropagator<LearnedNogoods> {
 public:
  LearnedNogoods(Gecode::Home home, Views& views, Context& context);
  LearnedNogoods(Gecode::Space& home, LearnedNogoods& other);

  Gecode::PropCost cost(const Gecode::Space& home, const Gecode::ModEventDelta& med) const override;
  Gecode::ExecStatus propagate(Gecode::Space& home, const Gecode::ModEventDelta& med) override;

 private:
  /// By variable: how many values it had when its nogoods were last looked at.
  unsigned int* seen_;
};

/// One of Gecode's engines: next() gives one solution after the other, each better than the one before, then nothing.
class LearningSearch : public Gecode::Search::Engine {
 public:
  /// `options.stop` is asked at every node; nothing else of the options is used. The context must outlive the search
  /// and belongs to it alone.
  LearningSearch(Context& context, const Branching& branching, const Gecode::Search::Options& options);
  LearningSearch(const LearningSearch&) = delete;
  LearningSearch& operator=(const LearningSearch&) = delete;
  ~LearningSearch() override;

  /// A RetentionSpace, the caller's own. Null if there is no better one, or if the search was stopped; then it may be called again.
  Gecode::Space* next() override;
  [[nodiscard]] bool stopped() const override { return stopped_; }
  /// Nodes are spaces that were propagated, those of explanations among them.
  [[nodiscard]] Gecode::Search::Statistics statistics() const override { return statistics_; }

 private:
  struct Level {
    /// Propagated.
    std::unique_ptr<RetentionSpace> space{};
    Gecode::SpaceStatus status = Gecode::SS_BRANCH;
    /// Decisions taken here, on the way to the next level.
    Fact decision{};
  };

  /// A fact, and the first level at which it holds.
  struct DatedFact : Fact {
    std::size_t since = 0;
  };

  void begin_again();
  void descend();
  bool refute_last_decision();
  std::vector<DatedFact> explain(std::size_t level);
  std::vector<DatedFact> necessary(RetentionSpace& space, std::vector<DatedFact> facts);
  bool weaken(std::vector<DatedFact>& nogood, std::size_t fact);
  std::unique_ptr<RetentionSpace> propagated(RetentionSpace& from, const std::vector<DatedFact>& facts);
  [[nodiscard]] std::size_t first_level_with(const Fact& fact, std::size_t last) const;

  Context& context_;
  NogoodStore store_;
  Gecode::Search::Options options_;
  Gecode::Search::Statistics statistics_;
  /// The first is the root. None are left when everything has been looked at.
  std::vector<Level> levels_;
  Duration root_below_;
  bool stopped_ = false;
};

}  // namespace remora::cp
