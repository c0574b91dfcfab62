// SPDX-License-Identifier: Apache-2.0
#include "frontends/hlo/reader.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>

#include "frontends/formats/document.hpp"
#include "frontends/hlo/costs.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"

namespace remora::hlo {
namespace {

Bytes rounded(Bytes size) {
  const std::int64_t unit = kAlignment.count();
  return Bytes((size.count() + unit - 1) / unit * unit);
}

/// The peak inside the computations that an instruction calls: values that are neither arguments nor results.
class InnerPeak {
 public:
  InnerPeak(const Module& module, const Dataflow& dataflow) : module_(module), dataflow_(dataflow) {}

  /// The inner peak of a call, a conditional or a loop in computation c; 0 for other instructions.
  [[nodiscard]] Bytes of(std::size_t c, std::size_t i) const {
    const Instruction& instruction = module_.computations[c].instructions[i];
    if (dataflow_.runs_inside(instruction).empty()) return Bytes(0);
    std::set<StorageId> outside;
    for (const ValueId value : dataflow_.reads(c, i)) outside.insert(dataflow_.storage(value));
    for (const ValueId value : dataflow_.leaves(c, i)) outside.insert(dataflow_.storage(value));
    Bytes most;
    for (const std::size_t called : instruction.called) most = std::max(most, peak(called, outside));
    return most;
  }

 private:
  [[nodiscard]] Bytes peak(std::size_t c, const std::set<StorageId>& outside) const {
    const Computation& computation = module_.computations[c];
    std::map<StorageId, std::size_t> last;
    for (std::size_t at = 0; at < computation.order.size(); ++at) {
      const std::size_t i = computation.order[at];
      for (const ValueId value : dataflow_.reads(c, i)) last[dataflow_.storage(value)] = at;
      for (const ValueId value : dataflow_.leaves(c, i)) last[dataflow_.storage(value)] = at;
    }
    for (const ValueId value : dataflow_.leaves(c, computation.root)) {
      last[dataflow_.storage(value)] = computation.order.size();
    }
    std::map<StorageId, Bytes> live;
    Bytes sum;
    Bytes most;
    for (std::size_t at = 0; at < computation.order.size(); ++at) {
      const std::size_t i = computation.order[at];
      for (const ValueId value : dataflow_.leaves(c, i)) {
        const StorageId storage = dataflow_.storage(value);
        if (outside.contains(storage) || dataflow_.is_fixed(storage) || live.contains(storage)) continue;
        live[storage] = rounded(dataflow_[value].size);
        sum += live[storage];
      }
      most = std::max(most, sum + of(c, i));
      std::erase_if(live, [&](const auto& one) {
        if (last.at(one.first) > at) return false;
        sum -= one.second;
        return true;
      });
    }
    return most;
  }

  const Module& module_;
  const Dataflow& dataflow_;
};

/// True if the storage has an argument of the computation, or something that is never written.
bool lies_in_argument(const Dataflow& dataflow, std::size_t c, StorageId storage) {
  const std::vector<ValueId>& members = dataflow.members(storage);
  return dataflow.is_fixed(storage) || std::any_of(members.begin(), members.end(), [&](ValueId member) {
           return dataflow[member].kind == ValueKind::parameter && dataflow[member].computation == c;
         });
}

class Lowering {
 public:
  Lowering(LoweredModule& lowered, const Machine& machine)
      : lowered_(lowered),
        module_(lowered.module),
        c_(lowered.computation),
        entry_(module_.computations[c_]),
        machine_(machine),
        dataflow_(module_),
        inner_(module_, dataflow_),
        tensors_(dataflow_.values().size()) {}

  void run() {
    Graph& graph = lowered_.graph;
    graph.name = module_.name;
    add_fixed_memory();
    for (const std::size_t i : entry_.order) {
      const Instruction& instruction = entry_.instructions[i];
      if (instruction.opcode == "parameter" || instruction.opcode == "constant") continue;
      if (is_alias(instruction)) {
        if (!instruction.control_predecessors.empty()) {
          throw InputError("instruction " + quote(instruction.name),
                           "waits for others, which is not for a tuple to do");
        }
        continue;
      }
      add_op(i);
    }
    add_outputs();
    add_waits();
    graph.meta =
        json::dump({{"format", "hlo"}, {"cost_model", "roofline"}, {"duration_unit", "ns"}, {"device", machine_.name}});
    validate(graph);
  }

