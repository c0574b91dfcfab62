# SPDX-License-Identifier: Apache-2.0
# Finds the parts of Gecode that the project uses; Debian's package ships no CMake configuration.
# Target: Gecode::Gecode.
find_path(GECODE_INCLUDE_DIR gecode/kernel.hh)
set(_gecode_required GECODE_INCLUDE_DIR)
set(_gecode_libraries)
foreach(_part support kernel search int minimodel)
  find_library(GECODE_${_part}_LIBRARY gecode${_part})
  list(APPEND _gecode_required GECODE_${_part}_LIBRARY)
  list(APPEND _gecode_libraries ${GECODE_${_part}_LIBRARY})
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Gecode REQUIRED_VARS ${_gecode_required})

if(Gecode_FOUND AND NOT TARGET Gecode::Gecode)
  add_library(Gecode::Gecode INTERFACE IMPORTED)
  set_target_properties(Gecode::Gecode PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${GECODE_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${_gecode_libraries}")
endif()
mark_as_advanced(${_gecode_required})
