# SPDX-License-Identifier: Apache-2.0
"""A project that builds Remora as a part of itself (add_subdirectory, as FetchContent does) has its headers and its targets.

The project's own source is compiled; Remora is configured, but not built once more.
"""

import pathlib
import sys
import tempfile

from installed import run, skip_under_sanitizers

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(outer LANGUAGES C CXX)
add_subdirectory("{source}" remora EXCLUDE_FROM_ALL)
add_library(mine OBJECT mine.cpp)
target_link_libraries(mine PRIVATE remora::{target})
if(TARGET remora OR TARGET engine_tests)
  message(FATAL_ERROR "the program and the tests are no part of a library")
endif()
"""
SOURCE = """#include <remora.h>
#include <remora/remora.hpp>
#if __has_include("model/graph.hpp")
#error "headers of the source tree are in sight"
#endif
int main() { return static_cast<int>(remora::Graph().ops.size()); }
"""


def main():
    skip_under_sanitizers()
    _, source, c_compiler, cxx_compiler = sys.argv[1:]
    for target in ("remora", "static"):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "CMakeLists.txt").write_text(PROJECT.format(source=source, target=target), encoding="utf-8")
            (folder / "mine.cpp").write_text(SOURCE, encoding="utf-8")
            run(
                [
                    "cmake",
                    "-S",
                    folder,
                    "-B",
                    folder / "build",
                    f"-DCMAKE_C_COMPILER={c_compiler}",
                    f"-DCMAKE_CXX_COMPILER={cxx_compiler}",
                ]
            )
            objects = "CMakeFiles/mine.dir/mine.cpp.o"
            run(["make", "-C", folder / "build", "-f", "CMakeFiles/mine.dir/build.make", objects])
            assert (folder / "build" / objects).exists()
            told = run(["cmake", "--build", folder / "build", "--target", "help"])
            assert "remora_shared" in told and "remora_static" in told and "engine_tests" not in told, told


main()
