// SPDX-License-Identifier: Apache-2.0
//
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
// What becomes of it, in a graph whose ops are named by the ids and whose op ID writes one tensor, tID:
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
#pragma once

#include <string_view>

#include "model/graph.hpp"

namespace remora::interchange {

/// Whether the text begins with the words `p remat2`.
bool looks_like_remat2(std::string_view text);

/// Throws InputError, with the line, for text that does not follow the grammar, for ids that appear twice or stand for
/// no node, for numbers beyond 64 bits, and for a cycle; without one where sizes or durations add up to more than the
/// model holds. O(text + (nodes + deps) log nodes), and what pointers add.
Graph read_remat2(std::string_view text);

}  // namespace remora::interchange
