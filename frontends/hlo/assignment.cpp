// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <set>

#include "frontends/hlo/reader.hpp"

namespace remora::hlo {
namespace {

/// From a value's first to its last moment, both included.
struct Stretch {
  int first = 0;
  int last = 0;

  [[nodiscard]] bool meets(const Stretch& other) const { return first <= other.last && other.first <= last; }
};

/// A unit of XLA's placement: a storage, or several where one value takes over the memory of another.
struct Block {
  Bytes size{};
  std::vector<Stretch> stretches{};
  /// The stretch of the value that is written first, by which XLA sorts.
  Stretch leading{std::numeric_limits<int>::max(), 0};

  [[nodiscard]] bool meets(const Block& other) const {
    return std::any_of(stretches.begin(), stretches.end(), [&](const Stretch& a) {
      return std::any_of(other.stretches.begin(), other.stretches.end(), [&](const Stretch& b) { return a.meets(b); });
    });
  }
  void add(const Stretch& stretch) {
    stretches.push_back(stretch);
    if (stretch.first < leading.first) leading = stretch;
  }
  [[nodiscard]] int last() const {
    int last = 0;
    for (const Stretch& one : stretches) last = std::max(last, one.last);
    return last;
  }
  /// From the leading value's beginning to the end of all.
  [[nodiscard]] int whole_life() const { return last() - leading.first; }
};

/// The moments of all values: the computations that an instruction calls run right before it (HloLiveRange).
class Times {
 public:
  Times(const Module& module, const Dataflow& dataflow)
      : module_(module), dataflow_(dataflow), stretches_(dataflow.values().size(), {-1, -1}) {
    run(module.entry);
    const Computation& entry = module.computations[module.entry];
    for (const ValueId value : dataflow.leaves(module.entry, entry.root)) extend(value, now_);
  }

  /// {-1, -1} for values inside fusions.
  [[nodiscard]] const Stretch& operator[](ValueId value) const { return stretches_[value.index()]; }
  [[nodiscard]] bool is_known(ValueId value) const { return stretches_[value.index()].first >= 0; }
  /// Computed values by the moment in which they begin.
  [[nodiscard]] const std::vector<ValueId>& begun() const { return begun_; }

 private:
  void run(std::size_t c) {
    const Computation& computation = module_.computations[c];
    const int start = now_;
    for (const std::size_t i : computation.order) {
      const Instruction& instruction = computation.instructions[i];
      if (!dataflow_.runs_inside(instruction).empty()) {
        // The condition of a loop runs before its body.
        for (auto called = instruction.called.rbegin(); called != instruction.called.rend(); ++called) run(*called);
      }
      if (!is_alias(instruction)) {
        for (const ValueId value : dataflow_.reads(c, i)) extend(value, now_);
      }
      for (const ValueId value : dataflow_.leaves(c, i)) {
        if (is_known(value) || dataflow_[value].computation != c || dataflow_[value].instruction != i) continue;
        const bool is_given = dataflow_[value].kind == ValueKind::parameter;
        stretches_[value.index()] = is_given ? Stretch{start, start} : Stretch{now_, now_};
        if (dataflow_[value].kind == ValueKind::computed) begun_.push_back(value);
      }
      ++now_;
    }
    for (const ValueId value : dataflow_.leaves(c, computation.root)) extend(value, now_ - 1);
  }

  void extend(ValueId value, int time) {
    Stretch& stretch = stretches_[value.index()];
    if (stretch.first >= 0) stretch.last = std::max(stretch.last, time);
  }

  const Module& module_;
  const Dataflow& dataflow_;
  int now_ = 0;
  std::vector<Stretch> stretches_;
  std::vector<ValueId> begun_;
};

/// More blocks are not packed: a pass over all pairs would take longer than XLA's own compile.
constexpr std::size_t kMaxPacked = 10'000;

/// One heap, packed block by block: each at the lowest offset of the smallest gap that is large enough, otherwise on top
/// (GlobalDecreasingSizeBestFitHeap). O(blocks) for each block.
class Heap {
 public:
  void place(const Block& block) {
    const Placed own(block);
    std::int64_t best = -1;
    std::int64_t best_gap = std::numeric_limits<std::int64_t>::max();
    std::int64_t free_from = 0;
    for (const Placed& other : placed_) {
      if (!other.life.meets(own.life) || !other.block->meets(block)) continue;
      const std::int64_t offset = offsets_[other.place];
      const std::int64_t gap = offset - free_from;
      if (gap >= block.size.count() && gap < best_gap) {
        best = free_from;
        best_gap = gap;
      }
      free_from = std::max(free_from, aligned(offset + other.block->size.count()));
    }
    const std::int64_t offset = best < 0 ? free_from : best;
    const auto behind = std::upper_bound(placed_.begin(), placed_.end(), offset,
                                         [&](std::int64_t at, const Placed& b) { return at < offsets_[b.place]; });
    placed_.insert(behind, own)->place = offsets_.size();
    offsets_.push_back(offset);
    size_ = std::max(size_, offset + block.size.count());
  }
  [[nodiscard]] std::int64_t size() const { return aligned(size_); }

