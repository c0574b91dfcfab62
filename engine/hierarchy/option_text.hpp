// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/hierarchy/group_option.hpp"

namespace remora {

/// Options as text, for a BlockStore: whole numbers between blanks, a line an option.
std::string text_of_options(const std::vector<GroupOption>& options);

/// The options again; nothing if the text is not what text_of_options makes.
std::optional<std::vector<GroupOption>> options_of_text(std::string_view text);

}  // namespace remora
