// SPDX-License-Identifier: Apache-2.0
//
// Recomputes and addresses together: a schedule whose tensors and workspaces have places in one arena that stays within
// the budget, not only their sum.
//
//     sizes rounded up to the alignment, as they are where something lies above
//     solve  ->  schedule  ->  place within budget - fixed memory
//       ^                          |
//       |    it does not pack: the ops that run where the placement is above the budget get a larger workspace, a
//       +--  smaller capacity there and nowhere else
//
// until a schedule packs, or the limits end it; then the best schedule on the way that packs is the answer. What the first
// solve proves holds of the whole problem: nothing that packs has a smaller sum of rounded sizes.
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/ask/ask.hpp"
#include "engine/ask/problem.hpp"
#include "engine/base/allowance.hpp"
#include "engine/base/tasks.hpp"
#include "engine/bound/first_bound.hpp"
#include "engine/placement/place.hpp"
#include "model/buffers/schedule_buffers.hpp"
#include "model/error.hpp"
#include "model/evaluate.hpp"
#include "model/quote.hpp"
#include "model/random.hpp"
#include "model/verify.hpp"

namespace remora {
namespace {

/// Parts of the remaining limits: for the first solve with a schedule, for each further one, and for one without a
/// schedule. The rest is for placing.
constexpr double kFirstPart = 0.7;
constexpr double kFurtherPart = 0.4;
constexpr double kMaxPart = 0.9;
constexpr int kMaxAddressRounds = 48;
/// From this round on chance decides which of the crowded ops lose capacity, and how much.
constexpr int kFirstRandomRound = 2;
/// Incumbents that are kept to fall back on.
constexpr std::size_t kMaxKept = 16;
/// The part of the limits that one placement may take, and the work that it may take at least. A unit of the search is
/// as long as so many of a placement.
constexpr double kPlacementPart = 0.1;
constexpr double kPlacementWork = 5'000;
constexpr std::int64_t kPlacementUnits = 4;
/// One whose place must not depend on limits.
constexpr std::int64_t kPlacedWork = 1'000;
/// And of that one of a schedule on the way.
constexpr double kFallBackPart = 0.05;

std::int64_t rounded_up(std::int64_t amount, std::int64_t alignment) {
  return (amount + alignment - 1) / alignment * alignment;
}

/// True if sizes, each rounded up, add up to less than `place` rejects.
bool can_be_rounded(const Graph& graph, Bytes alignment) {
  const std::int64_t more = alignment.count() - 1;
  std::int64_t total = graph.fixed_memory.count();
  for (const Tensor& tensor : graph.tensors) {
    total = saturating_sum(total, saturating_sum(tensor.size.count(), more));
  }
  return std::ranges::all_of(graph.ops, [&](const Op& op) {
    return saturating_sum(total, saturating_sum(op.workspace.count(), more)) < kSaturated;
  });
}

/// True if solve_with_addresses() accepts such a problem.
bool can_have_addresses(const Instance& instance, Bytes alignment) {
  return !instance.has_modes() && can_be_rounded(instance.graph(), alignment) &&
         std::ranges::all_of(instance.graph().ops, [](const Op& op) { return op.in_place.empty(); });
}

class AddressSearch {
 public:
  AddressSearch(const Instance& instance, const SolveOptions& options, Bytes alignment, const SolveCallbacks& callbacks,
                Prover::Step proof)
      : instance_(instance),
        options_(options),
        alignment_(alignment),
        callbacks_(callbacks),
        proof_(std::move(proof)),
        allowance_(limits_of(options), callbacks.cancel),
        random_(static_cast<std::uint64_t>(options.seed)),
        baseline_peak_(baseline_peak(instance)),
        padded_(rounded_graph(instance.graph(), alignment)) {
    capacity_ = instance.budget() - instance.graph().fixed_memory;
  }