  static std::int64_t aligned(std::int64_t size) {
    const std::int64_t unit = kAlignment.count();
    return (size + unit - 1) / unit * unit;
  }

 private:
  struct Placed {
    explicit Placed(const Block& placed) : life{placed.leading.first, placed.last()}, block(&placed) {}

    Stretch life;
    const Block* block;
    std::size_t place = 0;
  };
  /// By offset.
  std::vector<Placed> placed_;
  std::vector<std::int64_t> offsets_;
  std::int64_t size_ = 0;
};

/// The largest sum of sizes at one moment. O(stretches * log stretches).
std::int64_t largest_load(const std::vector<const Block*>& blocks) {
  std::vector<std::pair<int, std::int64_t>> changes;
  for (const Block* block : blocks) {
    for (const Stretch& one : block->stretches) {
      changes.emplace_back(one.first, Heap::aligned(block->size.count()));
      changes.emplace_back(one.last + 1, -Heap::aligned(block->size.count()));
    }
  }
  std::sort(changes.begin(), changes.end());
  std::int64_t load = 0;
  std::int64_t largest = 0;
  for (const auto& [time, change] : changes) {
    load += change;
    largest = std::max(largest, load);
  }
  return largest;
}

class Assignment {
 public:
  Assignment(const Module& module, const Dataflow& dataflow)
      : module_(module), dataflow_(dataflow), times_(module, dataflow), blocks_(dataflow.storages()) {
    for (std::size_t v = 0; v < dataflow.values().size(); ++v) {
      const ValueId value(v);
      if (!times_.is_known(value)) continue;
      Block& block = blocks_[dataflow.storage(value).index()];
      block.size = std::max(block.size, dataflow[value].size);
      block.add(times_[value]);
    }
    for (const ValueId value : dataflow.leaves(module.entry, module.computations[module.entry].root)) {
      live_out_.insert(dataflow.storage(value));
    }
  }

  Bytes temporaries() {
    fill_outputs();
    merge_operands();
    std::vector<const Block*> blocks;
    for (std::size_t s = 0; s < blocks_.size(); ++s) {
      if (is_temporary_[s] && !blocks_[s].stretches.empty()) blocks.push_back(&blocks_[s]);
    }
    if (blocks.size() > kMaxPacked) return Bytes(largest_load(blocks) + tables());
    const auto by_size = [](const Block* a, const Block* b) {
      return a->size != b->size ? a->size > b->size
                                : a->leading.last - a->leading.first > b->leading.last - b->leading.first;
    };
    const auto by_life = [](const Block* a, const Block* b) {
      return a->whole_life() != b->whole_life() ? a->whole_life() > b->whole_life() : a->size > b->size;
    };
    return Bytes(std::min(packed(blocks, by_size), packed(blocks, by_life)) + tables());
  }

 private:
  /// The contents of one output or donated argument.
  struct Allocation {
    Bytes size{};
    std::vector<StorageId> storages{};
  };

  template <class Before>
  static std::int64_t packed(std::vector<const Block*> blocks, const Before& before) {
    std::stable_sort(blocks.begin(), blocks.end(), before);
    Heap heap;
    for (const Block* block : blocks) heap.place(*block);
    return heap.size();
  }

  /// BufferAssigner::AssignSingleHloBuffer, from the largest storage to the smallest: into what an operand lies in, into the smallest
  /// allocation that is free, into a new one if it is an output, else among the temporaries.
  void fill_outputs() {
    is_temporary_.assign(blocks_.size(), false);
    std::vector<StorageId> order;
    for (const StorageId storage : Ids<StorageId>(blocks_.size())) {
      if (!blocks_[storage.index()].stretches.empty()) order.push_back(storage);
    }
    std::stable_sort(order.begin(), order.end(), [&](StorageId a, StorageId b) {
      const Block& one = blocks_[a.index()];
      const Block& other = blocks_[b.index()];
      if (one.size != other.size) return one.size > other.size;
      if (live_out_.contains(a) != live_out_.contains(b)) return live_out_.contains(a);
      return one.leading.first < other.leading.first;
    });
    std::vector<Allocation> allocations;
    for (const StorageId storage : order) {
      const Bytes size = blocks_[storage.index()].size;
      if (dataflow_.is_fixed(storage)) {
        if (live_out_.contains(storage) && is_donated(storage)) allocations.push_back({size, {storage}});
        continue;
      }
      const auto free = std::find_if(allocations.rbegin(), allocations.rend(),
                                     [&](const Allocation& one) { return has_room(one, storage, size); });
      if (free != allocations.rend()) {
        free->storages.push_back(storage);
      } else if (live_out_.contains(storage)) {
        allocations.push_back({size, {storage}});
      } else {
        is_temporary_[storage.index()] = true;
      }
    }
  }

