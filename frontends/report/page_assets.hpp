// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace remora::report {

/// The page's style sheet, the inside of its body, and its script (frontends/report/assets), put in by the build.
extern const std::string_view kPageStyle;
extern const std::string_view kPageBody;
extern const std::string_view kPageScript;

}  // namespace remora::report
