# SPDX-License-Identifier: Apache-2.0
# `cpack` in the build folder: Debian packages of the program, the library, and what programs build with.
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime RENAME copyright)
set(library_package libremora${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${library_package} COMPONENT library RENAME copyright)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libremora-dev COMPONENT development RENAME copyright)

# The documentation with what its links lead to, laid out as in the source tree.
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(FILES docs/develop/third_party.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${library_package} COMPONENT library)
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime USE_SOURCE_PERMISSIONS
  PATTERN __pycache__ EXCLUDE)
install(DIRECTORY benchmarks DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime
  FILES_MATCHING PATTERN *.md PATTERN *.svg PATTERN work EXCLUDE)
# The benchmark: remora_bench, its suites and their instances.
set(benchmark_folder ${CMAKE_INSTALL_DATADIR}/remora/benchmarks)
install(PROGRAMS benchmarks/run benchmarks/setup DESTINATION ${benchmark_folder} COMPONENT runtime)
install(FILES benchmarks/requirements.txt benchmarks/best_known.json DESTINATION ${benchmark_folder} COMPONENT runtime)
install(DIRECTORY benchmarks/suites benchmarks/harness benchmarks/peers DESTINATION ${benchmark_folder}
  COMPONENT runtime USE_SOURCE_PERMISSIONS PATTERN __pycache__ EXCLUDE)
install(DIRECTORY benchmarks/pytorch/graphs DESTINATION ${benchmark_folder}/pytorch COMPONENT runtime)
file(RELATIVE_PATH bench_from_bin /${CMAKE_INSTALL_BINDIR} /${benchmark_folder}/run)
file(CREATE_LINK ${bench_from_bin} ${CMAKE_CURRENT_BINARY_DIR}/remora_bench SYMBOLIC)
install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/remora_bench DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "The Remora authors")
# Debian wants an address; who publishes packages gives a real one: -DCPACK_PACKAGE_CONTACT="NAME <ADDRESS>".
if(NOT CPACK_PACKAGE_CONTACT)
  set(CPACK_PACKAGE_CONTACT "The Remora authors <remora@localhost>")
endif()
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime library development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME remora)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION science)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Tensor rematerialization by constraint programming: the program")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library_package})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "Tensor rematerialization by constraint programming: the shared library")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libremora-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# Headers name pages of the documentation, which comes with the program.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS remora)
# CPACK_DEBIAN_PACKAGE_RELEASE tells the packages of one Debian from those of another (scripts/release).
set(package_version ${PROJECT_VERSION})
if(CPACK_DEBIAN_PACKAGE_RELEASE)
  string(APPEND package_version -${CPACK_DEBIAN_PACKAGE_RELEASE})
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library_package} (= ${package_version})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
  "Tensor rematerialization by constraint programming: headers for C and C++, CMake and pkg-config files")
if(TARGET remora_mlir)
  list(APPEND CPACK_COMPONENTS_ALL mlir)
  set(CPACK_DEBIAN_MLIR_PACKAGE_NAME remora-mlir)
  set(CPACK_DEBIAN_MLIR_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_MLIR_PACKAGE_DEPENDS mlir-19-tools)
  set(CPACK_COMPONENT_MLIR_DESCRIPTION "Tensor rematerialization by constraint programming: pass plugin for MLIR 19")
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/remora-mlir COMPONENT mlir RENAME copyright)
  install(FILES docs/develop/third_party.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/remora-mlir COMPONENT mlir)
endif()
include(CPack)
