// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/stack_space.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include <gecode/search.hh>

#include "engine/placement/part_search.hpp"

namespace remora::placement {
namespace {

/// Ends an engine when the context says so.
class StackStop : public Gecode::Search::Stop {
 public:
  explicit StackStop(StackContext& context) : context_(context) {}
  bool stop(const Gecode::Search::Statistics&, const Gecode::Search::Options&) override { return context_.stopped(); }

 private:
  StackContext& context_;
};

/// A placement of what waits in the space, which is the engine's; null if there is none, or the search was cut.
std::unique_ptr<StackSpace> search(StackSpace* space, StackContext& context) {
  StackStop stop(context);
  Gecode::Search::Options options;
  options.threads = 1;
  options.clone = false;
  options.stop = &stop;
  Gecode::DFS<StackSpace> engine(space, options);
  return std::unique_ptr<StackSpace>(engine.next());
}

constexpr int kNoItem = -1;

/// An item that is placed or refused; or, where the rest falls into groups, all of their offsets.
class StackChoice : public Gecode::Choice {
 public:
  /// An item and its offset.
  using Settled = std::pair<int, int>;

  StackChoice(const Gecode::Brancher& brancher, unsigned alternatives, int item)
      : Choice(brancher, alternatives), item_(item) {}
  StackChoice(const Gecode::Brancher& brancher, std::vector<Settled> settled)
      : Choice(brancher, 1), item_(kNoItem), settled_(std::move(settled)) {}
  /// There is no placement.
  explicit StackChoice(const Gecode::Brancher& brancher) : Choice(brancher, 1), item_(kNoItem), fails_(true) {}

  void archive(Gecode::Archive& archive) const override {
    Choice::archive(archive);
    archive << item_;
  }

  [[nodiscard]] int item() const { return item_; }
  [[nodiscard]] bool fails() const { return fails_; }
  [[nodiscard]] const std::vector<Settled>& settled() const { return settled_; }

 private:
  int item_;
  std::vector<Settled> settled_;
  bool fails_ = false;
};

class StackBrancher : public Gecode::Brancher {
 public:
  static void post(Gecode::Home home, StackContext& context) { (void)new (home) StackBrancher(home, context); }

  bool status(const Gecode::Space& home) const override {
    const auto& space = static_cast<const StackSpace&>(home);
    for (int i = 0; i < context_->problem.count(); ++i) {
      if (space.place(i) == StackSpace::Place::waiting) return true;
    }
    return false;
  }

  const Gecode::Choice* choice(Gecode::Space& home) override {
    auto& space = static_cast<StackSpace&>(home);
    if (context_->settings.inferences.decompose) {
      const std::vector<std::vector<int>> groups = groups_of(space);
      if (groups.size() > 1) return solve_groups(space, groups);
    }
    ++context_->nodes;
    const int best = next_item(space);
    // All float: the propagator would have failed, unless its supports are switched off.
    if (best < 0) return new StackChoice(*this);
    return new StackChoice(*this, space.offsets()[best].assigned() ? 1 : 2, best);
  }

  const Gecode::Choice* choice(const Gecode::Space&, Gecode::Archive& archive) override {
    int item = 0;
    archive >> item;
    return new StackChoice(*this, 2, item);
  }

  Gecode::ExecStatus commit(Gecode::Space& home, const Gecode::Choice& choice, unsigned alternative) override {
    auto& space = static_cast<StackSpace&>(home);
    const auto& chosen = static_cast<const StackChoice&>(choice);
    if (chosen.fails()) return Gecode::ES_FAILED;
    if (chosen.item() < 0) {
      for (const auto& [item, offset] : chosen.settled()) space.settle_at(item, offset);
    } else if (alternative == 0) {
      space.settle(chosen.item());
    } else {
      space.refuse(chosen.item());
    }
    return space.failed() ? Gecode::ES_FAILED : Gecode::ES_OK;
  }

  Gecode::Actor* copy(Gecode::Space& home) override { return new (home) StackBrancher(home, *this); }
  std::size_t dispose(Gecode::Space& home) override {
    (void)Brancher::dispose(home);
    return sizeof(*this);
  }