  Schedule run(std::span<const OpId> warm_start) {
    if (std::optional<Certificate> certificate = certificate_of_arena()) return infeasible(*std::move(certificate));
    Sequence start(warm_start.begin(), warm_start.end());
    int rounds = 0;
    while (rounds < kMaxAddressRounds) {
      const Schedule schedule = solve_round(start, rounds);
      if (rounds++ == 0) first_ = schedule;
      if (!schedule.has_schedule()) {
        if (rounds == 1 || stopped_by_caller_ || !soften()) break;
      } else {
        softened_ = false;
        // After a signal there is no time to place another one.
        if (best_ && allowance_.deadline().cancelled()) break;
        if (settle(schedule)) break;
        fall_back_on_kept();
        if (stopped_by_caller_ || allowance_.deadline().cancelled() || !tighten(schedule, rounds >= kFirstRandomRound))
          break;
        start = ops_of(best_ ? *best_ : schedule);
      }
      if (allowance_.is_over()) break;
    }
    shrink();
    return answer(rounds);
  }

 private:
  [[nodiscard]] Bytes rounded(Bytes amount) const { return Bytes(rounded_up(amount.count(), alignment_.count())); }

  /// How much less than rounded sizes buffers take that are resident at once: the highest one ends where it is not rounded.
  [[nodiscard]] Bytes slack(std::span<const TensorId> tensors, Bytes workspace) const {
    Bytes most = rounded(workspace) - workspace;
    const auto see = [&](TensorId t) {
      most = std::max(most, rounded(instance_.graph()[t].size) - instance_.graph()[t].size);
    };
    std::ranges::for_each(tensors, see);
    for (const TensorId t : instance_.tensors()) {
      if (!instance_.producer(t).valid()) see(t);
    }
    return most;
  }

  /// As footprint_certificate(), of what is needed of an arena: the op, or the end, that needs most of it, if that exceeds the budget.
  [[nodiscard]] std::optional<Certificate> certificate_of_arena() const {
    Problem problem = instance_.problem();
    std::optional<Certificate> worst;
    problem.budget = Bytes();
    const Instance all(padded_, problem);
    for (const Certificate& each : footprint_certificates(all)) {
      Certificate own = each;
      own.required -= slack(own.tensors, instance_.graph()[own.op].workspace);
      if (own.required > instance_.budget() && (!worst || own.required > worst->required)) worst = std::move(own);
    }
    return worst;
  }

  [[nodiscard]] Schedule infeasible(Certificate certificate) const {
    Schedule schedule = describe_problem(instance_, options_);
    schedule.status = Status::infeasible;
    schedule.solver.stop = Stop::infeasible;
    schedule.lower_bound = instance_.baseline_duration();
    schedule.certificate = std::move(certificate);
    schedule.solver.seconds = allowance_.elapsed();
    return schedule;
  }

  /// The budget of the rounded amounts: what lies highest may end where it is not rounded.
  [[nodiscard]] Bytes rounded_budget() const {
    const bool roundable = capacity_ > Bytes() && instance_.budget() < Bytes(INT64_MAX / 2);
    return roundable ? instance_.graph().fixed_memory + rounded(capacity_) : instance_.budget();
  }

  Schedule solve_round(std::span<const OpId> start, int round) {
    Problem problem = instance_.problem();
    problem.budget = rounded_budget();
    const Instance tight(std::make_shared<const Graph>(*padded_), problem);
    const Limits enough = allowance_.left().part(round == 0 ? kFirstPart : kFurtherPart);
    SolveOptions options = within(options_, allowance_.share(kMaxPart));
    options.seed += round;
    SolveCallbacks callbacks = callbacks_;
    callbacks.enough = [&](const Progress& now) {
      if (callbacks_.enough && callbacks_.enough(now)) stopped_by_caller_ = true;
      if (stopped_by_caller_) return true;
      return now.phase == 2 && (now.seconds >= enough.seconds || Work(now.work) >= enough.work);
    };
    kept_.clear();
    callbacks.incumbent = [&](const Schedule& schedule) {
      if (kept_.size() == kMaxKept) kept_.erase(kept_.begin());
      kept_.push_back(schedule);
      if (callbacks_.incumbent) callbacks_.incumbent(with_own_amounts(schedule));
    };
    // A tighter problem's schedules may be longer, and the proof's cutoff never rises.
    Schedule schedule = with_own_amounts(solve(tight, options, callbacks, start, std::exchange(proof_, {})));
    allowance_.spend(Work(schedule.solver.work));
    return schedule;
  }