 private:
  void add_fixed_memory() {
    for (const Value& value : dataflow_.values()) {
      if (value.computation != c_ || value.kind == ValueKind::computed) continue;
      lowered_.graph.fixed_memory =
          Bytes(saturating_sum(lowered_.graph.fixed_memory.count(), rounded(value.size).count()));
    }
  }

  void add_op(std::size_t i) {
    const Instruction& instruction = entry_.instructions[i];
    Graph& graph = lowered_.graph;
    Op op{.name = unique(instruction.name, i), .type = instruction.opcode};
    op.duration = duration_of(module_, c_, i, machine_);
    op.workspace = inner_.of(c_, i);
    op.recompute = !has_effect(module_, instruction) && instruction.control_predecessors.empty();
    std::set<TensorId> read;
    for (const ValueId value : dataflow_.reads(c_, i)) {
      const TensorId tensor = tensors_[value.index()];
      if (tensor.valid() && read.insert(tensor).second) op.inputs.push_back(tensor);
    }
    const std::vector<ValueId>& leaves = dataflow_.leaves(c_, i);
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      if (dataflow_[leaves[leaf]].computation != c_ || dataflow_[leaves[leaf]].instruction != i) continue;
      const bool is_fixed = lies_in_argument(dataflow_, c_, dataflow_.storage(leaves[leaf]));
      if (is_fixed) op.recompute = false;
      const std::string name = leaves.size() == 1 ? op.name : op.name + "{" + std::to_string(leaf) + "}";
      tensors_[leaves[leaf].index()] =
          graph.add_tensor(name, is_fixed ? Bytes(0) : rounded(dataflow_[leaves[leaf]].size));
      op.outputs.push_back(tensors_[leaves[leaf].index()]);
    }
    for (const ValueId value : dataflow_.destroys(c_, i)) {
      if (lies_in_argument(dataflow_, c_, dataflow_.storage(value))) op.recompute = false;
    }
    if (op.outputs.empty()) op.outputs.push_back(graph.add_tensor(op.name + "{}", Bytes(0)));
    add_in_place(op, i);
    ops_.emplace(i, graph.add_op(std::move(op)));
    lowered_.instructions.push_back(i);
  }

  void add_in_place(Op& op, std::size_t i) const {
    std::set<TensorId> taken;
    const std::vector<ValueId>& leaves = dataflow_.leaves(c_, i);
    const auto add = [&](const Pair& pair) {
      const TensorId output = tensors_[leaves[pair.output].index()];
      const TensorId input = tensors_[pair.input.index()];
      if (!output.valid() || !input.valid() || taken.contains(output) || taken.contains(input)) return;
      if (std::find(op.outputs.begin(), op.outputs.end(), output) == op.outputs.end()) return;
      if (std::find(op.inputs.begin(), op.inputs.end(), input) == op.inputs.end()) return;
      taken.insert({output, input});
      op.in_place.push_back({output, input});
    };
    for (const Pair& pair : dataflow_.in_place(c_, i)) add(pair);
    for (const Pair& pair : dataflow_.may_share(c_, i)) add(pair);
  }

  void add_outputs() {
    std::set<StorageId> seen;
    for (const ValueId value : dataflow_.leaves(c_, entry_.root)) {
      const TensorId tensor = tensors_[value.index()];
      if (!tensor.valid()) continue;
      lowered_.graph[tensor].keep = true;
      if (!seen.insert(dataflow_.storage(value)).second) continue;
      const bool is_fixed = lies_in_argument(dataflow_, c_, dataflow_.storage(value));
      (is_fixed ? lowered_.donated : lowered_.outputs) += rounded(dataflow_[value].size);
    }
  }

