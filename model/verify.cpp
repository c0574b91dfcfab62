// SPDX-License-Identifier: Apache-2.0
#include "model/verify.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "model/quote.hpp"

namespace remora {
namespace {

constexpr std::size_t kErrorsShown = 20;

template <class Tag>
std::size_t index(Id<Tag> id) {
  return static_cast<std::size_t>(std::int32_t{id});
}

template <class Tag, class Table>
bool is_one_of(Id<Tag> id, const Table& table) {
  return id.valid() && index(id) < table.size();
}

/// True if all ids of the op are the graph's.
bool knows_its_own(const Graph& graph, const Op& op) {
  const auto has_tensor = [&](TensorId t) { return is_one_of(t, graph.tensors); };
  const auto has_op = [&](OpId v) { return is_one_of(v, graph.ops); };
  return std::all_of(op.inputs.begin(), op.inputs.end(), has_tensor) &&
         std::all_of(op.in_place.begin(), op.in_place.end(),
                     [&](const InPlace& pair) { return has_tensor(pair.output) && has_tensor(pair.input); }) &&
         std::all_of(op.outputs.begin(), op.outputs.end(), has_tensor) &&
         std::all_of(op.after.begin(), op.after.end(), has_op) &&
         (!op.modes || !op.modes->follows.valid() || has_op(op.modes->follows));
}

/// True if every mode of the op has a size for each output.
bool has_fitting_modes(const Op& op) {
  const auto fits = [&](const std::optional<Mode>& mode) {
    return !mode || mode->output_sizes.size() == op.outputs.size();
  };
  return !op.modes || std::all_of(op.modes->further.begin(), op.modes->further.end(), fits);
}

class Replay {
 public:
  Replay(const Graph& graph, const Schedule& schedule)
      : graph_(graph),
        schedule_(schedule),
        producer_(graph.tensors.size(), OpId::none()),
        resident_(graph.tensors.size(), false),
        sizes_(graph.tensors.size()),
        computed_(graph.ops.size(), 0),
        weights_(graph.ops.size(), 0),
        latest_(graph.ops.size(), -1) {
    memory_ = graph.fixed_memory;
    for (std::size_t v = 0; v < graph.ops.size(); ++v) {
      for (const TensorId t : graph.ops[v].outputs) producer_[index(t)] = OpId(v);
    }
    for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
      sizes_[t] = graph.tensors[t].size;
      if (!producer_[t].valid()) {
        resident_[t] = true;
        memory_ += sizes_[t];
      }
    }
    verdict_.peak = memory_;
  }

  Verdict run() {
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) {
      const auto& [op, free, mode] = schedule_.steps[i];
      here_ = "step " + std::to_string(i);
      if (!is_one_of(op, graph_.ops)) {
        error(here_ + ": op " + std::to_string(op) + " is not one of the graph's " + std::to_string(graph_.ops.size()));
        continue;
      }
      here_ += " (" + graph_.ops[index(op)].name + "): ";
      if (const std::optional<Mode> way = find_mode(graph_, op, mode)) {
        check_leader(op, mode);
        check_weight(op, way->computes);
        compute(op, *way, static_cast<int>(i), free);
      } else {
        error(here_ + "it has no mode " + std::to_string(mode));
      }
      for (const TensorId t : free) release(t);
    }
    finish();
    return std::move(verdict_);
  }

 private:
  void error(const std::string& text) {
    if (verdict_.errors.size() < kErrorsShown) verdict_.errors.push_back(text);
  }

  /// A follower's run takes the mode of the leader's latest run.
  void check_leader(OpId op, ModeNumber mode) {
    latest_[index(op)] = mode;
    const std::optional<OpModes>& own = graph_.ops[index(op)].modes;
    if (!own || !own->follows.valid() || latest_[index(own->follows)] == mode) return;
    error(here_ + "mode " + std::to_string(mode) + " is not that of " + graph_.ops[index(own->follows)].name +
          ", which it follows");
  }

  void check_weight(OpId op, int weight) {
    weights_[index(op)] += weight;
    const std::optional<OpModes>& own = graph_.ops[index(op)].modes;
    if (!own || weights_[index(op)] <= own->most_computes) return;
    error(here_ + "its runs weigh " + std::to_string(weights_[index(op)]) + ", most_computes is " +
          std::to_string(own->most_computes));
  }

