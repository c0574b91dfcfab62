# SPDX-License-Identifier: Apache-2.0
# Writes a header with the commit of SOURCE to OUTPUT, if it says something new. In an archive (scripts/release) git has put it here.
set(commit "$Format:%H$")
string(SUBSTRING "${commit}" 0 12 commit)
if(NOT commit MATCHES "^[0-9a-f]+$")
  set(commit "unknown")
endif()
find_program(git git)
if(git AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${git} -C ${SOURCE} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE found RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed)
    set(commit ${found})
    execute_process(COMMAND ${git} -C ${SOURCE} status --porcelain -- model engine frontends examples cmake CMakeLists.txt
      OUTPUT_VARIABLE changed ERROR_QUIET)
    if(changed)
      string(APPEND commit "+")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
// Written by the build.
#pragma once

inline constexpr const char* kBuiltCommit = "@commit@";
]])
