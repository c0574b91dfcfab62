// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace remora::report {

/// `text` as it can stand between tags and within double quotes, in HTML and XML. Characters that XML does not allow
/// (XML 1.0, section 2.2) become U+FFFD.
std::string escaped(std::string_view text);

/// JSON as it can stand in a <script> element: without any "<", which JSON only has inside strings.
std::string script_safe(std::string_view json);

/// A Content-Security-Policy source that allows this very text inline: 'sha256-...' (CSP level 2).
std::string policy_hash(std::string_view text);

struct PageHead {
  /// Escaped.
  std::string title{};
  std::string_view style{};
  /// Empty for a page without.
  std::string_view script{};
};
/// A page up to the inside of its body. It fetches nothing, and shows and runs what is given here alone.
void append_head(std::string& out, const PageHead& head);

}  // namespace remora::report