  /// The schedule of the padded graph as one of the graph itself.
  [[nodiscard]] Schedule with_own_amounts(Schedule schedule) const {
    schedule.budget = instance_.budget();
    schedule.baseline_peak_memory = baseline_peak_;
    if (schedule.has_schedule()) schedule.peak_memory = evaluate(instance_, ops_of(schedule)).peak;
    return schedule;
  }

  /// Returns true if the schedule can be placed; keeps it if it is shorter than the best one.
  bool settle(const Schedule& schedule) {
    const ScheduleBuffers buffers = buffers_of(instance_.graph(), schedule, alignment_);
    const PlaceResult result = place_within(buffers, 1, capacity_);
    if (result.status != PlacementStatus::optimal) return settle_on_baseline(schedule);
    keep(schedule, buffers, result);
    return true;
  }

  /// Returns true if the schedule is the input order, and fits as placed_baseline places it.
  bool settle_on_baseline(const Schedule& schedule) {
    const Order order = input_order(instance_);
    if (!std::ranges::equal(ops_of(schedule), order)) return false;
    Schedule baseline = placed(instance_, order, alignment_, allowance_.deadline().cancel());
    if (baseline.arena->size > capacity_) return false;
    best_ = schedule;
    best_->arena = std::move(baseline.arena);
    return true;
  }

  void fall_back_on_kept() {
    for (auto kept = kept_.rbegin(); kept != kept_.rend() && !allowance_.deadline().reached() && !fall_back(*kept);
         ++kept) {
    }
  }

  /// A schedule on the way, by the heuristics and a short search; those before it are longer.
  bool fall_back(const Schedule& incumbent) {
    if (best_ && best_->duration <= incumbent.duration) return true;
    const Schedule schedule = with_own_amounts(incumbent);
    if (schedule.peak_memory > schedule.budget) return false;
    const ScheduleBuffers buffers = buffers_of(instance_.graph(), schedule, alignment_);
    const PlaceResult result = place_within(buffers, kFallBackPart, capacity_);
    if (result.status != PlacementStatus::optimal) return false;
    keep(schedule, buffers, result);
    return true;
  }

  /// In the smallest arena that a short search finds, which is no larger than the one that is there.
  void keep(const Schedule& schedule, const ScheduleBuffers& buffers, const PlaceResult& result) {
    if (best_ && best_->duration <= schedule.duration) return;
    best_ = schedule;
    PlaceResult smallest;
    if (!allowance_.deadline().cancelled()) smallest = place_within(buffers, kFallBackPart, std::nullopt);
    const bool smaller = !smallest.offsets.empty() && smallest.arena < result.arena;
    best_->arena = make_arena(schedule, buffers, smaller ? smallest.offsets : result.offsets, alignment_);
  }

  /// The answer gets the smallest arena that a whole placement finds in what is left of the limits: that it fits the
  /// budget ended the one before.
  void shrink() {
    if (!best_ || allowance_.is_over()) return;
    const ScheduleBuffers buffers = buffers_of(instance_.graph(), *best_, alignment_);
    const PlaceResult smallest = place_within(buffers, 1, std::nullopt);
    if (smallest.offsets.empty() || smallest.arena >= best_->arena->size) return;
    best_->arena = make_arena(*best_, buffers, smallest.offsets, alignment_);
  }

