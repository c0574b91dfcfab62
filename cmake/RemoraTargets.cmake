# SPDX-License-Identifier: Apache-2.0
# What every target of the project has in common: include root, warnings, sanitizers, ccache, batches.

# With the project's folder as its base, ccache knows an object again in another clone. GCC is called by one name, since that is
# part of ccache's key: CMake finds it as c++, pip as g++ or as something longer. (clang++ by another name is another compiler.)
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(settings CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    file(REAL_PATH ${CMAKE_CXX_COMPILER} compiler)
    list(APPEND settings CCACHE_COMPILER=${compiler})
    # The order of the flags is, too, and versions of CMake put the standard's at different places.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${CMAKE_CXX20_STANDARD_COMPILE_OPTION}>)
    set(CMAKE_CXX20_STANDARD_COMPILE_OPTION "")
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${settings} ${CCACHE_PROGRAM})
endif()
set(REMORA_BATCH 32 CACHE STRING "So many sources of a target compile as one; 1: each by itself")

# remora_batches(OUTPUT TARGET SOURCES...): up to REMORA_BATCH sources become one that includes them: headers, and
# templates that many sources instantiate alike, are much of a compilation. So two sources of a target may not give one
# name to two things, not even in an unnamed namespace. What the build itself writes, and what says `using namespace`,
# compiles alone. (CMake's UNITY_BUILD includes by absolute paths, by which ccache and __FILE__ would know each clone as
# different.)
function(remora_batches output target)
  set(outputs)
  set(together)
  foreach(source IN LISTS ARGN)
    get_filename_component(source ${source} ABSOLUTE)
    string(FIND ${source} ${PROJECT_BINARY_DIR}/ built)
    set(alone)
    if(NOT built EQUAL 0)
      file(STRINGS ${source} alone REGEX "^ *using namespace")
    endif()
    if(built EQUAL 0 OR alone)
      list(APPEND outputs ${source})
    else()
      list(APPEND together ${source})
    endif()
  endforeach()
  list(LENGTH together left)
  math(EXPR batches "(${left} + ${REMORA_BATCH} - 1) / ${REMORA_BATCH}")
  set(batch 0)
  while(batch LESS batches)
    # Even shares of what is left.
    math(EXPR size "(${left} + ${batches} - ${batch} - 1) / (${batches} - ${batch})")
    math(EXPR left "${left} - ${size}")
    math(EXPR batch "${batch} + 1")
    if(size EQUAL 1)
      list(POP_FRONT together source)
      list(APPEND outputs ${source})
      continue()
    endif()
    set(text "// Written by the build.\n")
    foreach(_ RANGE 1 ${size})
      list(POP_FRONT together source)
      file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${source})
      string(APPEND text "#include \"${path}\"\n")
    endforeach()
    set(file ${CMAKE_CURRENT_BINARY_DIR}/batches/${target}_${batch}.cpp)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    # GCC takes what a batch includes for a header, whose types should not hold those of an unnamed namespace.
    set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    list(APPEND outputs ${file})
  endwhile()
  set(${output} ${outputs} PARENT_SCOPE)
endfunction()

function(remora_configure target)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow
    # GCC 12 sees overlaps in std::string that are not there (GCC bug 105651).
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
    # GCC collects garbage from 128 MiB on, a twentieth of its time; few batches take more than 512.
    $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=524288>)
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
  remora_batches(sources ${name} ${ARGN})
  add_library(remora_${name} STATIC ${sources})
  add_library(remora::${name} ALIAS remora_${name})
  remora_configure(remora_${name})
endfunction()

# remora_runs_once(TARGET): its own code is nothing that a run waits for (options, messages, pages, files): -O1 compiles
# in three quarters of -O2's time.
function(remora_runs_once target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# remora_stays_loaded(TARGET): dlclose leaves the shared object, and with it the TBB that it needs, in memory. TBB's
# workers outlive the last task by a moment; where TBB is unmapped under them the process dies (oneTBB issue 977).
function(remora_stays_loaded target)
  target_link_options(${target} PRIVATE LINKER:-z,nodelete)
endfunction()

set(REMORA_TESTS "" CACHE STRING "Test programs to build and run, for example cp_tests;onnx_tests; empty: all")
# Builds them, and what they need, alone.
add_custom_target(remora_tests)

# remora_test(NAME LIBRARIES SOURCES...): one GoogleTest program, which CTest runs in four parts: NAME.1 to NAME.4.
function(remora_test name libraries)
  remora_batches(sources ${name} ${ARGN})
  add_executable(${name} ${sources})
  remora_configure(${name})
  target_link_libraries(${name} PRIVATE ${libraries} GTest::gtest GTest::gtest_main)
  # The time of a clean build is dear, that of the test's own code is not.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release,Debug>:-O0>)
  if(REMORA_TESTS AND NOT ${name} IN_LIST REMORA_TESTS)
    return()
  endif()
  add_dependencies(remora_tests ${name})
  foreach(part RANGE 1 4)
    math(EXPR index "${part} - 1")
    add_test(NAME ${name}.${part} COMMAND ${name})
    set_tests_properties(${name}.${part} PROPERTIES ENVIRONMENT "GTEST_TOTAL_SHARDS=4;GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()
