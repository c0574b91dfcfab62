// SPDX-License-Identifier: Apache-2.0
//
// Small helpers of all front ends that write text.
#pragma once

#include <string>
#include <string_view>

namespace remora::text {

/// `text` as one field of a CSV line by RFC 4180: in quotes, and every quote in it twice, where it holds a comma, a
/// quote or the end of a line; otherwise as it is.
std::string csv_field(std::string_view text);

/// Now, UTC, ISO 8601.
std::string now_text();

}  // namespace remora::text