  /// The ops whose results the op is given without their being its inputs: loops, branches and calls that return what they got as it was.
  [[nodiscard]] std::set<OpId> named_by(OpId op) const {
    const Graph& graph = lowered_.graph;
    const std::vector<TensorId>& inputs = graph[op].inputs;
    const std::set<TensorId> read(inputs.begin(), inputs.end());
    std::set<OpId> named;
    std::set<std::size_t> seen;
    std::vector<std::size_t> open = entry_.instructions[lowered_.instructions[op.index()]].operands;
    while (!open.empty()) {
      const std::size_t i = open.back();
      open.pop_back();
      if (!seen.insert(i).second) continue;
      const Instruction& instruction = entry_.instructions[i];
      if (is_alias(instruction)) open.insert(open.end(), instruction.operands.begin(), instruction.operands.end());
      const auto producer = ops_.find(i);
      if (producer == ops_.end()) continue;
      const std::vector<TensorId>& made = graph[producer->second].outputs;
      if (std::none_of(made.begin(), made.end(), [&](TensorId tensor) { return read.contains(tensor); }))
        named.insert(producer->second);
    }
    return named;
  }

  /// First computes keep an order in which nothing is read that is destroyed, effects follow each other, and what has to wait does.
  void add_waits() {
    std::map<StorageId, std::vector<OpId>> readers;
    OpId effect;
    for (const OpId op : Ids<OpId>(lowered_.graph.ops.size())) {
      const std::size_t i = lowered_.instructions[op.index()];
      std::set<OpId> after = named_by(op);
      for (const std::size_t before : entry_.instructions[i].control_predecessors) {
        const auto waited = ops_.find(before);
        if (waited == ops_.end()) continue;
        after.insert(waited->second);
        lowered_.graph[waited->second].recompute = false;
      }
      if (has_effect(module_, entry_.instructions[i])) {
        if (effect.valid()) after.insert(effect);
        effect = op;
      }
      std::set<StorageId> written;
      for (const ValueId value : dataflow_.leaves(c_, i)) {
        if (tensors_[value.index()].valid() && dataflow_[value].instruction == i)
          written.insert(dataflow_.storage(value));
      }
      for (const ValueId value : dataflow_.destroys(c_, i)) written.insert(dataflow_.storage(value));
      for (const StorageId storage : written) {
        for (const OpId reader : readers[storage]) after.insert(reader);
        readers[storage] = {op};
      }
      for (const ValueId value : dataflow_.reads(c_, i)) readers[dataflow_.storage(value)].push_back(op);
      after.erase(op);
      lowered_.graph[op].after.assign(after.begin(), after.end());
    }
  }

  /// Names of instructions are unique in a sound module; a damaged one may say otherwise.
  std::string unique(const std::string& name, std::size_t i) {
    std::string own = name.empty() ? "#" + std::to_string(i) : name;
    while (!names_.insert(own).second) own += "#" + std::to_string(i);
    return own;
  }

  LoweredModule& lowered_;
  const Module& module_;
  std::size_t c_;
  const Computation& entry_;
  const Machine& machine_;
  Dataflow dataflow_;
  InnerPeak inner_;
  /// By value: the tensor of what the entry computes, else none.
  std::vector<TensorId> tensors_;
  std::unordered_map<std::size_t, OpId> ops_;
  std::set<std::string> names_;
};

/// Which values of the entry computation are destroyed, op after op.
class Destruction {
 public:
  explicit Destruction(const LoweredModule& lowered)
      : lowered_(lowered), dataflow_(lowered.module), destroyed_(dataflow_.values().size()) {}

  /// Something that the op reads and that is destroyed.
  [[nodiscard]] std::optional<Value> missing(OpId op) const {
    for (const ValueId value : dataflow_.reads(lowered_.computation, lowered_.instructions[op.index()])) {
      if (destroyed_[value.index()]) return dataflow_[value];
    }
    return std::nullopt;
  }