 private:
  StackBrancher(Gecode::Home home, StackContext& context) : Brancher(home), context_(&context) {}
  StackBrancher(Gecode::Space& home, StackBrancher& other) : Brancher(home, other), context_(other.context_) {}

  /// An item that may lie at its support, and below which nothing that waits can lie; -1 if all float.
  [[nodiscard]] int next_item(const StackSpace& space) const {
    const StackProblem& problem = context_->problem;
    const bool tightest = context_->settings.branching == Branching::tightest;
    if (tightest) count_firsts(space);
    int best = -1;
    std::tuple<int, int, int> least;
    for (int i = 0; i < problem.count(); ++i) {
      if (!waits(space, i) || space.offsets()[i].min() > space.support(i)) continue;
      int firsts = std::numeric_limits<int>::max();
      if (tightest) {
        const int room = room_before(space, i);
        for (const Sections& own : problem.sections_of[at(i)]) {
          for (int s = own.first; s < own.end; ++s) {
            if (context_->waiting_sum[at(s)] <= room) firsts = std::min(firsts, context_->first_count[at(s)]);
          }
        }
      }
      const std::tuple key{firsts, space.support(i), context_->rank[at(i)]};
      if ((best >= 0 && key >= least) || has_room_below(space, i) || comes_after_equal(space, i)) continue;
      best = i;
      least = key;
    }
    return best;
  }

  void count_firsts(const StackSpace& space) const {
    const StackProblem& problem = context_->problem;
    std::fill(context_->waiting_sum.begin(), context_->waiting_sum.end(), 0);
    std::fill(context_->first_count.begin(), context_->first_count.end(), 0);
    for (int i = 0; i < problem.count(); ++i) {
      if (!waits(space, i)) continue;
      for (const Sections& own : problem.sections_of[at(i)]) {
        for (int s = own.first; s < own.end; ++s) context_->waiting_sum[at(s)] += problem.size[at(i)];
      }
    }
    for (int i = 0; i < problem.count(); ++i) {
      if (!waits(space, i)) continue;
      const int room = room_before(space, i);
      for (const Sections& own : problem.sections_of[at(i)]) {
        for (int s = own.first; s < own.end; ++s) {
          context_->first_count[at(s)] += context_->waiting_sum[at(s)] <= room ? 1 : 0;
        }
      }
    }
  }

  [[nodiscard]] static bool waits(const StackSpace& space, int item) {
    return space.place(item) == StackSpace::Place::waiting;
  }
  /// The item can come first in a section if the sum of what waits there is at most this.
  [[nodiscard]] int room_before(const StackSpace& space, int item) const {
    return context_->problem.capacity - space.offsets()[item].min();
  }
  [[nodiscard]] bool has_room_below(const StackSpace& space, int item) const {
    const StackProblem& problem = context_->problem;
    const std::vector<int>& others = problem.overlaps[at(item)];
    return std::any_of(others.begin(), others.end(), [&](int k) {
      return waits(space, k) && space.offsets()[k].min() + problem.size[at(k)] <= space.support(item);
    });
  }

  /// True if an equal item that may lie as low must be placed before this one.
  [[nodiscard]] bool comes_after_equal(const StackSpace& space, int item) const {
    if (!context_->settings.inferences.twins) return false;
    const std::vector<int>& others = context_->problem.overlaps[at(item)];
    return std::any_of(others.begin(), others.end(), [&](int k) {
      return context_->before_twin(k, item) && context_->problem.size[at(k)] == context_->problem.size[at(item)] &&
             waits(space, k) && space.offsets()[k].min() == space.support(k);
    });
  }

