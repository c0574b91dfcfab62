// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "tests/support/programs.hpp"

namespace remora::test {
namespace {

/// Elements of a tensor, all or a slice, in memory.
struct Storage {
  /// Of the whole tensor.
  std::vector<std::optional<std::int64_t>> values{};
  /// What the storage has room for.
  std::vector<bool> room{};
  Bytes size{};
  /// The input that the values overwrite, if any.
  std::shared_ptr<Storage> overwritten{};
};

void visit_points(const std::vector<std::int64_t>& loops, const std::function<void(const Point&)>& visit) {
  Point point(loops.size(), 0);
  for (;;) {
    visit(point);
    std::size_t i = loops.size();
    while (i > 0 && ++point[i - 1] == loops[i - 1]) point[--i] = 0;
    if (i == 0) return;
  }
}

std::vector<std::int64_t> input_values(const Array& array, TensorId t) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < array.elements(); ++i) values.push_back((7 * i + 3 * t + 1) % 11 - 5);
  return values;
}

class Interpreter {
 public:
  Interpreter(const Program& program, const SlicedGraph& sliced, const Region& region, bool temporaries)
      : program_(program),
        sliced_(sliced),
        temporaries_(temporaries),
        axes_(program.kernels.size(), -1),
        storages_(sliced.graph.tensors.size()),
        produced_(sliced.graph.tensors.size(), false) {
    for (const RegionPart& part : region.parts) {
      for (const SlicedOp& op : part) axes_[op.op] = op.axis;
    }
    for (const Op& op : sliced.graph.ops) {
      for (const TensorId t : op.outputs) produced_[t] = true;
    }
    for (const TensorId t : produced_.ids()) {
      if (!produced_[t]) storages_[t] = filled(t);
    }
  }

  Execution run(std::span<const OpId> sequence) {
    sequence_ = sequence;
    for (std::size_t step = 0; step < sequence.size(); ++step) run_step(step);
    result_.values.resize(program_.arrays.size());
    for (const TensorId t : storages_.ids()) {
      const TensorSource& source = sliced_.tensors[t];
      if (storages_[t] == nullptr || !source.bytes.empty() || !is_last(t)) continue;
      for (const auto& value : storages_[t]->values) {
        if (!value) fail("a result is incomplete");
        result_.values[source.tensor].push_back(value.value_or(0));
      }
    }
    return std::move(result_);
  }

 private:
  void fail(const std::string& fault) {
    if (result_.fault.empty()) result_.fault = fault;
  }

  [[nodiscard]] bool is_last(TensorId t) const {
    return std::ranges::none_of(sliced_.tensors, [&](const TensorSource& source) {
      return source.tensor == sliced_.tensors[t].tensor && source.slice > sliced_.tensors[t].slice;
    });
  }

  [[nodiscard]] const Array& array(TensorId t) const { return program_.arrays[sliced_.tensors[t].tensor]; }

  [[nodiscard]] std::shared_ptr<Storage> filled(TensorId t) const {
    auto storage = allocated(t);
    const auto values = input_values(array(t), sliced_.tensors[t].tensor);
    std::ranges::copy(values, storage->values.begin());
    return storage;
  }

  /// Room for the rows of a slice is what the slice of the op writes, by its points: it does not rely on the map.
  [[nodiscard]] std::shared_ptr<Storage> allocated(TensorId t) const {
    auto storage = std::make_shared<Storage>();
    const auto elements = at(array(t).elements());
    storage->values.resize(elements);
    storage->room.resize(elements, sliced_.tensors[t].bytes.empty());
    storage->size = Bytes(static_cast<std::int64_t>(elements) * array(t).item);
    return storage;
  }

  /// True if no later step reads what the step finds in the tensor, before it is written again.
  [[nodiscard]] bool ends(TensorId t, std::size_t step) const {
    for (std::size_t later = step + 1; later < sequence_.size(); ++later) {
      const Op& op = sliced_.graph[sequence_[later]];
      if (std::ranges::find(op.inputs, t) != op.inputs.end()) return false;
      if (std::ranges::find(op.outputs, t) != op.outputs.end()) return true;
    }
    return !sliced_.graph[t].keep;
  }

  /// An element of the program's tensor in the storage of a tensor, which may be of the one that overwrites it.
  [[nodiscard]] std::optional<std::int64_t> find(TensorId stored, TensorId meant, std::int64_t element) const {
    const auto& storage = storages_[stored];
    if (storage == nullptr) return std::nullopt;
    if (sliced_.tensors[stored].tensor == meant) {
      return storage->room[at(element)] ? storage->values[at(element)] : std::nullopt;
    }
    const std::int64_t item = program_.arrays[meant].item;
    for (std::int64_t byte = element * item; byte < (element + 1) * item; ++byte) {
      if (storage->values[at(byte / array(stored).item)]) return std::nullopt;
    }
    return storage->overwritten == nullptr ? std::nullopt : storage->overwritten->values[at(element)];
  }

  using Terms = std::vector<std::map<std::int64_t, std::int64_t>>;

  /// What the run adds up by itself, by output and element.
  Terms compute(OpId v) {
    const OpSource& source = sliced_.ops[v];
    const Kernel& kernel = program_.kernels[source.op];
    const Op& op = sliced_.graph[v];
    Terms terms(op.outputs.size());
    const Kernel::Read read = [&](int input, std::int64_t element) {
      const auto value = find(op.inputs[at(input)], program_.graph[source.op].inputs[at(input)], element);
      if (!value) fail(op.name + " lacks element " + std::to_string(element) + " of input " + std::to_string(input));
      return value.value_or(0);
    };
    const Kernel::Add write = [&](int output, std::int64_t element, std::int64_t value) {
      terms[at(output)][element] += value;
    };
    visit_points(kernel.loops, [&](const Point& point) {
      if (source.slice >= 0) {
        const std::int64_t iteration = kernel.iterations[at(axes_[source.op])](point);
        if (iteration < source.iterations.begin || iteration >= source.iterations.end) return;
      }
      result_.duration += Duration(1);
      kernel.body(point, read, write);
    });
    return terms;
  }