  void run(OpId op) {
    const std::size_t entry = lowered_.computation;
    const std::size_t i = lowered_.instructions[op.index()];
    for (const ValueId value : dataflow_.destroys(entry, i)) destroyed_[value.index()] = true;
    for (const ValueId value : dataflow_.leaves(entry, i)) {
      if (dataflow_[value].instruction != i || dataflow_[value].computation != entry) continue;
      const StorageId storage = dataflow_.storage(value);
      if (lies_in_argument(dataflow_, entry, storage)) {
        // There is only one memory of an argument, whatever lies there.
        for (const ValueId other : dataflow_.members(storage)) destroyed_[other.index()] = true;
      }
      destroyed_[value.index()] = false;
    }
  }

 private:
  const LoweredModule& lowered_;
  Dataflow dataflow_;
  std::vector<bool> destroyed_;
};

/// Puts the producer of what is destroyed before whoever reads it, as long as the sequence grows to no more than twice its length.
class Mending {
 public:
  Mending(const LoweredModule& lowered, std::size_t length)
      : lowered_(lowered), memory_(lowered), most_(2 * length), ops_(entry().instructions.size()) {
    for (const OpId op : Ids<OpId>(lowered.graph.ops.size())) ops_[lowered.instructions[op.index()]] = op;
  }

  std::vector<OpId> of(std::span<const OpId> sequence) {
    for (const OpId op : sequence) run(op);
    return std::move(made_);
  }

 private:
  void run(OpId op) {
    while (const std::optional<Value> missing = memory_.missing(op)) {
      const bool is_made = missing->computation == lowered_.computation && missing->kind == ValueKind::computed;
      const OpId producer = is_made ? ops_[missing->instruction] : OpId();
      if (!producer.valid() || !lowered_.graph[producer].recompute || made_.size() >= most_) break;
      run(producer);
    }
    memory_.run(op);
    made_.push_back(op);
  }

  [[nodiscard]] const Computation& entry() const { return lowered_.module.computations[lowered_.computation]; }

  const LoweredModule& lowered_;
  Destruction memory_;
  std::size_t most_;
  /// By instruction of the entry computation.
  std::vector<OpId> ops_;
  std::vector<OpId> made_;
};

}  // namespace

bool has_effect(const Module& module, const Instruction& instruction) {
  static constexpr std::array<std::string_view, 18> kEffects{"rng",
                                                             "rng-get-and-update-state",
                                                             "rng-bit-generator",
                                                             "infeed",
                                                             "outfeed",
                                                             "all-reduce",
                                                             "all-gather",
                                                             "all-to-all",
                                                             "ragged-all-to-all",
                                                             "reduce-scatter",
                                                             "collective-permute",
                                                             "collective-broadcast",
                                                             "partition-id",
                                                             "replica-id",
                                                             "after-all",
                                                             "set-dimension-size",
                                                             "get-dimension-size",
                                                             "trace"};
  if (instruction.has_side_effect) return true;
  if (std::find(kEffects.begin(), kEffects.end(), instruction.opcode) != kEffects.end()) return true;
  return std::any_of(instruction.called.begin(), instruction.called.end(), [&](std::size_t called) {
    const std::vector<Instruction>& inner = module.computations[called].instructions;
    return std::any_of(inner.begin(), inner.end(), [&](const Instruction& one) { return has_effect(module, one); });
  });
}

namespace {

/// True if an instruction inside, those of fusions included, is in the scope that `jax.checkpoint` gives to what it recomputes.
bool is_checkpointed(const Module& module, const Instruction& instruction) {
  return std::any_of(instruction.called.begin(), instruction.called.end(), [&](std::size_t called) {
    const std::vector<Instruction>& inside = module.computations[called].instructions;
    return std::any_of(inside.begin(), inside.end(), [&](const Instruction& one) {
      const std::string_view scope = scope_of(one);
      return scope.find("rematted_computation") != std::string_view::npos || is_checkpointed(module, one);
    });
  });
}

}  // namespace

