// SPDX-License-Identifier: Apache-2.0
//
// Scheduled modules of XLA for tests, written field by field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "frontends/formats/wire.hpp"

namespace remora::hlo::test {

/// The shape of an array; row-major without `minor_to_major`.
inline std::string array(const std::vector<std::int64_t>& dimensions, int type = 11,
                         std::vector<std::int64_t> minor_to_major = {}) {
  if (minor_to_major.empty()) {
    for (std::size_t k = dimensions.size(); k-- > 0;) minor_to_major.push_back(static_cast<std::int64_t>(k));
  }
  std::string layout;
  for (const std::int64_t one : minor_to_major) wire::put_number(layout, 1, static_cast<std::uint64_t>(one));
  std::string text;
  wire::put_number(text, 2, static_cast<std::uint64_t>(type));
  for (const std::int64_t one : dimensions) wire::put_number(text, 3, static_cast<std::uint64_t>(one));
  wire::put_bytes(text, 5, layout);
  return text;
}

struct Line {
  std::string name{};
  std::string opcode{};
  std::string shape{};
  std::vector<std::string> operands{};
  /// Further fields.
  std::string more{};
  std::vector<std::uint64_t> called{};
};

class Builder {
 public:
  /// The last line is the root. Instructions are scheduled as they stand, and parameters numbered so.
  std::uint64_t add(const std::string& name, const std::vector<Line>& lines) {
    const std::uint64_t id = ++computation_;
    std::map<std::string, std::uint64_t> ids;
    std::string text;
    wire::put_bytes(text, 1, name);
    std::string order;
    std::uint64_t parameters = 0;
    for (const Line& line : lines) {
      ids[line.name] = ++instruction_;
      std::string one;
      wire::put_bytes(one, 1, line.name);
      wire::put_bytes(one, 2, line.opcode);
      wire::put_bytes(one, 3, line.shape);
      one += line.more;
      if (line.opcode == "parameter") wire::put_number(one, 9, parameters++);
      wire::put_number(one, 35, instruction_);
      for (const std::string& operand : line.operands) wire::put_number(one, 36, ids.at(operand));
      for (const std::uint64_t called : line.called) wire::put_number(one, 38, called);
      wire::put_bytes(text, 2, one);
      wire::put_number(order, 1, instruction_);
    }
    wire::put_number(text, 5, id);
    wire::put_number(text, 6, instruction_);
    wire::put_bytes(computations_, 3, text);
    std::string pair;
    wire::put_number(pair, 1, id);
    wire::put_bytes(pair, 2, order);
    wire::put_bytes(schedule_, 1, pair);
    return id;
  }

  /// The computation that was added last is the entry.
  [[nodiscard]] std::string module() const {
    std::string text;
    wire::put_bytes(text, 1, "module");
    wire::put_bytes(text, 2, "main");
    text += computations_;
    wire::put_number(text, 6, computation_);
    wire::put_bytes(text, 7, schedule_);
    return text;
  }

 private:
  std::uint64_t computation_ = 0;
  std::uint64_t instruction_ = 0;
  std::string computations_;
  std::string schedule_;
};

}  // namespace remora::hlo::test
