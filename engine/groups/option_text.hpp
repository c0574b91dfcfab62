// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/groups/group_option.hpp"

namespace remora {

/// A group's options, and the units of work that it took to find them.
struct FoundOptions {
  std::vector<GroupOption> options{};
  std::int64_t work = 0;
};

/// As text, for a BlockStore: whole numbers between blanks, a line for the number of options and the work, and one an
/// option.
std::string text_of_options(const FoundOptions& found);

/// The same again; nothing if the text is not what text_of_options makes of at least one option.
std::optional<FoundOptions> options_of_text(std::string_view text);

}  // namespace remora