std::optional<LoopMemory> largest_loop(const LoweredModule& lowered) {
  const Module& module = lowered.module;
  const Dataflow dataflow(module);
  const InnerPeak inner(module, dataflow);
  std::optional<LoopMemory> largest;
  for (std::size_t i = 0; i < module.computations[module.entry].instructions.size(); ++i) {
    const Instruction& loop = module.computations[module.entry].instructions[i];
    if (loop.opcode != "while") continue;
    std::map<StorageId, Bytes> state;
    for (const ValueId value : dataflow.leaves(module.entry, i)) {
      if (!dataflow.is_fixed(dataflow.storage(value))) state[dataflow.storage(value)] = rounded(dataflow[value].size);
    }
    const Bytes inside = inner.of(module.entry, i);
    Bytes size = inside;
    for (const auto& [storage, one] : state) size += one;
    if (largest && size <= largest->size) continue;
    largest = {loop.name, source_line(*lowered.bytes, module, loop), size, inside, is_checkpointed(module, loop)};
  }
  return largest;
}

std::vector<LoopBody> loop_bodies(const LoweredModule& lowered) {
  const Module& module = lowered.module;
  const Dataflow dataflow(module);
  const InnerPeak inner(module, dataflow);
  std::vector<LoopBody> bodies;
  // Callers stand behind what they call.
  std::vector<std::int64_t> runs(module.computations.size());
  runs[module.entry] = 1;
  for (std::size_t c = module.computations.size(); c-- > 0;) {
    for (std::size_t i = 0; i < module.computations[c].instructions.size(); ++i) {
      const Instruction& one = module.computations[c].instructions[i];
      for (const std::size_t called : dataflow.runs_inside(one)) {
        runs[called] = saturating_product(std::max<std::int64_t>(1, runs[c]), one.trips);
      }
      if (one.opcode != "while" || runs[c] == 0) continue;
      bodies.push_back({module.computations[one.called[0]].name, inner.of(c, i), runs[one.called[0]]});
    }
  }
  std::stable_sort(bodies.begin(), bodies.end(), [](const LoopBody& a, const LoopBody& b) { return a.size > b.size; });
  return bodies;
}

LoweredModule lower_module(std::string bytes, const std::string& source, const Machine& machine,
                           const std::string& body) {
  LoweredModule lowered{.source = source, .machine = machine};
  try {
    lowered.bytes = std::make_shared<const std::string>(module_bytes(std::move(bytes)));
    lowered.module = read_module(*lowered.bytes, "");
    lowered.computation = lowered.module.entry;
    if (!lowered.module.computations[lowered.computation].scheduled) {
      throw InputError("", std::string("is not scheduled, as modules before optimization are; ") + kWhatToGive);
    }
    for (std::size_t c = 0; c < lowered.module.computations.size() && !body.empty(); ++c) {
      if (lowered.module.computations[c].name == body) lowered.computation = c;
    }
    Lowering(lowered, machine).run();
    std::vector<OpId> order;
    for (std::size_t op = 0; op < lowered.graph.ops.size(); ++op) order.emplace_back(op);
    const std::vector<OpId> stale = stale_reads(lowered, order);
    if (!stale.empty()) {
      const Instruction& reader =
          lowered.module.computations[lowered.computation].instructions[lowered.instructions[stale.front().index()]];
      const std::string line = source_line(*lowered.bytes, lowered.module, reader);
      throw InputError("instruction " + quote(reader.name) + (line.empty() ? "" : " (" + line + ")"),
                       "reads memory that the module may have overwritten by then, so the module is not planned; "
                       "remora.jax.policy and remora.jax.checkpoint_loops plan the program instead");
    }
  } catch (const InputError& error) {
    throw InputError(source, error.what());
  }
  return lowered;
}

std::vector<OpId> stale_reads(const LoweredModule& lowered, std::span<const OpId> sequence) {
  Destruction memory(lowered);
  std::set<OpId> stale;
  for (const OpId op : sequence) {
    if (memory.missing(op)) stale.insert(op);
    memory.run(op);
  }
  return {stale.begin(), stale.end()};
}

std::vector<OpId> mended(const LoweredModule& lowered, std::span<const OpId> sequence) {
  return Mending(lowered, sequence.size()).of(sequence);
}

}  // namespace remora::hlo
