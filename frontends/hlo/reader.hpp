// SPDX-License-Identifier: Apache-2.0
//
// From a module to a graph: the instructions of the entry computation are ops, in the order in which they run.
//
//     argument, constant    nothing: they are in memory anyway; their sizes are fixed memory
//     tuple, its elements, bitcast    nothing: they stand for the values that they are made of
//     while, conditional, call    an op whose workspace is what the computations inside take at most
//     everything else       an op, a tensor for each array that it writes, in multiples of 64 bytes
//     an output of the module    a tensor that is kept; one that lies in a donated argument has size 0
//
// Outputs that lie, or may lie, in the memory of an operand are `in_place`. An op that destroys a value in memory comes after all that
// read it. Recomputes that would read it are found by stale_reads.
//
// Durations are a roofline's: max(FLOPs / peak, bytes / bandwidth) + overhead of a launch, in nanoseconds. Of a loop whose number of runs
// XLA does not know, one run counts.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/hlo/dataflow.hpp"
#include "frontends/hlo/module.hpp"
#include "frontends/machine/machine.hpp"
#include "model/graph.hpp"
#include "model/types.hpp"

namespace remora::hlo {

/// XLA's alignment on the CPU, to which sizes are rounded up.
constexpr Bytes kAlignment{64};

/// A module as a graph, and what each op is in the module.
struct LoweredModule {
  /// Text of the file, which the module's views refer to.
  std::shared_ptr<const std::string> bytes{};
  std::string source{};
  Machine machine{};
  Module module{};
  Graph graph{};
  /// The computation that the graph is of: the entry, or the body of a loop.
  std::size_t computation = 0;
  /// By op: its place among the instructions of that computation.
  std::vector<std::size_t> instructions{};
  /// Size of the outputs that do not lie in arguments: XLA allocates them apart from temporaries, and lets temporaries
  /// lie there until they
  /// are written.
  Bytes outputs{};
  /// Size of the outputs that lie in donated arguments.
  Bytes donated{};
};

/// A while loop of the entry computation, and the memory that its state and its body take.
struct LoopMemory {
  std::string name{};
  /// The line of the program that it comes from: "file:line", or empty.
  std::string place{};
  Bytes size{};
  /// Memory of its body alone.
  Bytes inside{};
  /// `jax.checkpoint` recomputes something in its body, by the names of the instructions there.
  bool is_checkpointed = false;
};

/// The loop that takes most memory; none where there are no loops.
std::optional<LoopMemory> largest_loop(const LoweredModule& lowered);

/// The body of a while loop, wherever it is called.
struct LoopBody {
  std::string computation{};
  /// Peak of its instructions, in addition to the loop's state.
  Bytes size{};
  /// How often it runs in all, as far as XLA knows.
  std::int64_t runs = 1;
};

/// The bodies of all loops, those that take most memory first.
std::vector<LoopBody> loop_bodies(const LoweredModule& lowered);

/// Throws InputError that names `source` for what is not understood or not known here, and for modules without a schedule. `body`: the
/// computation of which the graph is, or empty for the entry. The state of a loop is in memory anyway; what a run of its body makes of it
/// lies where it lay.
LoweredModule lower_module(std::string bytes, const std::string& source, const Machine& machine,
                           const std::string& body = {});

/// True if a second run is not a first one: random numbers with a state, devices that talk to each other or to the host.
bool has_effect(const Module& module, const Instruction& instruction);

/// The ops of which a compute reads what another op of the sequence has destroyed. Empty for every sequence without recomputes that
/// keeps the order of the graph.
std::vector<OpId> stale_reads(const LoweredModule& lowered, std::span<const OpId> sequence);

/// The sequence with further computes, by which nothing is read that is destroyed: what a loop has destroyed is made again right before
/// the loop runs again. What may run only once stays stale, and so does what would more than double the sequence.
std::vector<OpId> mended(const LoweredModule& lowered, std::span<const OpId> sequence);

/// Size of temporaries in XLA's buffer assignment (xla/service/buffer_assignment.cc), in bytes, by the same rules:
/// outputs and
/// donated arguments serve temporaries while they are free; the rest is packed twice, by size and by length of life, best fit first,
/// and the smaller heap is taken. O(values^2) for up to 10,000 temporaries; for more, the largest sum of sizes at one moment is given.
Bytes assigned_temporaries(const Module& module);

/// The module whose entry computation runs in this order: an instruction again for each recompute, with a name and an id of its own, and
/// with computations of its own where it calls some. `sequence`: a valid one of the graph. Throws InputError for one in which
/// something is read that is destroyed. What comes out is read again, and proved to compute the same expressions.
std::string rewrite_module(const LoweredModule& lowered, std::span<const OpId> sequence);

}  // namespace remora::hlo
