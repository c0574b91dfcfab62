// SPDX-License-Identifier: Apache-2.0
#include "frontends/cli/showing/partition_tree.hpp"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <sstream>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include "engine/groups/block.hpp"
#include "engine/groups/partition.hpp"
#include "engine/groups/partitioners.hpp"
#include "frontends/cli/showing/summary.hpp"
#include "frontends/text/text.hpp"
#include "model/quote.hpp"
#include "model/table.hpp"

namespace remora::cli {
namespace {

class TreeBuilder {
 public:
  TreeBuilder(const Instance& instance, const SolveOptions& options, const TreeDetail& detail)
      : graph_(instance.graph()),
        detail_(detail),
        partition_(make_partition(instance, IntervalPartition(), partition_settings(options))),
        below_(units_below(partition_)),
        blocks_(make_blocks(instance, partition_)),
        classes_(classify(instance, blocks_, at(partition_.unit_count()))) {}

  [[nodiscard]] PartitionTree build() const {
    const int root = partition_.root();
    return {.levels = partition_.node(root).level,
            .groups = static_cast<int>(blocks_.size()) - 1,
            .distinct_groups = static_cast<int>(classes_.representative.size()) - 1,
            .root = entry(root, detail_.depth)};
  }

 private:
  [[nodiscard]] int class_of(int group) const { return classes_.class_of[at(group - partition_.unit_count())]; }

  [[nodiscard]] PartitionEntry entry(int node, int depth) const {
    PartitionEntry result;
    result.level = partition_.node(node).level;
    result.child_count = static_cast<int>(partition_.node(node).children.size());
    add_ops(node, result);
    if (partition_.is_unit(node)) return result;
    if (node != partition_.root()) {
      result.form = class_of(node) + 1;
      add_interface(node, result);
    }
    if (depth > 0) result.children = children(node, depth - 1);
    return result;
  }

  void add_ops(int node, PartitionEntry& entry) const {
    const std::vector<int>& units = below_[at(node)];
    entry.unit_count = static_cast<int>(units.size());
    if (units.empty()) return;
    for (const int unit : units) {
      entry.op_count += 1 + static_cast<int>(partition_.units.units[at(unit)].backward.size());
    }
    entry.first_op = graph_.ops[at(partition_.units.units[at(units.front())].op)].name;
    entry.last_op = graph_.ops[at(partition_.units.units[at(units.back())].op)].name;
  }

  void add_interface(int node, PartitionEntry& entry) const {
    const Block& block = blocks_[at(node - partition_.unit_count())];
    for (const BlockTensor& tensor : block.tensors) {
      if (tensor.role == BlockTensor::Role::input) entry.input_bytes += tensor.size;
      if (tensor.role == BlockTensor::Role::output) entry.output_bytes += tensor.size;
    }
  }

  [[nodiscard]] std::vector<PartitionEntry> children(int node, int depth) const {
    std::vector<PartitionEntry> result;
    std::unordered_map<int, std::size_t> entry_of_class;
    for (const int child : partition_.node(node).children) {
      if (partition_.is_unit(child)) {
        if (detail_.units) result.push_back(entry(child, depth));
        continue;
      }
      const auto [found, is_new] = entry_of_class.try_emplace(class_of(child), result.size());
      if (is_new) {
        result.push_back(entry(child, depth));
      } else {
        ++result[found->second].count;
      }
    }
    return result;
  }

  const Graph& graph_;
  TreeDetail detail_;
  Partition partition_;
  std::vector<std::vector<int>> below_;
  std::vector<Block> blocks_;
  BlockClasses classes_;
};

/// The columns of a line.
struct Line {
  std::string group{};
  std::string children{};
  std::string ops{};
  std::string reads{};
  std::string writes{};
  std::string names{};
};

class TextLines {
 public:
  explicit TextLines(const PartitionTree& tree) : shown_(at(tree.distinct_groups) + 1, false) {
    lines_.push_back({"group", "children", "ops", "reads", "writes", "first .. last forward op"});
    add(tree.root, true, 0);
  }