  void compute(OpId id, const Mode& way, int step, const std::vector<TensorId>& free) {
    const Op& op = graph_.ops[index(id)];
    for (const TensorId t : op.inputs) {
      if (is_in(t, way.unread)) {
        if (!is_made(t)) error(here_ + "the op that makes " + graph_.tensors[index(t)].name + " must come first");
      } else if (!resident_[index(t)]) {
        error(here_ + "input " + graph_.tensors[index(t)].name + " is not resident");
      }
    }
    for (const OpId earlier : op.after) {
      if (computed_[index(earlier)] == 0) error(here_ + "op " + graph_.ops[index(earlier)].name + " must come first");
    }
    check_count(op, ++computed_[index(id)]);
    check_order(id, computed_[index(id)] == 1);
    Bytes now = way.inner.empty() ? way.workspace : inner_peak(way, free);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      now += allocate(id, op.outputs[i], way.output_sizes[i], free);
    }
    add_duration(way.duration);
    now += memory_;
    if (now > verdict_.peak) {
      verdict_.peak = now;
      verdict_.peak_step = step;
    }
    if (now > schedule_.budget) {
      error(here_ + std::to_string(now.count()) + " bytes exceed the budget of " +
            std::to_string(schedule_.budget.count()));
    }
  }

  static bool is_in(TensorId tensor, std::span<const TensorId> tensors) {
    return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end();
  }

  [[nodiscard]] bool is_produced(TensorId tensor) const { return producer_[index(tensor)].valid(); }

  /// True if the tensor is an input of the graph, or was computed.
  [[nodiscard]] bool is_made(TensorId tensor) const {
    return !is_produced(tensor) || computed_[index(producer_[index(tensor)])] > 0;
  }

  /// The most beyond all that is resident and the outputs: inputs that the step releases may go before a moment inside.
  [[nodiscard]] Bytes inner_peak(const Mode& way, const std::vector<TensorId>& free) const {
    std::optional<Bytes> most;
    for (const InnerPeak& peak : way.inner) {
      Bytes here = peak.workspace;
      for (const FreedInput& input : peak.freed) {
        if (!is_one_of(input.tensor, graph_.tensors) || !is_in(input.tensor, free)) continue;
        if (is_produced(input.tensor)) here -= std::min(input.most, sizes_[index(input.tensor)]);
      }
      most = most ? std::max(*most, here) : here;
    }
    return *most;
  }

  /// Makes the output resident; what it takes while the op runs beside all that is resident then: the older copy, or
  /// less by what it takes over. An older copy of another size is replaced as if both were there.
  Bytes allocate(OpId id, TensorId output, Bytes size, const std::vector<TensorId>& free) {
    const Op& op = graph_.ops[index(id)];
    Bytes& there = sizes_[index(output)];
    if (resident_[index(output)]) {
      const bool both = graph_.recompute_allocates == Allocation::all || there != size;
      memory_ += size - there;
      return both ? std::exchange(there, size) : Bytes(0);
    }
    resident_[index(output)] = true;
    there = size;
    memory_ += size;
    if (op.modes) return Bytes(0);  // these have their inner peaks instead
    for (const InPlace& pair : op.in_place) {
      if (pair.output != output || !is_in(pair.input, free) || !is_produced(pair.input)) continue;
      return Bytes(0) - std::min(size, sizes_[index(pair.input)]);
    }
    return Bytes(0);
  }

  /// A schedule may compute an op more often than any graph's sums allow for.
  void add_duration(Duration duration) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(verdict_.duration.count(), duration.count(), &sum)) {
      error(here_ + "the duration up to here is beyond 64 bits");
      sum = Duration::max().count();
    }
    verdict_.duration = Duration(sum);
  }

  void check_count(const Op& op, int count) {
    if (count > 1) ++verdict_.recomputes;
    if (count > 1 && !op.recompute) error(here_ + "recomputed, but recompute is 'never'");
    if (op.max_computes && count > *op.max_computes) {
      error(here_ + "computed " + std::to_string(count) + " times, max_computes is " +
            std::to_string(*op.max_computes));
    }
    if (schedule_.solver.max_computes > 0 && count > schedule_.solver.max_computes) {
      error(here_ + "computed " + std::to_string(count) + " times, the schedule allows " +
            std::to_string(schedule_.solver.max_computes));
    }
  }

  /// The staged form: first computes in input order, the recomputes of a stage too, none twice in a stage.
  void check_order(OpId id, bool first) {
    if (schedule_.order != OrderMode::input) return;
    if (first) {
      if (id != next_first_) error(here_ + "first runs do not follow the input order");
      ++next_first_;
      latest_recompute_ = -1;
    } else {
      if (id <= latest_recompute_) error(here_ + "recomputes of a stage do not follow the input order");
      latest_recompute_ = id;
    }
  }

  void release(TensorId t) {
    if (!is_one_of(t, graph_.tensors)) {
      return error(here_ + "frees tensor " + std::to_string(t) + ", which is not one of the graph's " +
                   std::to_string(graph_.tensors.size()));
    }
    const std::string& name = graph_.tensors[index(t)].name;
    if (!resident_[index(t)]) {
      error(here_ + "frees " + name + ", which is not resident");
    } else if (!is_produced(t)) {
      error(here_ + "frees " + name + ", an input of the graph");
    } else {
      resident_[index(t)] = false;
      memory_ -= sizes_[index(t)];
    }
  }

  void finish() {
    for (std::size_t v = 0; v < graph_.ops.size(); ++v) {
      if (computed_[v] == 0) error("op " + graph_.ops[v].name + " is never computed");
    }
    for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
      if (graph_.tensors[t].keep && !resident_[t]) {
        error("tensor " + graph_.tensors[t].name + " must be resident at the end");
      }
    }
    if (schedule_.duration != verdict_.duration) {
      error("schedule says duration " + std::to_string(schedule_.duration.count()) + ", replay gives " +
            std::to_string(verdict_.duration.count()));
    }
    if (schedule_.peak_memory != verdict_.peak) {
      error("schedule says peak_memory " + std::to_string(schedule_.peak_memory.count()) + ", replay gives " +
            std::to_string(verdict_.peak.count()));
    }
  }

  const Graph& graph_;
  const Schedule& schedule_;
  /// By tensor; none for the graph's inputs.
  std::vector<OpId> producer_;
  std::vector<bool> resident_;
  /// Sizes of the latest copies, by tensor.
  std::vector<Bytes> sizes_;
  std::vector<int> computed_;
  /// Weights of the runs of each op.
  std::vector<std::int64_t> weights_;
  /// Modes of the latest runs, by op.
  std::vector<ModeNumber> latest_;
  Bytes memory_{};
  int next_first_ = 0;
  int latest_recompute_ = -1;
  std::string here_;
  Verdict verdict_;
};

}  // namespace

