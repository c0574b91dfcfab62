// SPDX-License-Identifier: Apache-2.0
//
// The tree of groups that a hierarchical solve would work with, for people and as JSON.
//
//     group                 children  ops     reads    writes  first .. last
//     root                         6   96                      embed .. loss
//       level 2, form 3            2   40  12.0 KiB  12.0 KiB  layer0.ln .. layer3.out
//         level 1, form 1  x 2    10   20   6.0 KiB   6.0 KiB  layer0.ln .. layer1.out
//       level 1, form 1  x 2      10   20   6.0 KiB   6.0 KiB  layer4.ln .. layer5.out
//
// Siblings of one form, wherever they stand, are one entry with their number, the first of them for all; and the text
// shows what is inside a form only once. So a network of a thousand equal layers is a page.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/base/options.hpp"
#include "model/instance.hpp"
#include "model/types.hpp"

namespace remora::cli {

struct PartitionEntry {
  /// 0 for a unit.
  int level = 0;
  /// From 1, as the solve's note counts them; 0 for units and the root.
  int form = 0;
  /// How many siblings are the same problem; the rest is said of the first of them.
  int count = 1;
  int child_count = 0;
  int unit_count = 0;
  int op_count = 0;
  /// Ops of the group's part of the forward part, in input order; may be empty.
  std::string first_op{};
  std::string last_op{};
  /// For groups but the root: sizes of the tensors that it reads from outside, and that it makes for others.
  Bytes input_bytes{};
  Bytes output_bytes{};
  std::vector<PartitionEntry> children{};
};

struct PartitionTree {
  int levels = 0;
  /// Without the root, like the solve's statistics.
  int groups = 0;
  int distinct_groups = 0;
  PartitionEntry root{};
};

struct TreeDetail {
  /// Levels of the tree below the root.
  int depth = 0;
  /// Units, too, below the groups.
  bool units = false;
};

/// Partitions as solve does under these options: O(what that takes + entries).
PartitionTree partition_tree(const Instance& instance, const SolveOptions& options, const TreeDetail& detail);

/// For people, in so many columns.
void print_partition(std::ostream& out, const PartitionTree& tree, int columns);

/// The same as an object; every entry has all its children, down to the depth.
nlohmann::ordered_json partition_json(const PartitionTree& tree, const SolveOptions& options);

}  // namespace remora::cli
