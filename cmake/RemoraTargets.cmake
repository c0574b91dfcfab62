# SPDX-License-Identifier: Apache-2.0
# What every target of the project has in common: include root, warnings, sanitizers, ccache.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

function(remora_configure target)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
    # GCC 12 sees overlaps in std::string that are not there (GCC bug 105651).
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
  if(REMORA_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(REMORA_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${REMORA_SANITIZE} -fno-omit-frame-pointer
      -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${REMORA_SANITIZE})
  endif()
endfunction()

# remora_library(NAME SOURCES...): the library remora_NAME with the alias remora::NAME.
function(remora_library name)
  add_library(remora_${name} STATIC ${ARGN})
  add_library(remora::${name} ALIAS remora_${name})
  remora_configure(remora_${name})
endfunction()

# remora_stays_loaded(TARGET): dlclose leaves the shared object, and with it the TBB that it needs, in memory. TBB's
# workers outlive the last task by a moment; where TBB is unmapped under them the process dies (oneTBB issue 977).
function(remora_stays_loaded target)
  target_link_options(${target} PRIVATE LINKER:-z,nodelete)
endfunction()

# remora_test(NAME LIBRARIES SOURCES...): one GoogleTest program, its cases found by CTest.
function(remora_test name libraries)
  add_executable(${name} ${ARGN})
  remora_configure(${name})
  target_link_libraries(${name} PRIVATE ${libraries} GTest::gtest GTest::gtest_main)
  # The time of a clean build is dear, that of the test's own code is not.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release,Debug>:-O0>)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)
endfunction()