Verdict verify(const Graph& graph, const Schedule& schedule) {
  Verdict verdict;
  for (const Op& op : graph.ops) {
    if (knows_its_own(graph, op) && has_fitting_modes(op)) continue;
    verdict.errors.push_back("op " + op.name +
                             (knows_its_own(graph, op)
                                  ? " of the graph has a mode with sizes for another number of outputs"
                                  : " of the graph names an op or a tensor that the graph does not have"));
    return verdict;
  }
  verdict = Replay(graph, schedule).run();
  if (!schedule.arena || !verdict.valid()) return verdict;
  verdict.errors = arena_faults(graph, schedule);
  return verdict;
}

namespace {

/// Follows the steps with what is resident laid out by address.
class ArenaReplay {
 public:
  ArenaReplay(const Graph& graph, const Schedule& schedule)
      : graph_(graph), schedule_(schedule), arena_(*schedule.arena), lies_at_(graph.tensors.size(), Bytes(-1)) {
    for (const Tensor& tensor : graph.tensors) sizes_.push_back(tensor.size);
  }

  std::vector<std::string> run() {
    if (arena_.alignment < Bytes(1)) return {"the arena's alignment must be at least 1"};
    if (arena_.size < Bytes()) return {"the arena's size must not be negative"};
    if (arena_.steps.size() != schedule_.steps.size()) return {"the arena has offsets for another number of steps"};
    std::vector<bool> resident(graph_.tensors.size(), true);
    for (const Op& op : graph_.ops) {
      for (const TensorId t : op.outputs) resident[t.index()] = false;
    }
    std::vector<TensorId> inputs;
    for (std::size_t t = 0; t < resident.size(); ++t) {
      if (resident[t]) inputs.emplace_back(t);
    }
    // Without a step there is no time at which they lie anywhere.
    if (schedule_.steps.empty()) inputs.clear();
    allocate(arena_.inputs, inputs, "the graph's inputs");
    for (std::size_t i = 0; i < schedule_.steps.size(); ++i) run_step(i, resident);
    if (highest_ != arena_.size) {
      error("the arena says size " + number(arena_.size) + ", what lies in it ends at " + number(highest_));
    }
    // The budget and the fixed memory are not negative in a schedule that is valid else.
    if (arena_.size > schedule_.budget - graph_.fixed_memory) {
      error("an arena of " + number(arena_.size) + " bytes and " + number(graph_.fixed_memory) +
            " bytes of fixed memory exceed the budget of " + number(schedule_.budget));
    }
    return std::move(errors_);
  }

 private:
  static std::string number(Bytes bytes) { return std::to_string(bytes.count()); }

