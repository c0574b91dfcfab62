# SPDX-License-Identifier: Apache-2.0
# public_headers(FOLDER HEADERS...): copies of the project's headers as programs see them. Inside the project they include
# each other from its root ("model/graph.hpp"), installed from the project's name ("remora/model/graph.hpp"), so that
# they never meet a program's own model/graph.hpp. The frontends' folders move up: frontends/formats is remora/formats, and
# frontends/library/remora.hpp is remora/remora.hpp. What else is in the folder, from before a header was renamed, goes.
function(public_headers folder)
  file(GLOB_RECURSE stale ${folder}/*)
  foreach(header ${ARGN})
    set(source ${PROJECT_SOURCE_DIR}/${header})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(READ ${source} text)
    string(REGEX REPLACE "#include \"(frontends/)?([a-z]+/)" "#include \"remora/\\2" text "${text}")
    string(REGEX REPLACE "^frontends/(library/)?" "" name ${header})
    file(CONFIGURE OUTPUT ${folder}/${name} CONTENT "${text}" @ONLY)
    list(REMOVE_ITEM stale ${folder}/${name})
  endforeach()
  if(stale)
    file(REMOVE ${stale})
  endif()
endfunction()