  /// In `columns`; where they are few, without what groups read and write, and with the ends of long names.
  void print(std::ostream& out, int columns) const {
    constexpr int kWide = 80;
    constexpr int kMinNames = 16;
    const auto width = [&](auto column) {
      std::size_t most = 0;
      for (const Line& line : lines_) most = std::max(most, (line.*column).size());
      return static_cast<int>(most);
    };
    const int group = width(&Line::group);
    const int children = width(&Line::children) + 2;
    const int ops = width(&Line::ops) + 2;
    const bool is_wide = columns >= kWide;
    const int reads = is_wide ? width(&Line::reads) + 2 : 0;
    const int writes = is_wide ? width(&Line::writes) + 2 : 0;
    const auto names =
        static_cast<std::size_t>(std::max(kMinNames, columns - group - children - ops - reads - writes - 2));
    for (const Line& line : lines_) {
      out << std::left << std::setw(group) << line.group << std::right << std::setw(children) << line.children
          << std::setw(ops) << line.ops;
      if (is_wide) out << std::setw(reads) << line.reads << std::setw(writes) << line.writes;
      out << "  " << (line.names.size() > names ? fitted(line.names, names) : line.names) << "\n";
    }
  }

 private:
  void add(const PartitionEntry& entry, bool is_root, std::size_t indent) {
    Line line{.group = std::string(indent, ' ') + title(entry, is_root), .ops = text::grouped(entry.op_count)};
    if (is_root || entry.level > 0) line.children = text::grouped(entry.child_count);
    if (entry.form > 0) {
      line.reads = text::bytes_text(entry.input_bytes);
      line.writes = text::bytes_text(entry.output_bytes);
    }
    line.names = printable(entry.first_op);
    if (entry.first_op != entry.last_op) line.names.append(" .. ").append(printable(entry.last_op));
    const bool again = shown_[at(entry.form)];
    if (again && !entry.children.empty()) line.names += "; inside as above";
    lines_.push_back(std::move(line));
    if (again) return;
    // A group at the end of the depth may be shown elsewhere.
    if (entry.form > 0 && !entry.children.empty()) shown_[at(entry.form)] = true;
    for (const PartitionEntry& child : entry.children) add(child, false, indent + 2);
  }

  static std::string title(const PartitionEntry& entry, bool is_root) {
    if (is_root) return "root";
    if (entry.level == 0) return "unit";
    std::string text = "level " + std::to_string(entry.level) + ", form " + std::to_string(entry.form);
    if (entry.count > 1) text.append("  x ").append(text::grouped(entry.count));
    return text;
  }

  /// By form: whether a line with its inside has been made. Units and the root are never shown twice.
  std::vector<bool> shown_;
  std::vector<Line> lines_;
};

nlohmann::ordered_json entry_json(const PartitionEntry& entry) {
  nlohmann::ordered_json text{{"level", entry.level}};
  if (entry.form > 0) text["form"] = entry.form;
  text["count"] = entry.count;
  text["child_count"] = entry.child_count;
  text["units"] = entry.unit_count;
  text["ops"] = entry.op_count;
  text["first_op"] = entry.first_op;
  text["last_op"] = entry.last_op;
  if (entry.form > 0) {
    text["input_bytes"] = entry.input_bytes.count();
    text["output_bytes"] = entry.output_bytes.count();
  }
  if (entry.children.empty()) return text;
  nlohmann::ordered_json& children = text["children"] = nlohmann::ordered_json::array();
  for (const PartitionEntry& child : entry.children) children.push_back(entry_json(child));
  return text;
}

}  // namespace

PartitionTree partition_tree(const Instance& instance, const SolveOptions& options, const TreeDetail& detail) {
  return TreeBuilder(instance, options, detail).build();
}

void print_partition(std::ostream& out, const PartitionTree& tree, int columns) {
  constexpr std::size_t kColumns = 26;
  std::ostringstream line;
  line << "partition                 " << text::grouped(tree.groups) << " groups of "
       << text::grouped(tree.distinct_groups) << " forms on " << tree.levels << " levels, "
       << text::grouped(tree.root.unit_count) << " units";
  out << text::wrapped_lines(line.str(), kColumns, columns) << "\n";
  TextLines(tree).print(out, columns);
}

nlohmann::ordered_json partition_json(const PartitionTree& tree, const SolveOptions& options) {
  return {{"group_size", options.group_size},
          {"top_size", options.top_size},
          {"levels", tree.levels},
          {"groups", tree.groups},
          {"distinct_groups", tree.distinct_groups},
          {"tree", entry_json(tree.root)}};
}

}  // namespace remora::cli