  void error(const std::string& text) {
    constexpr std::size_t kShown = 20;
    if (errors_.size() < kShown) errors_.push_back(text);
  }

  void run_step(std::size_t i, std::vector<bool>& resident) {
    const Step& step = schedule_.steps[i];
    const Op& op = graph_[step.op];
    const std::string here = "step " + std::to_string(i) + " (" + op.name + ")";
    const Arena::Allocations& given = arena_.steps[i];
    const Mode way = mode_of(graph_, step.op, step.mode);
    std::vector<TensorId> wanted;
    std::vector<Bytes> older;
    for (std::size_t o = 0; o < op.outputs.size(); ++o) {
      const TensorId t = op.outputs[o];
      const bool is_another = std::exchange(sizes_[t.index()], way.output_sizes[o]) != way.output_sizes[o];
      const bool anew = resident[t.index()] && (is_another || graph_.recompute_allocates == Allocation::all);
      if (!resident[t.index()] || anew) wanted.push_back(t);
      if (anew && lies_at_[t.index()] >= Bytes()) older.push_back(std::exchange(lies_at_[t.index()], Bytes(-1)));
      resident[t.index()] = true;
    }
    allocate(given.outputs, wanted, here);
    // All inputs and outputs lie there until the step is over.
    const auto nothing = [](TensorId) { return Bytes(); };
    const Bytes workspace = way.inner.empty() ? way.workspace : highest_peak(std::span(way.inner), nothing);
    const bool works = workspace > Bytes();
    if (works != given.workspace.has_value()) {
      error(here + ": " + (works ? "no offset for its workspace" : "an offset for a workspace that it does not have"));
    } else if (works && lay("its workspace", *given.workspace, workspace, here)) {
      resident_.erase(*given.workspace);
    }
    for (const Bytes offset : older) resident_.erase(offset);
    for (const TensorId t : step.free) {
      resident[t.index()] = false;
      const Bytes offset = std::exchange(lies_at_[t.index()], Bytes(-1));
      if (offset >= Bytes()) resident_.erase(offset);
    }
  }

  void allocate(const Arena::Offsets& given, const std::vector<TensorId>& wanted, const std::string& here) {
    for (const TensorId t : wanted) {
      const auto entry = std::find_if(given.begin(), given.end(), [&](const auto& pair) { return pair.first == t; });
      const std::string name = quote(graph_[t].name);
      const Bytes size = sizes_[t.index()];
      if (size == Bytes()) continue;
      if (entry == given.end()) {
        error(std::string(here).append(": no offset for ").append(name));
      } else if (lay(name, entry->second, size, here)) {
        lies_at_[t.index()] = entry->second;
      }
    }
    for (const auto& [t, offset] : given) {
      if (std::find(wanted.begin(), wanted.end(), t) != wanted.end()) continue;
      const bool known = t.valid() && t.index() < graph_.tensors.size();
      error(here + ": an offset for " + (known ? quote(graph_[t].name) : "an unknown tensor") +
            ", which it does not allocate");
    }
  }

  /// Returns true if the buffer could be placed there.
  bool lay(const std::string& what, Bytes offset, Bytes size, const std::string& here) {
    if (offset < Bytes() || offset.count() % arena_.alignment.count() != 0) {
      error(here + ": the offset " + number(offset) + " of " + what + " is not a multiple of " +
            number(arena_.alignment));
      return false;
    }
    if (offset > arena_.size || size > arena_.size - offset) {
      error(here + ": " + what + " at offset " + number(offset) + " ends beyond the arena");
      return false;
    }
    highest_ = std::max(highest_, offset + size);
    const auto above = resident_.lower_bound(offset);
    const auto* clash = above != resident_.end() && above->first < offset + size ? &above->second : nullptr;
    if (above != resident_.begin() && std::prev(above)->second.first > offset) clash = &std::prev(above)->second;
    if (clash != nullptr) {
      error(here + ": " + what + " at offset " + number(offset) + " shares bytes with " + clash->second);
      return false;
    }
    resident_.emplace(offset, std::pair(offset + size, what));
    return true;
  }

  const Graph& graph_;
  const Schedule& schedule_;
  const Arena& arena_;
  /// By offset: the end, and what it is.
  std::map<Bytes, std::pair<Bytes, std::string>> resident_;
  /// The offset of every tensor, or -1, and the size of its latest copy.
  std::vector<Bytes> lies_at_;
  std::vector<Bytes> sizes_;
  Bytes highest_{};
  std::vector<std::string> errors_;
};

}  // namespace

std::vector<std::string> arena_faults(const Graph& graph, const Schedule& schedule) {
  return ArenaReplay(graph, schedule).run();
}

}  // namespace remora
