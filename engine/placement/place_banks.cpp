// SPDX-License-Identifier: Apache-2.0
#include "engine/placement/place_banks.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "engine/placement/bank_space.hpp"
#include "engine/placement/part.hpp"
#include "model/error.hpp"
#include "model/random.hpp"

namespace remora {
namespace placement {
namespace {

/// Work for a part at first, nodes of the first try of the whole problem and of a neighbourhood, and neighbourhoods between
/// two tries.
constexpr std::int64_t kPartWork = 5'000;
constexpr std::int64_t kFirstBankNodes = 2'000;
constexpr std::int64_t kNeighbourhoodNodes = 500;
constexpr int kNeighbourhoods = 10;

using Stretch = BankContext::Stretch;

/// For every buffer its sections, without those whose buffers are all in another one; and the number of sections.
std::pair<std::vector<std::vector<Stretch>>, int> sections_of(const std::vector<Buffer>& buffers) {
  std::set<std::int64_t> begins;
  std::set<std::int64_t> ends;
  for (const Buffer& buffer : buffers) {
    for (const Lifespan& life : alive(buffer)) {
      begins.insert(life.lower);
      ends.insert(life.upper);
    }
  }
  std::set<std::int64_t> times = begins;
  times.insert(ends.begin(), ends.end());
  // Somebody has begun since the last one, and somebody ends behind it.
  std::vector<std::int64_t> tops;
  bool has_begun = false;
  for (auto time = times.begin(); time != times.end(); ++time) {
    has_begun = has_begun || begins.contains(*time);
    const auto after = std::next(time);
    if (!has_begun || after == times.end() || !ends.contains(*after)) continue;
    tops.push_back(*time);
    has_begun = false;
  }
  const auto section_at = [&](std::int64_t time) {
    return static_cast<int>(std::lower_bound(tops.begin(), tops.end(), time) - tops.begin());
  };
  std::vector<std::vector<Stretch>> sections(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    for (const Lifespan& life : alive(buffers[i])) {
      const Stretch stretch{section_at(life.lower), section_at(life.upper)};
      if (stretch.first < stretch.end) sections[i].push_back(stretch);
    }
  }
  return {std::move(sections), static_cast<int>(tops.size())};
}

/// The cost of moving the buffer from its cheapest bank to the next one, per byte and section.
double worth(const BankContext::Variable& variable, const Buffer& buffer) {
  if (variable.choices.size() < 2) return std::numeric_limits<double>::max();
  const auto area = static_cast<double>(buffer.size.count()) * static_cast<double>(variable.sections());
  return static_cast<double>(variable.choices[1].cost - variable.choices[0].cost) / std::max(area, 1.0);
}

/// Buffers in the variables' order, each in the cheapest bank in which this part of the capacity has room; empty if one has
/// none, or the search is to end.
std::vector<int> start_with(const BankContext& context, double part) {
  const auto sections = at(context.sections());
  std::vector<std::int64_t> loads(context.problem().banks.size() * sections);
  std::vector<int> choices;
  for (int i = 0; i < context.count(); ++i) {
    const BankContext::Variable& variable = context.variables()[at(i)];
    const auto has_room = [&](const BankChoice& choice) {
      const auto capacity = static_cast<double>(context.problem().banks[choice.bank].capacity.count());
      const auto first = loads.begin() + static_cast<std::ptrdiff_t>(choice.bank * sections);
      return std::ranges::all_of(variable.alive, [&](const Stretch& stretch) {
        return std::all_of(first + stretch.first, first + stretch.end, [&](std::int64_t load) {
          return static_cast<double>(load + context.size(i)) <= part * capacity;
        });
      });
    };
    if (context.is_over()) return {};
    const auto found = std::find_if(variable.choices.begin(), variable.choices.end(), has_room);
    if (found == variable.choices.end()) return {};
    for (const Stretch& stretch : variable.alive) {
      for (int s = stretch.first; s < stretch.end; ++s) loads[found->bank * sections + at(s)] += context.size(i);
    }
    choices.push_back(static_cast<int>(found - variable.choices.begin()));
  }
  return choices;
}

void look_for_start(BankContext& context) {
  constexpr int kSteps = 12;
  constexpr double kStep = 0.04;
  for (int step = 0; step < kSteps && !context.is_over(); ++step) {
    const std::vector<int> choices = start_with(context, 1 - kStep * step);
    if (choices.size() == at(context.count()) && context.offer(choices)) return;
  }
}

/// The best placement, but for buffers that live around a moment.
std::vector<int> neighbourhood(const BankContext& context, Random& random) {
  constexpr std::size_t kFree = 30;
  std::vector<int> given = context.best();
  const int centre = static_cast<int>(random.below(at(std::max(1, context.sections()))));
  std::vector<std::pair<double, int>> by_distance;
  for (int i = 0; i < context.count(); ++i) {
    const std::vector<Stretch>& alive = context.variables()[at(i)].alive;
    if (alive.empty() || context.variables()[at(i)].choices.size() < 2) continue;
    const int away = std::max({0, alive.front().first - centre, centre - (alive.back().end - 1)});
    by_distance.emplace_back(away + random.unit(), i);
  }
  std::sort(by_distance.begin(), by_distance.end());
  for (std::size_t k = 0; k < std::min(kFree, by_distance.size()); ++k) given[at(by_distance[k].second)] = -1;
  return given;
}

}  // namespace

BankContext::BankContext(const BankProblem& problem, const PlaceSettings& settings,
                         const std::function<bool()>& interrupted)
    : problem_(problem), settings_(settings), interrupted_(interrupted), part_work_(kPartWork) {
  auto [sections, count] = sections_of(problem.buffers);
  section_count_ = count;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    Variable variable{.buffer = i, .choices = problem.choices[i], .alive = std::move(sections[i])};
    std::stable_sort(variable.choices.begin(), variable.choices.end(),
                     [](const BankChoice& a, const BankChoice& b) { return a.cost < b.cost; });
    variables_.push_back(std::move(variable));
  }
  std::stable_sort(variables_.begin(), variables_.end(), [&](const Variable& a, const Variable& b) {
    return worth(a, problem.buffers[a.buffer]) > worth(b, problem.buffers[b.buffer]);
  });
}

std::vector<std::vector<int>> BankContext::parts(const std::vector<int>& members) const {
  std::vector<Buffer> buffers;
  buffers.reserve(members.size());
  for (const int i : members) buffers.push_back(problem_.buffers[variables_[at(i)].buffer]);
  std::vector<std::vector<int>> result;
  for (const Part& part : parts_of(buffers)) {
    std::vector<int>& own = result.emplace_back();
    for (const Item& item : part.items) own.push_back(members[item.buffer]);
    std::sort(own.begin(), own.end());
  }
  return result;
}

const BankContext::Verdict& BankContext::verdict(std::size_t bank, const std::vector<int>& part) {
  const auto known = verdicts_.find({bank, part});
  if (known != verdicts_.end()) return known->second;
  std::vector<Buffer> buffers;
  buffers.reserve(part.size());
  for (const int i : part) buffers.push_back(problem_.buffers[variables_[at(i)].buffer]);
  PlaceResult result =
      place(buffers, {.capacity = problem_.banks[bank].capacity, .work_limit = part_work_, .seed = settings_.seed},
            interrupted_);
  place_work_ += 1 + result.work;
  if (result.status == PlacementStatus::infeasible) clashes_.push_back({bank, part});
  // Offsets above the capacity are of no use.
  if (result.status == PlacementStatus::unknown) result.offsets.clear();
  return verdicts_.emplace(std::pair{bank, part}, Verdict{result.status, std::move(result.offsets)}).first->second;
}

bool BankContext::packs(std::size_t bank, const std::vector<int>& members) {
  for (const std::vector<int>& part : parts(members)) {
    const PlacementStatus status = verdict(bank, part).status;
    if (status == PlacementStatus::unknown) doubtful = true;
    if (status != PlacementStatus::optimal) return false;
  }
  return true;
}

std::vector<int> BankContext::members_of(std::size_t bank, const std::vector<int>& choices) const {
  std::vector<int> members;
  for (int i = 0; i < count(); ++i) {
    if (variables_[at(i)].choices[at(choices[at(i)])].bank == bank) members.push_back(i);
  }
  return members;
}

std::int64_t BankContext::cost(const std::vector<int>& choices) const {
  std::int64_t sum = 0;
  for (int i = 0; i < count(); ++i) sum += variables_[at(i)].choices[at(choices[at(i)])].cost;
  return sum;
}

void BankContext::accept(const std::vector<int>& choices) {
  const std::int64_t found = cost(choices);
  if (found >= best_cost_) return;
  best_ = choices;
  best_cost_ = found;
}

bool BankContext::offer(const std::vector<int>& choices) {
  for (std::size_t bank = 0; bank < problem_.banks.size(); ++bank) {
    if (!packs(bank, members_of(bank, choices))) return false;
  }
  accept(choices);
  return true;
}

BankPlacement BankContext::placement() const {
  BankPlacement result{.banks = std::vector<std::size_t>(problem_.buffers.size()),
                       .offsets = std::vector<Bytes>(problem_.buffers.size())};
  for (std::size_t bank = 0; bank < problem_.banks.size(); ++bank) {
    const std::vector<int> members = members_of(bank, best_);
    for (const int i : members) {
      const std::size_t buffer = variables_[at(i)].buffer;
      result.banks[buffer] = bank;
      // Buffers that never occupy memory.
      result.offsets[buffer] = problem_.buffers[buffer].offset.value_or(Bytes());
    }
    for (const std::vector<int>& part : parts(members)) {
      const Verdict& verdict = verdicts_.at({bank, part});
      for (std::size_t k = 0; k < part.size(); ++k) {
        result.offsets[variables_[at(part[k])].buffer] = verdict.offsets[k];
      }
    }
  }
  return result;
}

void BankContext::allow_more_work() {
  part_work_ *= 4;
  std::erase_if(verdicts_, [](const auto& entry) { return entry.second.status == PlacementStatus::unknown; });
}

bool BankContext::is_over() const {
  return interrupted_() || work() >= settings_.work_limit;
}

namespace {

PlaceResult result_of(const BankContext& context, bool complete) {
  PlaceResult result{.work = context.work()};
  const bool found = static_cast<int>(context.best().size()) == context.count() && context.best_cost() < INT64_MAX;
  if (!found) {
    result.status = complete ? PlacementStatus::infeasible : PlacementStatus::unknown;
    result.least_cost = context.root_bound.value_or(0);
    return result;
  }
  const BankPlacement placement = context.placement();
  result.cost = context.best_cost();
  result.least_cost = complete ? result.cost : std::min(result.cost, context.root_bound.value_or(0));
  result.status = result.least_cost == result.cost ? PlacementStatus::optimal : PlacementStatus::feasible;
  ensure(bank_fault(context.problem(), placement).empty() && cost_of(context.problem(), placement) == result.cost,
         "banks: the search's placement is not valid");
  result.arena = arena_of(context.problem().buffers, placement.offsets);
  result.banks = placement.banks;
  result.offsets = placement.offsets;
  return result;
}

}  // namespace
}  // namespace placement