  /// `part`: of what a placement may take.
  [[nodiscard]] PlaceResult place_within(const ScheduleBuffers& buffers, double part, std::optional<Bytes> capacity) {
    const double share = kPlacementPart * kPlacementUnits * static_cast<double>(options_.work_limit);
    PlaceSettings settings{.capacity = capacity,
                           .work_limit = allowance_.counts_work()
                                             ? static_cast<std::int64_t>(part * std::max(kPlacementWork, share))
                                             : INT64_MAX,
                           .threads = thread_count(options_),
                           .seed = static_cast<std::uint64_t>(options_.seed)};
    const Deadline own(part * kPlacementPart * options_.time_limit, allowance_.deadline().cancel());
    PlaceResult result =
        place(buffers.buffers, settings, [&] { return own.reached() || allowance_.deadline().reached(); });
    if (allowance_.counts_work()) allowance_.spend(Work(result.work / kPlacementUnits));
    return result;
  }

  /// Takes capacity away from the ops that run where the schedule's placement is above the budget, or from some of them and
  /// by chance; false if there is nothing to take.
  bool tighten(const Schedule& schedule, bool by_chance) {
    const ScheduleBuffers found = buffers_of(instance_.graph(), schedule, alignment_);
    // The smallest arena that the heuristics find, whatever it is.
    const PlaceResult placed = place(found.buffers, {.seed = static_cast<std::uint64_t>(options_.seed), .exact = false},
                                     [&] { return allowance_.deadline().reached(); });
    const std::size_t steps = schedule.steps.size();
    std::vector<Bytes> load(steps);
    std::vector<std::vector<std::size_t>> ending(steps + 1);
    std::vector<std::vector<std::size_t>> beginning(steps + 1);
    for (std::size_t i = 0; i < found.buffers.size(); ++i) {
      const Buffer& buffer = found.buffers[i];
      beginning[static_cast<std::size_t>(buffer.lifespan.lower)].push_back(i);
      ending[static_cast<std::size_t>(buffer.lifespan.upper)].push_back(i);
    }
    // At every step the load, rounded, and where the highest buffer ends.
    std::vector<Bytes> top(steps);
    std::multiset<Bytes> ends;
    Bytes now;
    const auto end_of = [&](std::size_t i) { return placed.offsets[i] + found.buffers[i].size; };
    for (std::size_t t = 0; t < steps; ++t) {
      for (const std::size_t i : ending[t]) {
        ends.erase(ends.find(end_of(i)));
        now -= rounded(found.buffers[i].size);
      }
      for (const std::size_t i : beginning[t]) {
        ends.insert(end_of(i));
        now += rounded(found.buffers[i].size);
      }
      load[t] = now;
      if (!ends.empty()) top[t] = *ends.rbegin();
    }
    Bytes crowded;
    Bytes excess;
    for (std::size_t t = 0; t < steps; ++t) {
      if (top[t] <= capacity_) continue;
      crowded = std::max(crowded, load[t]);
      excess = std::max(excess, top[t] - capacity_);
    }
    std::vector<std::size_t> crowds;
    for (std::size_t t = 0; t < steps; ++t) {
      if (top[t] > capacity_ && load[t] + excess >= crowded) crowds.push_back(t);
    }
    const std::size_t first = by_chance && !crowds.empty() ? random_.below(crowds.size()) : 0;
    bool tightened = false;
    for (std::size_t i = 0; i < crowds.size(); ++i) {
      const std::size_t t = crowds[(first + i) % crowds.size()];
      if (by_chance && tightened) break;
      const Bytes less =
          by_chance ? Bytes(1 + static_cast<std::int64_t>(random_.below(static_cast<std::size_t>(excess.count()))))
                    : Bytes(excess.count() / 2 + 1);
      tightened = pad(schedule.steps[t].op, rounded(capacity_) - load[t] + rounded(less)) || tightened;
    }
    return tightened;
  }

