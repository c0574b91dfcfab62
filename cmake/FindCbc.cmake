# SPDX-License-Identifier: Apache-2.0
# Finds COIN-OR CBC and what it stands on; Debian's packages (coinor-libcbc-dev) ship no CMake configuration.
# Target: Cbc::Cbc.
find_path(CBC_INCLUDE_DIR CbcModel.hpp PATH_SUFFIXES coin)
set(_cbc_required CBC_INCLUDE_DIR)
set(_cbc_libraries)
foreach(_part Cbc Cgl OsiClp Osi Clp CoinUtils)
  find_library(CBC_${_part}_LIBRARY ${_part})
  list(APPEND _cbc_required CBC_${_part}_LIBRARY)
  list(APPEND _cbc_libraries ${CBC_${_part}_LIBRARY})
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Cbc REQUIRED_VARS ${_cbc_required})

if(Cbc_FOUND AND NOT TARGET Cbc::Cbc)
  add_library(Cbc::Cbc INTERFACE IMPORTED)
  set_target_properties(Cbc::Cbc PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CBC_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${_cbc_libraries}")
endif()
mark_as_advanced(${_cbc_required})
