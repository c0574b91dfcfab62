# SPDX-License-Identifier: Apache-2.0
# Half an installation serves nobody: before `cmake --install` copies anything, all that the components have must be
# built (./demo builds the programs alone). No variable of the scripts is called like a component: the scripts of
# installations compare with these words.
set(said "Nothing is installed, since not all of Remora is built.")
string(APPEND said " First run: cmake --build ${PROJECT_BINARY_DIR} --parallel")
foreach(part IN ITEMS runtime:remora runtime:remora_zoo library:remora_shared mlir:remora_mlir)
  string(REGEX REPLACE ":.*" "" component ${part})
  string(REGEX REPLACE ".*:" "" target ${part})
  set(files "$<$<TARGET_EXISTS:${target}>:$<TARGET_FILE:${target}>>")
  if(target STREQUAL "remora")
    string(APPEND files " $<$<TARGET_EXISTS:remora>:${PROJECT_BINARY_DIR}/share/completions/remora>")
  endif()
  install(CODE "
if(NOT CMAKE_INSTALL_COMPONENT OR CMAKE_INSTALL_COMPONENT STREQUAL \"${component}\")
  foreach(remora_file ${files})
    if(NOT EXISTS \${remora_file})
      message(FATAL_ERROR \"${said}\")
    endif()
  endforeach()
endif()" ALL_COMPONENTS)
endforeach()
