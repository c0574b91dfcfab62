// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "model/quote.hpp"
#include "model/verify.hpp"

namespace remora {
namespace {

/// Follows the steps with what is resident laid out by address.
class ArenaReplay {
 public:
  ArenaReplay(const Graph& graph, const Schedule& schedule)
      : graph_(graph), schedule_(schedule), arena_(*schedule.arena), lies_at_(graph.tensors.size(), Bytes(-1)) {}

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
    std::vector<TensorId> wanted;
    std::vector<Bytes> older;
    for (const TensorId t : op.outputs) {
      const bool anew = resident[t.index()] && graph_.recompute_allocates == Allocation::all;
      if (!resident[t.index()] || anew) wanted.push_back(t);
      if (anew && lies_at_[t.index()] >= Bytes()) older.push_back(std::exchange(lies_at_[t.index()], Bytes(-1)));
      resident[t.index()] = true;
    }
    allocate(given.outputs, wanted, here);
    const bool works = op.workspace > Bytes();
    if (works != given.workspace.has_value()) {
      error(here + ": " + (works ? "no offset for its workspace" : "an offset for a workspace that it does not have"));
    } else if (works && lay("its workspace", *given.workspace, op.workspace, here)) {
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
      const Tensor& tensor = graph_[t];
      if (tensor.size == Bytes()) continue;
      if (entry == given.end()) {
        error(here + ": no offset for " + quote(tensor.name));
      } else if (lay(quote(tensor.name), entry->second, tensor.size, here)) {
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

  /// Whether it could be laid there.
  bool lay(const std::string& what, Bytes offset, Bytes size, const std::string& here) {
    if (offset < Bytes() || offset.count() % arena_.alignment.count() != 0) {
      error(here + ": the offset " + number(offset) + " of " + what + " is no multiple of " + number(arena_.alignment));
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
  /// Of every tensor, or -1.
  std::vector<Bytes> lies_at_;
  Bytes highest_{};
  std::vector<std::string> errors_;
};

}  // namespace

std::vector<std::string> arena_faults(const Graph& graph, const Schedule& schedule) {
  return ArenaReplay(graph, schedule).run();
}

}  // namespace remora