  /// The waiting items, in groups that share no time.
  [[nodiscard]] std::vector<std::vector<int>> groups_of(const StackSpace& space) const {
    const StackProblem& problem = context_->problem;
    // Sections that somebody's life goes on from into the next one.
    std::vector<int> crossing(at(problem.span_count) + 1);
    std::vector<int> waiting;
    for (int i = 0; i < problem.count(); ++i) {
      if (space.place(i) != StackSpace::Place::waiting) continue;
      waiting.push_back(i);
      ++crossing[at(problem.span[at(i)].first)];
      --crossing[at(problem.span[at(i)].end) - 1];
    }
    std::vector<int> group_at(at(problem.span_count));
    int groups = 0;
    int count = 0;
    for (int s = 0; s < problem.span_count; ++s) {
      group_at[at(s)] = groups;
      count += crossing[at(s)];
      if (count == 0) ++groups;
    }
    std::vector<std::vector<int>> result(at(groups) + 1);
    for (const int i : waiting) result[at(group_at[at(problem.span[at(i)].first)])].push_back(i);
    std::erase_if(result, [](const std::vector<int>& group) { return group.empty(); });
    return result;
  }

  const Gecode::Choice* solve_groups(StackSpace& space, std::vector<std::vector<int>> groups) {
    // The small ones cost little, and any of them may end it.
    std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    std::vector<StackChoice::Settled> settled;
    for (const std::vector<int>& group : groups) {
      auto* part = static_cast<StackSpace*>(space.clone());
      part->keep_only(group);
      const std::unique_ptr<StackSpace> solution = search(part, *context_);
      if (!solution) return new StackChoice(*this);
      for (const int i : group) settled.emplace_back(i, solution->offsets()[i].val());
    }
    return new StackChoice(*this, std::move(settled));
  }