  [[nodiscard]] bool is_donated(StorageId storage) const {
    const std::vector<ValueId>& members = dataflow_.members(storage);
    const auto has = [&](ValueKind kind) {
      return std::any_of(members.begin(), members.end(), [&](ValueId value) { return dataflow_[value].kind == kind; });
    };
    return has(ValueKind::parameter) && has(ValueKind::computed) && !has(ValueKind::constant);
  }

  [[nodiscard]] bool has_room(const Allocation& allocation, StorageId storage, Bytes size) const {
    if (size > allocation.size || (live_out_.contains(storage) && size != allocation.size)) return false;
    return std::none_of(allocation.storages.begin(), allocation.storages.end(),
                        [&](StorageId other) { return interfere(storage, other); });
  }

  [[nodiscard]] bool interfere(StorageId a, StorageId b) const {
    for (const ValueId one : dataflow_.members(a)) {
      if (!times_.is_known(one)) continue;
      for (const ValueId other : dataflow_.members(b)) {
        if (!times_.is_known(other) || !times_[one].meets(times_[other])) continue;
        if (!takes_over(one, other) && !takes_over(other, one)) return true;
      }
    }
    return false;
  }

  /// True if `user` is written when `operand` ends, by an instruction that may write where it reads.
  [[nodiscard]] bool takes_over(ValueId user, ValueId operand) const {
    const Value& value = dataflow_[user];
    if (times_[operand].last != times_[user].first || value.kind != ValueKind::computed) return false;
    for (const Pair& pair : dataflow_.may_share(value.computation, value.instruction)) {
      if (pair.input == operand && dataflow_.leaves(value.computation, value.instruction)[pair.output] == user) {
        return true;
      }
    }
    return false;
  }

  /// Temporaries that take over the memory of an operand that ends there become one block.
  void merge_operands() {
    std::vector<StorageId> into;
    for (const StorageId storage : Ids<StorageId>(blocks_.size())) into.push_back(storage);
    const auto block_of = [&](StorageId storage) {
      while (into[storage.index()] != storage) storage = into[storage.index()];
      return storage;
    };
    std::set<StorageId> begun;
    for (const ValueId value : times_.begun()) {
      const StorageId own = dataflow_.storage(value);
      if (!is_temporary_[own.index()] || !begun.insert(own).second) continue;
      const Value& one = dataflow_[value];
      for (const Pair& pair : dataflow_.may_share(one.computation, one.instruction)) {
        const StorageId other = dataflow_.storage(pair.input);
        if (dataflow_.leaves(one.computation, one.instruction)[pair.output] != value) continue;
        if (!is_temporary_[other.index()] || times_[pair.input].last != times_[value].first) continue;
        const StorageId target = block_of(other);
        if (target == own || outlives(other, times_[value].first) || outlives(target, times_[value].first)) continue;
        into[own.index()] = target;
        break;
      }
    }
    for (const StorageId storage : Ids<StorageId>(blocks_.size())) {
      const StorageId target = block_of(storage);
      if (target == storage || !is_temporary_[storage.index()]) continue;
      Block& block = blocks_[target.index()];
      Block& own = blocks_[storage.index()];
      block.size = std::max(block.size, own.size);
      block.stretches.insert(block.stretches.end(), own.stretches.begin(), own.stretches.end());
      own.stretches.clear();
    }
  }

  /// True if something in the block is still needed after the time.
  [[nodiscard]] bool outlives(StorageId block, int time) const {
    const std::vector<Stretch>& own = blocks_[block.index()].stretches;
    return std::any_of(own.begin(), own.end(), [&](const Stretch& one) { return one.last > time; });
  }

  /// The pointers of tuples, but for the module's result: a table each, which is too much where a loop's tuples share one.
  [[nodiscard]] std::int64_t tables() const {
    std::int64_t sum = 0;
    for (std::size_t c = 0; c < module_.computations.size(); ++c) {
      const Computation& computation = module_.computations[c];
      for (std::size_t i = 0; i < computation.instructions.size() && !computation.is_fusion; ++i) {
        const Instruction& instruction = computation.instructions[i];
        if (instruction.opcode != "tuple" || (c == module_.entry && i == computation.root)) continue;
        const auto bytes = static_cast<std::int64_t>(8 * instruction.shape.parts.size());
        sum += Heap::aligned(bytes);
      }
    }
    return sum;
  }

  const Module& module_;
  const Dataflow& dataflow_;
  Times times_;
  /// By storage, those of fixed ones included.
  std::vector<Block> blocks_;
  std::vector<bool> is_temporary_;
  std::set<StorageId> live_out_;
};

}  // namespace

Bytes assigned_temporaries(const Module& module) {
  const Dataflow dataflow(module);
  return Assignment(module, dataflow).temporaries();
}

}  // namespace remora::hlo
