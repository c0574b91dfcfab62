# SPDX-License-Identifier: Apache-2.0
# `cmake --install` of a folder in which nothing is built says the command, and installs nothing.
file(REMOVE_RECURSE ${FOLDER})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${FOLDER}/build -DREMORA_BUILD_TESTS=OFF -DREMORA_WITH_PYTHON=OFF
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
foreach(component "" runtime library)
  set(words "")
  if(component)
    set(words --component ${component})
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${FOLDER}/build --prefix ${FOLDER}/installed ${words}
    RESULT_VARIABLE code OUTPUT_QUIET ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  if(code EQUAL 0 OR NOT said MATCHES "First run: cmake --build ${FOLDER}/build")
    message(FATAL_ERROR "exit ${code}: ${said}")
  endif()
  if(EXISTS ${FOLDER}/installed)
    message(FATAL_ERROR "something was installed in ${FOLDER}/installed")
  endif()
endforeach()