  [[nodiscard]] bool is_sum(OpId v, TensorId output) const {
    const OpSource& source = sliced_.ops[v];
    if (source.slice < 0) return false;
    const auto& sums = program_.graph[source.op].axes[at(axes_[source.op])].sums;
    return std::ranges::find(sums, sliced_.tensors[output].tensor) != sums.end();
  }

  /// The storage of an output: its own, or that of the version before it.
  std::shared_ptr<Storage> storage_for(OpId v, TensorId t, std::size_t step, Bytes& saved) {
    auto storage = allocated(t);
    for (const auto& [output, input] : sliced_.graph[v].in_place) {
      if (output != t) continue;
      const bool released = produced_[input] && ends(input, step);
      const bool is_version = sliced_.tensors[input].tensor == sliced_.tensors[t].tensor;
      if (is_version) {
        *storage = *storages_[input];
      } else {
        storage->overwritten = storages_[input];
      }
      if (released) saved += std::min(storage_size(t), storages_[input]->size);
    }
    return storage;
  }

  [[nodiscard]] Bytes storage_size(TensorId t) const { return sliced_.graph[t].size; }

  void write(OpId v, const Terms& terms, std::size_t step, Bytes& saved, Bytes& temporary) {
    const Op& op = sliced_.graph[v];
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const TensorId t = op.outputs[i];
      auto storage = storage_for(v, t, step, saved);
      const bool adds = is_sum(v, t);
      const bool first = sliced_.ops[v].slice <= 0;
      for (auto& value : storage->values) {
        if (adds && first) value = 0;
      }
      for (const auto& [element, value] : terms[i]) {
        storage->room[at(element)] = true;
        storage->values[at(element)] = adds ? storage->values[at(element)].value_or(0) + value : value;
      }
      const auto room = std::ranges::count(storage->room, true);
      storage->size = Bytes(room * array(t).item);
      if (storage->size != storage_size(t))
        fail(op.name + " writes another size than that of " + sliced_.graph[t].name);
      const bool in_pieces = sliced_.ops[v].slice >= 0 && sliced_.tensors[t].bytes.empty();
      if (temporaries_ && in_pieces && !(adds && first)) {
        const auto written = adds ? at(array(t).elements()) : terms[i].size();
        temporary += Bytes(static_cast<std::int64_t>(written) * array(t).item);
      }
      fresh_.emplace_back(t, std::move(storage));
    }
  }

  [[nodiscard]] Bytes workspace(OpId v) const {
    const OpSource& source = sliced_.ops[v];
    const Op& op = program_.graph[source.op];
    if (source.slice < 0) return op.workspace;
    const Axis& axis = op.axes[at(axes_[source.op])];
    const std::int64_t each = axis.workspace.count();
    return Bytes(op.workspace.count() - each * axis.extent + each * source.iterations.size());
  }

  void run_step(std::size_t step) {
    const OpId v = sequence_[step];
    const Op& op = sliced_.graph[v];
    Bytes saved;
    Bytes temporary = workspace(v);
    fresh_.clear();
    write(v, compute(v), step, saved, temporary);
    Bytes memory = sliced_.graph.fixed_memory + temporary - saved;
    for (auto& [t, storage] : fresh_) storages_[t] = storage;
    for (const auto& storage : storages_) memory += storage == nullptr ? Bytes() : storage->size;
    result_.memory.push_back(memory);
    result_.peak = std::max(result_.peak, memory);
    for (const auto& list : {op.inputs, op.outputs}) {
      for (const TensorId t : list) {
        if (produced_[t] && ends(t, step)) storages_[t] = nullptr;
      }
    }
  }

  const Program& program_;
  const SlicedGraph& sliced_;
  bool temporaries_;
  Table<OpId, int> axes_;
  Table<TensorId, std::shared_ptr<Storage>> storages_;
  Table<TensorId, bool> produced_;
  std::vector<std::pair<TensorId, std::shared_ptr<Storage>>> fresh_;
  std::span<const OpId> sequence_;
  Execution result_;
};

}  // namespace

Execution execute(const Program& program, const SlicedGraph& sliced, const Region& region, bool temporaries,
                  std::span<const OpId> sequence) {
  return Interpreter(program, sliced, region, temporaries).run(sequence);
}

Table<TensorId, std::vector<std::int64_t>> values_of(const Program& program) {
  Table<TensorId, std::vector<std::int64_t>> values(program.arrays.size());
  for (const TensorId t : values.ids()) values[t] = input_values(program.arrays[t], t);
  for (const OpId v : program.kernels.ids()) {
    const Op& op = program.graph[v];
    for (const TensorId t : op.outputs) values[t].assign(at(program.arrays[t].elements()), 0);
    const Kernel::Read read = [&](int input, std::int64_t element) {
      return values[op.inputs[at(input)]][at(element)];
    };
    const Kernel::Add add = [&](int output, std::int64_t element, std::int64_t value) {
      values[op.outputs[at(output)]][at(element)] += value;
    };
    visit_points(program.kernels[v].loops, [&](const Point& point) { program.kernels[v].body(point, read, add); });
  }
  return values;
}

}  // namespace remora::test
