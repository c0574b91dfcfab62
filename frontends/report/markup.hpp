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

}  // namespace remora::report