  StackContext* context_;
};

}  // namespace

StackContext::StackContext(const StackProblem& constant, const StackSettings& chosen)
    : problem(constant),
      settings(chosen),
      rank(constant.size.size()),
      low(constant.size.size()),
      high(constant.size.size()),
      has_moved(constant.size.size()),
      sections{.sum = std::vector<int>(at(constant.section_count)),
               .lowest = std::vector<int>(at(constant.section_count)),
               .second = std::vector<int>(at(constant.section_count)),
               .lowest_item = std::vector<int>(at(constant.section_count)),
               .above_first = std::vector<int>(at(constant.section_count))},
      members(at(constant.section_count)),
      gap_order(constant.size.size()),
      filled(at(constant.section_count)),
      first_tile(at(constant.section_count)),
      from_first(at(constant.section_count) + 1),
      to_end(at(constant.section_count) + 1),
      waiting_sum(at(constant.section_count)),
      first_count(at(constant.section_count)) {
  for (int i = 0; i < constant.count(); ++i) {
    if (constant.fixed[at(i)] < 0) continue;
    for (const Sections& own : constant.sections_of[at(i)]) {
      for (int s = own.first; s < own.end; ++s) fixed_sections.push_back(s);
    }
  }
  std::sort(fixed_sections.begin(), fixed_sections.end());
  fixed_sections.erase(std::unique(fixed_sections.begin(), fixed_sections.end()), fixed_sections.end());
  std::iota(gap_order.begin(), gap_order.end(), 0);
  std::sort(gap_order.begin(), gap_order.end(), [&](int a, int b) {
    const auto key = [&](int i) {
      const int fixed = constant.fixed[at(i)];
      return std::tuple(fixed < 0, fixed < 0 ? -constant.size[at(i)] : fixed, i);
    };
    return key(a) < key(b);
  });
  for (std::size_t k = 0; k < chosen.order.size(); ++k) rank[at(chosen.order[k])] = static_cast<int>(k);
}

bool StackContext::stopped() {
  cut = cut || nodes >= settings.node_limit || (settings.interrupted && settings.interrupted());
  return cut;
}

StackSpace::StackSpace(StackContext& context) : context_(&context) {
  const StackProblem& problem = context.problem;
  offsets_ = Gecode::IntVarArray(*this, problem.count());
  places_ = alloc<Place>(problem.count());
  supports_ = alloc<int>(problem.count());
  at_fixpoint_ = alloc<Bounds>(problem.count());
  std::fill(at_fixpoint_, at_fixpoint_ + problem.count(), Bounds{.low = -1, .high = -1});
  for (int i = 0; i < problem.count(); ++i) {
    places_[i] = Place::waiting;
    const int fixed = problem.fixed[at(i)];
    supports_[i] = std::max(fixed, 0);
    if (problem.highest[at(i)] < std::max(fixed, 0)) {
      fail();
      return;
    }
    offsets_[i] = Gecode::IntVar(*this, std::max(fixed, 0), fixed < 0 ? problem.highest[at(i)] : fixed);
  }
  Gecode::ViewArray<Gecode::Int::IntView> views(*this, Gecode::IntVarArgs(offsets_));
  Gecode::Home home(*this);
  GECODE_ES_FAIL(StackBounds::post(home, views, context));
  StackBrancher::post(*this, context);
}

StackSpace::StackSpace(StackSpace& other) : Space(other), context_(other.context_) {
  offsets_.update(*this, other.offsets_);
  const int count = context_->problem.count();
  places_ = alloc<Place>(count);
  supports_ = alloc<int>(count);
  std::copy(other.places_, other.places_ + count, places_);
  std::copy(other.supports_, other.supports_ + count, supports_);
  at_fixpoint_ = alloc<Bounds>(count);
  std::copy(other.at_fixpoint_, other.at_fixpoint_ + count, at_fixpoint_);
}

void StackSpace::settle(int item) {
  const StackProblem& problem = context_->problem;
  const int offset = supports_[item];
  settle_at(item, offset);
  const int end = offset + problem.size[at(item)];
  for (const int other : problem.overlaps[at(item)]) {
    if (places_[other] != Place::waiting || failed()) continue;
    int above = problem.fixed[at(other)] < 0 ? problem.aligned(other, end) : end;
    if (above == end && context_->settings.inferences.twins && context_->before_twin(other, item)) ++above;
    if (Gecode::me_failed(Gecode::Int::IntView(offsets_[other]).gq(*this, above))) {
      fail();
    } else if (problem.fixed[at(other)] < 0) {
      supports_[other] = std::max(supports_[other], problem.aligned(other, end));
    }
  }
}

void StackSpace::settle_at(int item, int offset) {
  places_[item] = Place::placed;
  if (Gecode::me_failed(Gecode::Int::IntView(offsets_[item]).eq(*this, offset))) fail();
}

void StackSpace::refuse(int item) {
  if (Gecode::me_failed(Gecode::Int::IntView(offsets_[item]).gr(*this, supports_[item]))) fail();
  if (!context_->settings.inferences.twins) return;
  // Nor do equal ones that come after it.
  const StackProblem& problem = context_->problem;
  for (const int other : problem.overlaps[at(item)]) {
    if (failed() || places_[other] != Place::waiting || !context_->before_twin(item, other) ||
        problem.size[at(other)] != problem.size[at(item)]) {
      continue;
    }
    if (Gecode::me_failed(Gecode::Int::IntView(offsets_[other]).gr(*this, supports_[item]))) fail();
  }
}

void StackSpace::keep_only(const std::vector<int>& items) {
  for (int i = 0; i < context_->problem.count(); ++i) {
    if (places_[i] == Place::waiting) places_[i] = Place::elsewhere;
  }
  for (const int i : items) places_[i] = Place::waiting;
}

StackOutcome search_stack(const StackProblem& problem, const StackSettings& settings) {
  StackContext context(problem, settings);
  StackOutcome outcome;
  const std::unique_ptr<StackSpace> solution = search(new StackSpace(context), context);
  outcome.nodes = context.nodes;
  outcome.complete = !solution && !context.cut;
  if (solution) {
    for (int i = 0; i < problem.count(); ++i) outcome.offsets.push_back(solution->offsets()[i].val());
  }
  return outcome;
}

namespace {

/// Gecode's largest value, with room for a sum of an offset and a size.
constexpr Grains kMaxGrains = Grains{1} << 29;

/// Numbers for the items that live at the same times, may lie anywhere, and end as high.
std::vector<int> twins_of(const Part& part, const StackProblem& problem) {
  std::map<std::pair<std::vector<std::pair<int, int>>, int>, std::vector<int>> alike;
  for (int i = 0; i < part.count(); ++i) {
    const Item& item = part.items[at(i)];
    if (item.is_fixed() || item.alignment != 1) continue;
    std::vector<std::pair<int, int>> life;
    for (const Sections& alive : item.alive) life.emplace_back(alive.first, alive.end);
    alike[{std::move(life), problem.highest[at(i)] + problem.size[at(i)]}].push_back(i);
  }
  std::vector<int> twins(part.items.size(), -1);
  int count = 0;
  for (const auto& [life, items] : alike) {
    if (items.size() < 2) continue;
    for (const int i : items) twins[at(i)] = count;
    ++count;
  }
  return twins;
}

/// Sections that begin with somebody's life and end with somebody's: all others are within a neighbour.
std::vector<int> maximal_sections(const Part& part) {
  std::vector<char> begins(at(part.sections) + 1);
  std::vector<char> ends(at(part.sections) + 1);
  for (const Item& item : part.items) {
    for (const Sections& alive : item.alive) {
      begins[at(alive.first)] = 1;
      ends[at(alive.end)] = 1;
    }
  }
  std::vector<int> number(at(part.sections), -1);
  int count = 0;
  for (int s = 0; s < part.sections; ++s) {
    // Since somebody has begun, nobody has ended: the last of such a row is the largest.
    if (!ends[at(s) + 1]) continue;
    int begin = s;
    while (begin > 0 && !ends[at(begin)] && !begins[at(begin)]) --begin;
    if (begins[at(begin)]) number[at(s)] = count++;
  }
  return number;
}

}  // namespace

std::optional<StackProblem> stack_problem(const Part& part, const std::vector<std::vector<int>>& overlaps,
                                          Bytes capacity) {
  const Grains grains = capacity.count() / part.grain.count() + (capacity.count() % part.grain.count() != 0 ? 1 : 0);
  if (grains > kMaxGrains) return std::nullopt;
  StackProblem problem;
  problem.capacity = static_cast<int>(grains);
  problem.overlaps = overlaps;
  problem.span_count = part.sections;
  const std::vector<int> number = maximal_sections(part);
  problem.section_count = 1 + *std::max_element(number.begin(), number.end());
  for (int i = 0; i < part.count(); ++i) {
    const Item& item = part.items[at(i)];
    // An item that is too large fits nowhere, whatever its size, which then stays below the limit.
    problem.size.push_back(static_cast<int>(std::min(item.size, kMaxGrains)));
    problem.alignment.push_back(static_cast<int>(std::min(item.alignment, kMaxGrains)));
    problem.fixed.push_back(static_cast<int>(std::min(item.fixed, kMaxGrains)));
    problem.highest.push_back(static_cast<int>(part.highest(i, capacity)));
    problem.span.push_back({item.first(), item.end()});
    std::vector<Sections>& sections = problem.sections_of.emplace_back();
    for (const Sections& alive : item.alive) {
      for (int s = alive.first; s < alive.end; ++s) {
        if (number[at(s)] < 0) continue;
        if (sections.empty() || sections.back().end != number[at(s)])
          sections.push_back({number[at(s)], number[at(s)]});
        ++sections.back().end;
      }
    }
  }
  problem.twins = twins_of(part, problem);
  return problem;
}

std::optional<StackProblem> upside_down(const StackProblem& problem, const Part& part, Bytes capacity) {
  if (capacity != part.bytes(problem.capacity)) return std::nullopt;
  StackProblem turned = problem;
  for (int i = 0; i < part.count(); ++i) {
    const Item& item = part.items[at(i)];
    if (item.alignment != 1 || part.bytes(item.size) != item.bytes) return std::nullopt;
    if (!item.is_fixed()) continue;
    turned.fixed[at(i)] = problem.highest[at(i)] - problem.fixed[at(i)];
    if (turned.fixed[at(i)] < 0) return std::nullopt;
  }
  return turned;
}

}  // namespace remora::placement
