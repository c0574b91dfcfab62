// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <unordered_set>
#include <utility>

#include <nlohmann/json.hpp>

#include "frontends/formats/interchange.hpp"
#include "frontends/text/text.hpp"
#include "model/error.hpp"
#include "model/quote.hpp"
#include "model/table.hpp"

namespace remora::interchange {
namespace {

std::string line_place(const std::string& source, int line) {
  return source + ": line " + std::to_string(line);
}

/// Where the known columns are; none for one that is not there.
struct Columns {
  std::optional<std::size_t> name{};
  std::optional<std::size_t> device{};
  std::optional<std::size_t> duration{};
  std::optional<std::size_t> workspace{};
  std::optional<std::size_t> energy{};
  std::size_t count = 0;
};

Columns read_header(const std::vector<std::string>& header, const std::string& source) {
  Columns columns{.count = header.size()};
  const auto place = [&](const char* name) -> std::optional<std::size_t> {
    const auto found = std::find(header.begin(), header.end(), name);
    if (found == header.end()) return std::nullopt;
    return static_cast<std::size_t>(found - header.begin());
  };
  columns.name = place("name");
  columns.device = place("device");
  columns.duration = place("duration");
  columns.workspace = place("workspace");
  columns.energy = place("energy");
  if (!columns.name || !columns.duration) {
    throw InputError(line_place(source, 1), "a table of costs begins with name,device,duration,workspace,energy");
  }
  return columns;
}

/// A whole number from 0, nothing for an empty field.
std::optional<std::int64_t> read_amount(const std::string& text, const char* column, const std::string& place) {
  if (text.empty()) return std::nullopt;
  std::int64_t amount = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  if (error == std::errc() && end == text.data() + text.size() && amount >= 0) return amount;
  throw InputError(place, std::string(column) + " must be a whole number from 0, not " + quote(text));
}

OpCost read_row(const std::vector<std::string>& fields, const Columns& columns, const std::string& place, int line) {
  const auto amount = [&](const std::optional<std::size_t>& column, const char* name) {
    return column ? read_amount(fields[*column], name, place) : std::nullopt;
  };
  OpCost cost{.name = fields[*columns.name], .line = line};
  if (cost.name.empty()) throw InputError(place, "a name must not be empty");
  if (const auto found = amount(columns.duration, "duration")) cost.duration = Duration(*found);
  if (const auto found = amount(columns.workspace, "workspace")) cost.workspace = Bytes(*found);
  cost.energy = amount(columns.energy, "energy");
  return cost;
}

/// The op's unknown keys with this one among them.
std::string with_energy(const std::string& extra, std::int64_t energy) {
  auto keys = extra.empty() ? nlohmann::ordered_json::object() : nlohmann::ordered_json::parse(extra);
  keys["energy"] = energy;
  return keys.dump();
}

std::string with_source(const std::string& meta, const std::string& source) {
  auto keys = meta.empty() ? nlohmann::ordered_json::object() : nlohmann::ordered_json::parse(meta);
  keys["costs"] = source;
  return keys.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Duration scaled(Duration duration, double ratio) {
  constexpr double kMaximum = 4e18;
  const double amount = std::ceil(static_cast<double>(duration.count()) * ratio);
  return Duration(static_cast<std::int64_t>(std::clamp(amount, 0.0, kMaximum)));
}

}  // namespace

CostTable read_costs(std::string_view text, const std::string& source) {
  CsvReader reader(text, source);
  const auto header = reader.next();
  if (!header) throw InputError(source, "the table of costs is empty");
  const Columns columns = read_header(*header, source);
  CostTable table{.source = source};
  std::unordered_set<std::string> names;
  while (const auto fields = reader.next()) {
    const std::string place = reader.place();
    if (fields->size() != columns.count) {
      throw InputError(place,
                       "has " + std::to_string(fields->size()) + " fields, not " + std::to_string(columns.count));
    }
    OpCost cost = read_row(*fields, columns, place, reader.line());
    const std::string device = columns.device ? (*fields)[*columns.device] : "";
    if (table.rows.empty()) table.device = device;
    if (device != table.device) {
      throw InputError(place, "is of device " + quote(device) + ", the rows before of " + quote(table.device));
    }
    if (!names.insert(cost.name).second) throw InputError(place, "the name " + quote(cost.name) + " is there twice");
    table.rows.push_back(std::move(cost));
  }
  return table;
}

CostNames cost_names(const Graph& graph) {
  CostNames names;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) names.emplace(graph.ops[i].name, OpId(i));
  const Table<TensorId, OpId> producers = producers_of(graph);
  for (const TensorId tensor : producers.ids()) names.emplace(graph[tensor].name, producers[tensor]);
  return names;
}

std::string apply_costs(Graph& graph, const CostTable& table, const CostNames& names, const BackwardRatio& ratio) {
  std::vector<const OpCost*> costs(graph.ops.size(), nullptr);
  for (const OpCost& row : table.rows) {
    const auto found = names.find(row.name);
    if (found == names.end()) {
      throw InputError(line_place(table.source, row.line), "there is no op or node " + quote(row.name));
    }
    if (!found->second.valid()) continue;
    const OpCost*& cost = costs[found->second.index()];
    if (cost != nullptr) {
      throw InputError(line_place(table.source, row.line),
                       quote(row.name) + " is the op of line " + std::to_string(cost->line));
    }
    cost = &row;
  }
  int given = 0;
  int derived = 0;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    Op& op = graph.ops[i];
    const OpCost* const own = costs[i];
    if (own != nullptr && own->workspace) op.workspace = *own->workspace;
    if (own != nullptr && own->energy) op.extra = with_energy(op.extra, *own->energy);
    if (own != nullptr && own->duration) {
      ++given;
      continue;
    }
    if (!op.backward_of.valid()) continue;
    const OpCost* const forward = costs[op.backward_of.index()];
    if (forward == nullptr || !forward->duration) continue;
    op.duration = scaled(*forward->duration, ratio(OpId(i), op.backward_of));
    ++derived;
  }
  // Only now, for the ratio may ask for what the graph said before.
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    if (costs[i] != nullptr && costs[i]->duration) graph.ops[i].duration = *costs[i]->duration;
  }
  graph.meta = with_source(graph.meta, table.source);
  validate(graph);
  const std::size_t rest = graph.ops.size() - static_cast<std::size_t>(given + derived);
  return "durations of " + std::to_string(given) + " of " + std::to_string(graph.ops.size()) + " ops by " +
         table.source + ", " + std::to_string(derived) + " of backward ops scaled from them, " + std::to_string(rest) +
         " as without it";
}

}  // namespace remora::interchange
