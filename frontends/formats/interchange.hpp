// SPDX-License-Identifier: Apache-2.0
//
// Formats of other programs: node-link JSON of networkx, TWRemat's text, minimalloc's CSV, Checkmate's matrices,
// tables of measured costs.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/graph.hpp"
#include "model/placement.hpp"
#include "model/schedule.hpp"
#include "model/types.hpp"

namespace remora::interchange {

// networkx's node-link JSON. Which keys mean what is told by the first node and the first link:
//
//     nodes               each with its id under "id", or else "name"; the op's name is "name", or else the id
//     durations           cost_cpu, duration, time or cost: the first of these that is there
//     sizes of outputs    cost_ram, out_cost, size, memory or bytes, likewise
//     links, or edges     from "source" to "target", or from "0" to "1"
//     the input order     graph.order, or else the nodes as listed, sorted if that order cannot run
//
// So it is read as Checkmate (Jain et al. 2020: cost_cpu, cost_ram, source, target) and the random layered graphs
// (Gagrani et al. 2022: duration, out_cost, "0", "1", graph.order) publish it, and as networkx writes it by itself, with
// "links" up to version 3.3 and "edges" since.
//
// Every node is an op with one output, which all nodes that it links to read. The op's name is the node's with its
// position in the order, NAME#POSITION, for names repeat. Nodes marked backward are of that phase.

struct NodeLinkGraph {
  Graph graph{};
  /// One line for the user: which keys were taken for what, and which that could be meant were not.
  std::string taken{};
};

/// True if the text looks like a node-link graph rather than a remora-graph: it says "nodes" and nowhere "format".
bool looks_like_node_link(std::string_view text);

/// Throws InputError with the JSON path for text that is none, for nodes without a duration or a size, for those that are
/// no whole numbers, for links and orders of unknown nodes, for an undirected graph, for a cycle, and for a graph.order
/// that is not topological.
NodeLinkGraph read_node_link(std::string_view text);

// TWRemat's text, `p remat2`: the graphs that nshepperd's implementation of Kumar et al. 2019 (Efficient
// rematerialization for deep networks) takes, the one that HiRemate compares with. No page describes it; this is what
// the program's parser says (nshepperd/gpt-2 on GitHub, branch finetuning, folder twremat: Main.hs parses, Filter.hs
// weighs, twremat.py writes), with the two words that HiRemate's side adds (rockmate, solvers/twremat_utils.py:
// `overhead`, `loss`):
//
//     p remat2                                     file:   p remat2 [memlimit N] node+
//     memlimit 4000                                node:   node ID [deps ID*] [weight] [target] [loss]
//     node 0 deps cpu 7 mem 100                    weight: cpu N mem N [overhead N] | effectful | pointer
//     node 1 deps 0 pointer
//     node 2 deps 1 cpu 9 mem 60 target            White space separates words; the end of a line is no more than that.
//
// Its form in a graph whose ops are named by the ids and whose op ID writes one tensor, tID:
//
//     cpu, mem, overhead    duration, size of the tensor, workspace. Without a weight cpu 1 mem 1, as in Main.hs.
//     effectful             runs once (recompute: never); takes no time and no memory, as in Filter.hs.
//     pointer               a view: no time, no memory, but its storage has to be there: a node that depends on a
//                           pointer also reads what the pointer points at, through further pointers. The comment on
//                           mergePointers in Main.hs asks for exactly this; the code under it adds the pointers alone.
//     target                `keep`, of a pointer also what it points at.
//     loss                  recompute: never, and the phase `loss`.
//     memlimit              is no part of a graph: it goes into `meta`, and the budget stays the caller's.
//
// The order is that of the file. Where a node is listed before one that it depends on, it is the topological order that
// takes the first listed of all ready nodes each time, which for a topological file is the file's order.

/// True if the text begins with the words `p remat2`.
bool looks_like_remat2(std::string_view text);

/// Throws InputError, with the line, for text that does not follow the grammar, for ids that appear twice or stand for
/// no node, for numbers beyond 64 bits, and for a cycle; without one where sizes or durations add up to more than the
/// model holds. O(text + (nodes + deps) log nodes), and what pointers add.
Graph read_remat2(std::string_view text);

// Buffers and where they lie as CSV, as google/minimalloc (Moffitt 2023) reads and writes it (README.md and
// src/converter.cc there):
//
//     id,lower,upper,size,alignment,gaps,offset
//     a,0,9,4096,64,2-4 6-7,0
//
// Alive from `lower` up to but without `upper`, but for the gaps. The first four columns must be there, in any order;
// `begin` and `start` are other names of lower, `buffer` and `buffer_id` of id, and `end` is the last time of life: upper
// is one more, of gaps too. An offset that is not empty is where the buffer has to lie.

/// Other columns are left out. Throws InputError with the line: a column that is missing or there twice, a row with more or
/// fewer fields, what is no whole number, a gap that is not FROM-TO, or one with a window (FROM-TO@LOW:HIGH), in which a
/// part of the buffer stays alive; and as check_buffers does.
std::vector<Buffer> read_buffers(std::string_view text, const std::string& source);

/// The header, a buffer a line, names quoted by RFC 4180, lines that end in LF. (minimalloc's own reader knows no quotes:
/// it takes names without commas only.) Alignments and gaps have columns where there are any; without `offsets` there is no
/// such column, else one for each buffer.
void write_buffers(std::ostream& out, std::span<const Buffer> buffers, std::span<const Bytes> offsets = {});

/// The buffers of a schedule (model/buffers/schedule_buffers.hpp). Throws InputError for a schedule without a solution.
void write_minimalloc(std::ostream& out, const Graph& graph, const Schedule& schedule);

// A schedule in staged form as the matrices R and S of Checkmate (Jain et al. 2020, eq. 1).
//
//     R[t][i] = 1   op i is computed in stage t
//     S[t][i] = 1   what op i wrote is retained from stage t - 1 into stage t
//
// Stage t is what runs after the first compute of op t - 1, up to and including that of op t. Ours differ in two ways.
// There is one more stage, n, after the last first compute: it holds recomputes of `keep` tensors, and S[n] says what
// is resident before them; without such recomputes R[n] is all 0, and the first n rows are Jain et al.'s square
// matrices. And tensors are retained here, not ops: S[t][i] is 1 where any output of op i is resident when stage t
// begins. Graph inputs, which are always there, are in no matrix.
//
//     sequence A B C D A E of figure 1 of Kumar et al. 2019        R  10000    S  00000
//     (stages A | B | C | D | A E | ), `a` freed after C              01000       10000
//                                                                     00100       11000
//                                                                     00010       01100
//                                                                     10001       00010
//                                                                     00000       00001

/// Rows by stage, n + 1 of them; columns by op, n of them; every entry 0 or 1.
struct StageMatrices {
  using Matrix = std::vector<std::vector<std::uint8_t>>;
  Matrix computed{};
  Matrix retained{};
};

/// More ops than this are refused: their matrices would be more than a gigabyte of text.
inline constexpr std::size_t kMaxMatrixOps = 16'000;

/// The schedule must be one that `verify` finds valid for the graph. Throws InputError for a schedule in free order,
/// which has no stages, for one without a solution, and for more than kMaxMatrixOps ops. O(n^2 + steps).
StageMatrices stage_matrices(const Graph& graph, const Schedule& schedule);

/// The same as CSV, names quoted by RFC 4180, lines that end in LF:
///
///     matrix,stage,A,B,C,D,E
///     R,0,1,0,0,0,0             all rows of R, then all rows of S
void write_stage_matrices(std::ostream& out, const Graph& graph, const Schedule& schedule);

// Measured costs of ops, as CSV (RFC 4180) with a header; other columns may follow, in any order:
//
//     name,device,duration,workspace,energy
//     conv1,cpu,120500,,                        empty: not measured, the graph's own figure stays
//     relu1_out,cpu,3000,4096,                  by the name of an op, or of what it writes
//
// Durations are in the graph's unit (nanoseconds for ONNX models), workspace in bytes. All rows are of one device.

struct OpCost {
  std::string name{};
  /// Where it is written, from 1.
  int line = 0;
  std::optional<Duration> duration{};
  std::optional<Bytes> workspace{};
  std::optional<std::int64_t> energy{};
};

struct CostTable {
  /// The file, for messages and the graph's meta.
  std::string source{};
  std::string device{};
  std::vector<OpCost> rows{};
};

/// Throws InputError with the line: no header with a name and a duration, a row with more or fewer fields, what is no
/// amount, rows of several devices, a name that is there twice.
CostTable read_costs(std::string_view text, const std::string& source);

/// Meaning of names: an op, or none for a part of the model without an op (a view, a constant).
using CostNames = std::unordered_map<std::string, OpId>;

/// The ops and what they write, by name; ops first.
CostNames cost_names(const Graph& graph);

/// How long a backward op takes for one unit of its forward op's time, where nothing was measured for it.
using BackwardRatio = std::function<double(OpId backward, OpId forward)>;

/// Puts the costs into the graph: durations and workspaces as measured, energy as a key of its own ("energy"). A backward
/// op without a duration of its own takes its forward op's measured one times the ratio. Everything else stays. Says in
/// one line how many ops have what. Throws InputError with the line for a name that stands for nothing, and for an op that
/// two rows mean. Expected O(ops + rows).
std::string apply_costs(Graph& graph, const CostTable& table, const CostNames& names, const BackwardRatio& ratio);

}  // namespace remora::interchange