PlaceResult place_banks(const BankProblem& problem, const PlaceSettings& settings,
                        const std::function<bool()>& interrupted) {
  using placement::BankContext;
  check_bank_problem(problem);
  BankContext context(problem, settings, interrupted);
  Random random(settings.seed);
  placement::look_for_start(context);
  bool complete = false;
  std::int64_t nodes = placement::kFirstBankNodes;
  for (bool first = true; settings.exact && !complete && (first || !context.is_over()); first = false) {
    context.doubtful = false;
    context.node_limit = nodes;
    complete = placement::search_banks(context, {}) && !context.doubtful;
    if (complete || (context.root_bound && context.best_cost() <= *context.root_bound)) break;
    if (context.doubtful) context.allow_more_work();
    for (int k = 0; k < placement::kNeighbourhoods && !context.best().empty() && !context.is_over(); ++k) {
      context.node_limit = placement::kNeighbourhoodNodes;
      (void)placement::search_banks(context, placement::neighbourhood(context, random));
    }
    nodes += nodes / 2;
  }
  return placement::result_of(context, complete);
}

namespace {

/// Each bank for itself, where none of its buffers may be elsewhere.
PlaceResult place_apart(const BankProblem& problem, const PlaceSettings& settings,
                        const std::function<bool()>& interrupted) {
  PlaceResult all{.status = PlacementStatus::optimal};
  for (const auto& banks : problem.choices) all.banks.push_back(banks.front().bank);
  all.offsets.resize(problem.buffers.size());
  for (std::size_t b = 0; b < problem.banks.size(); ++b) {
    PlaceSettings within = settings;
    within.capacity = problem.banks[b].capacity;
    within.work_limit = std::max<std::int64_t>(1, settings.work_limit - all.work);
    PlaceResult found = place(contents_of(problem, {all.banks, all.offsets}, b).buffers, within, interrupted);
    all.work += found.work;
    all.arena = std::max(all.arena, found.arena);
    all.lower_bound = std::max(all.lower_bound, found.lower_bound);
    // Infeasible before unknown before a placement.
    if (all.status != PlacementStatus::infeasible && found.status != PlacementStatus::optimal)
      all.status = found.status;
    std::size_t next = 0;
    for (std::size_t i = 0; i < all.banks.size() && !found.offsets.empty(); ++i) {
      if (all.banks[i] == b) all.offsets[i] = found.offsets[next++];
    }
  }
  if (all.status != PlacementStatus::infeasible) return all;
  all.offsets.clear();
  all.banks.clear();
  return all;
}

}  // namespace

PlaceResult place(const BankProblem& problem, const PlaceSettings& settings, const std::function<bool()>& interrupted) {
  check_bank_problem(problem);
  const bool is_apart =
      std::all_of(problem.choices.begin(), problem.choices.end(),
                  [](const std::vector<BankChoice>& banks) { return banks.size() == 1 && banks.front().cost == 0; });
  return (is_apart ? place_apart : place_banks)(problem, settings, interrupted);
}

}  // namespace remora