  /// The op's events get so much less, as far as the op itself still fits.
  bool pad(OpId op, Bytes amount) {
    Op& padded = padded_->ops[op.index()];
    const Bytes own = rounded(instance_.graph()[op].workspace);
    Bytes needed = padded_->fixed_memory + own;
    for (const TensorId t : instance_.inputs(op)) needed += padded_->tensors[t.index()].size;
    for (const TensorId t : instance_.outputs(op)) needed += padded_->tensors[t.index()].size;
    for (const TensorId t : instance_.tensors()) {
      if (!instance_.producer(t).valid()) needed += padded_->tensors[t.index()].size;
    }
    const Bytes room = std::max(Bytes(), rounded_budget() - needed);
    const Bytes workspace = own + std::min(amount, room);
    if (workspace <= padded.workspace) return false;
    padded.workspace = workspace;
    return true;
  }

  /// Gives half of what was taken away back, and all if that was too little; false if nothing was.
  bool soften() {
    const bool wholly = std::exchange(softened_, true);
    bool softened = false;
    for (const OpId op : instance_.ops()) {
      const Bytes own = rounded(instance_.graph()[op].workspace);
      Bytes& workspace = padded_->ops[op.index()].workspace;
      if (workspace == own) continue;
      const std::int64_t half = (workspace - own).count() / 2 / alignment_.count() * alignment_.count();
      workspace = own + Bytes(wholly ? 0 : half);
      softened = true;
    }
    return softened;
  }

  /// Why the whole ended: a search leaves a part of the limits to others, and was told to.
  [[nodiscard]] Stop stop_of(const Schedule& schedule) const {
    if (schedule.status == Status::optimal) return Stop::optimum;
    if (allowance_.deadline().cancelled()) return Stop::cancelled;
    if (stopped_by_caller_) return Stop::callback;
    return allowance_.counts_work() ? Stop::work : Stop::time;
  }

  [[nodiscard]] Schedule answer(int rounds) {
    Schedule schedule = best_ ? *std::move(best_) : first_;
    schedule.lower_bound = first_.lower_bound;
    if (!best_ && schedule.certificate) {
      Certificate& certificate = *schedule.certificate;
      certificate.required -= slack(certificate.tensors, instance_.graph()[certificate.op].workspace);
      // It counts rounded sizes, which may exceed the budget where the real ones do not; the budget stays proved infeasible.
      if (certificate.required <= instance_.budget()) schedule.certificate.reset();
    }
    if (best_) {
      const bool proved = schedule.duration <= schedule.lower_bound;
      schedule.status = proved ? Status::optimal : Status::feasible;
    } else if (schedule.has_schedule()) {
      schedule.solver.note +=
          (schedule.solver.note.empty() ? "" : "; ") +
          std::string("schedules within the budget were found, but none whose buffers pack into it");
      schedule.solver.reached_peak = schedule.peak_memory;
      schedule.status = Status::unknown;
      schedule.steps.clear();
      schedule.duration = Duration();
      schedule.peak_memory = Bytes();
    }
    if (schedule.solver.stop == Stop::callback) schedule.solver.stop = stop_of(schedule);
    if (!schedule.solver.options.empty()) schedule.solver.options = describe_options(options_);
    schedule.solver.seconds = allowance_.elapsed();
    schedule.solver.time_limit = options_.time_limit;
    schedule.solver.work_limit = options_.work_limit;
    schedule.solver.work = allowance_.spent().count();
    schedule.solver.statistics.push_back({.name = "address_rounds", .value = static_cast<double>(rounds)});
    return schedule;
  }

