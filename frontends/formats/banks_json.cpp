// SPDX-License-Identifier: Apache-2.0
#include "frontends/formats/banks_json.hpp"

#include <ostream>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "frontends/formats/document.hpp"
#include "model/error.hpp"

namespace remora::json {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 62;

std::int64_t whole(const Node& node, std::string_view key, std::int64_t least, std::int64_t most) {
  const Node value = node.at(key);
  return value.integer(least, most);
}

std::vector<BankChoice> read_choices(const Node& buffer, const NameTable<std::size_t>& names, std::size_t banks) {
  std::vector<BankChoice> choices;
  if (!buffer.has("banks")) {
    for (std::size_t bank = 0; bank < banks; ++bank) choices.push_back({.bank = bank});
    return choices;
  }
  const Node list = buffer.at("banks");
  list.expect_array();
  for (std::size_t k = 0; k < list.size(); ++k) {
    const Node entry = list.element(k);
    entry.expect_object();
    const Node name = entry.at("name");
    BankChoice choice{.bank = names.resolve(name)};
    if (entry.has("cost")) choice.cost = whole(entry, "cost", 0, kMaxBytes);
    choices.push_back(choice);
  }
  return choices;
}

Buffer read_buffer(const Node& node) {
  node.expect_object();
  Buffer buffer{.id = node.at("id").string(),
                .lifespan = {whole(node, "lower", INT64_MIN, INT64_MAX), whole(node, "upper", INT64_MIN, INT64_MAX)},
                .size = Bytes(whole(node, "size", 0, kMaxBytes))};
  if (node.has("alignment")) buffer.alignment = Bytes(whole(node, "alignment", 1, kMaxBytes));
  if (node.has("offset")) buffer.offset = Bytes(whole(node, "offset", 0, kMaxBytes));
  if (!node.has("gaps")) return buffer;
  const Node gaps = node.at("gaps");
  gaps.expect_array();
  for (std::size_t k = 0; k < gaps.size(); ++k) {
    const Node gap = gaps.element(k);
    gap.expect_array();
    if (gap.size() != 2) gap.fail("a gap is [from, to]");
    const Node from = gap.element(0);
    const Node to = gap.element(1);
    buffer.gaps.push_back({from.integer(INT64_MIN), to.integer(INT64_MIN)});
  }
  return buffer;
}

Document document_of(const Buffer& buffer) {
  Document object{{"id", buffer.id},
                  {"lower", buffer.lifespan.lower},
                  {"upper", buffer.lifespan.upper},
                  {"size", buffer.size.count()}};
  if (buffer.alignment != Bytes(1)) object["alignment"] = buffer.alignment.count();
  if (buffer.offset) object["offset"] = buffer.offset->count();
  for (const Lifespan& gap : buffer.gaps) object["gaps"].push_back({gap.lower, gap.upper});
  return object;
}

}  // namespace

bool is_bank_problem(Text text) {
  return calls_itself(text.view(), "remora-banks");
}

BankProblem read_bank_problem(Text text) {
  const Document document = parse(text.view());
  const Node root(document);
  expect_format(root, "remora-banks", 1);
  BankProblem problem;
  const Node banks = root.at("banks");
  banks.expect_array();
  NameTable<std::size_t> names("there is no bank", banks.size());
  for (std::size_t b = 0; b < banks.size(); ++b) {
    const Node bank = banks.element(b);
    bank.expect_object();
    const Node name = bank.at("name");
    problem.banks.push_back({.name = name.string(), .capacity = Bytes(whole(bank, "capacity", 0, kMaxBytes))});
    names.add(name.string(), b);
  }
  const Node buffers = root.at("buffers");
  buffers.expect_array();
  std::unordered_set<std::string> ids;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Node buffer = buffers.element(i);
    problem.buffers.push_back(read_buffer(buffer));
    const std::string& id = problem.buffers.back().id;
    if (!ids.insert(id).second) buffer.at("id").fail("the id " + quote(id) + " is there twice");
    problem.choices.push_back(read_choices(buffer, names, banks.size()));
  }
  check_bank_problem(problem);
  return problem;
}

void write_bank_placement(std::ostream& out, const BankProblem& problem, const BankPlacement& placement) {
  Document object{{"format", "remora-banks"}, {"version", 1}, {"cost", cost_of(problem, placement)}};
  object["banks"] = Document::array();
  for (std::size_t b = 0; b < problem.banks.size(); ++b) {
    const BankContents contents = contents_of(problem, placement, b);
    object["banks"].push_back({{"name", problem.banks[b].name},
                               {"capacity", problem.banks[b].capacity.count()},
                               {"arena", arena_of(contents.buffers, contents.offsets).count()}});
  }
  object["buffers"] = Document::array();
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    Document buffer = document_of(problem.buffers[i]);
    buffer["banks"] = Document::array();
    for (const BankChoice& choice : problem.choices[i]) {
      Document entry{{"name", problem.banks[choice.bank].name}};
      if (choice.cost != 0) entry["cost"] = choice.cost;
      buffer["banks"].push_back(std::move(entry));
    }
    buffer["placed"] = {{"bank", problem.banks[placement.banks[i]].name}, {"offset", placement.offsets[i].count()}};
    object["buffers"].push_back(std::move(buffer));
  }
  out << object.dump(1) << "\n";
}

}  // namespace remora::json
