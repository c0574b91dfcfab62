// SPDX-License-Identifier: Apache-2.0
//
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
#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "model/graph.hpp"
#include "model/schedule.hpp"

namespace remora::interchange {

/// Rows by stage, n + 1 of them; columns by op, n of them; every entry 0 or 1.
struct StageMatrices {
  using Matrix = std::vector<std::vector<std::uint8_t>>;
  Matrix computed{};
  Matrix retained{};
};

/// More ops than this are refused: their matrices would be more than a gigabyte of text.
inline constexpr std::size_t kMostMatrixOps = 16'000;

/// The schedule must be one that `verify` finds valid for the graph. Throws InputError for a schedule in free order,
/// which has no stages, for one without a solution, and for more than kMostMatrixOps ops. O(n^2 + steps).
StageMatrices stage_matrices(const Graph& graph, const Schedule& schedule);

/// The same as CSV, names quoted by RFC 4180, lines that end in LF:
///
///     matrix,stage,A,B,C,D,E
///     R,0,1,0,0,0,0             all rows of R, then all rows of S
void write_stage_matrices(std::ostream& out, const Graph& graph, const Schedule& schedule);

}  // namespace remora::interchange