  const Instance& instance_;
  const SolveOptions& options_;
  Bytes alignment_;
  const SolveCallbacks& callbacks_;
  /// From the first round.
  Prover::Step proof_;
  Allowance allowance_;
  Random random_;
  /// Known before a signal comes.
  Bytes baseline_peak_;
  /// Rounded amounts, and workspaces larger by what has been taken away there.
  std::shared_ptr<Graph> padded_;
  Bytes capacity_;
  /// The caller's function said so; not ours, which keeps a part of the limits for placing.
  bool stopped_by_caller_ = false;
  /// The round before was softened, too.
  bool softened_ = false;
  Schedule first_{};
  std::optional<Schedule> best_{};
  std::vector<Schedule> kept_{};
};

}  // namespace

std::shared_ptr<Graph> rounded_graph(const Graph& graph, Bytes alignment) {
  auto made = std::make_shared<Graph>(graph);
  const auto round = [&](Bytes& amount) { amount = Bytes(rounded_up(amount.count(), alignment.count())); };
  for (Tensor& tensor : made->tensors) round(tensor.size);
  for (Op& op : made->ops) round(op.workspace);
  return made;
}

Schedule placed(const Instance& instance, std::span<const OpId> sequence, Bytes alignment,
                const std::atomic<bool>* cancel) {
  Schedule schedule = schedule_of(instance, sequence);
  const ScheduleBuffers buffers = buffers_of(instance.graph(), schedule, alignment);
  const PlaceResult found =
      place(buffers.buffers, {.work_limit = kPlacedWork}, [&] { return cancel != nullptr && *cancel; });
  schedule.arena = make_arena(schedule, buffers, found.offsets, alignment);
  return schedule;
}

Bytes placed_baseline(const std::shared_ptr<const Graph>& graph, Bytes alignment) {
  check_alignment(alignment);
  const Instance instance(graph, {});
  const bool is_placed = instance.op_count() > 0 && can_have_addresses(instance, alignment);
  if (!is_placed) return baseline_peak(instance);
  return graph->fixed_memory + placed(instance, input_order(instance), alignment).arena->size;
}

Schedule solve_with_addresses(const Instance& instance, const SolveOptions& options, Bytes alignment,
                              const SolveCallbacks& callbacks, std::span<const OpId> warm_start, Prover::Step proof) {
  check_alignment(alignment);
  expect_one_mode(instance.graph(), "a schedule with addresses");
  const auto& ops = instance.graph().ops;
  const auto reuses = std::find_if(ops.begin(), ops.end(), [](const Op& op) { return !op.in_place.empty(); });
  if (reuses != ops.end()) {
    throw InputError("op " + quote(reuses->name),
                     "graphs with in_place get no addresses: outputs and inputs would be separate buffers");
  }
  if (!can_be_rounded(instance.graph(), alignment)) {
    throw InputError("", "sizes rounded up to the alignment add up to 2^62 bytes or more: they get no addresses");
  }
  if (instance.op_count() > 0)
    return AddressSearch(instance, options, alignment, callbacks, std::move(proof)).run(warm_start);
  Schedule schedule = solve(instance, options, callbacks, warm_start);
  if (schedule.has_schedule()) schedule.arena = Arena{.alignment = alignment};
  return schedule;
}

PlaceResult place_schedule(const Graph& graph, Schedule& schedule, Bytes alignment, const PlaceSettings& settings,
                           const std::function<bool()>& interrupted) {
  check_alignment(alignment);
  schedule.arena.reset();
  const Verdict verdict = verify(graph, schedule);
  if (!schedule.has_schedule() || !verdict.valid()) {
    throw InputError("schedule", verdict.valid() ? "there are no steps: none was found"
                                                 : "not a valid one of its graph: " + verdict.errors.front());
  }
  const ScheduleBuffers buffers = buffers_of(graph, schedule, alignment);
  PlaceResult result = place(buffers.buffers, settings, interrupted);
  if (result.status != PlacementStatus::infeasible && result.arena <= schedule.budget - graph.fixed_memory) {
    schedule.arena = make_arena(schedule, buffers, result.offsets, alignment);
  }
  return result;
}

void check_alignment(Bytes alignment) {
  if (alignment >= Bytes(1) && alignment <= Bytes(std::int64_t{1} << 30)) return;
  throw InputError::of_option("alignment", "must be from 1 to 2^30, not " + std::to_string(alignment.count()));
}

}  // namespace remora
