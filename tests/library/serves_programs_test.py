# SPDX-License-Identifier: Apache-2.0
"""Builds examples/embed_cpp by find_package and examples/embed_c by pkg-config against the installed library, and runs them."""

import os
import pathlib
import sys
import tempfile

from installed import Installed, run, skip_under_sanitizers, version_of


def embed_cpp(installed, folder):
    build = folder / "embed_cpp"
    run(
        [
            "cmake",
            "-S",
            installed.source / "examples/embed_cpp",
            "-B",
            build,
            f"-DCMAKE_PREFIX_PATH={installed.prefix}",
            f"-DCMAKE_CXX_COMPILER={installed.cxx_compiler}",
        ]
    )
    run(["cmake", "--build", build])
    said = run([build / "embed_cpp"])
    assert "incumbent: overhead" in said and "(optimal)" in said and " again" in said, said
    assert said.count("\n") > 17, said  # 17 ops, some of them again
    said = run([build / "devices"])
    assert "copy layer" in said and "run layer0.grad on gpu" in said and "bytes on the GPU" in said, said


def without_exceptions(installed, folder):
    program = folder / "without_exceptions"
    run(
        [
            installed.cxx_compiler,
            "-std=c++17",
            "-fno-exceptions",
            "-fno-rtti",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            f"-I{installed.include}",
            installed.source / "examples/embed_cpp/without_exceptions.cpp",
            installed.library,
            f"-Wl,-rpath,{installed.library.parent}",
            "-o",
            program,
        ]
    )
    said = run([program])
    assert "overhead 20.00 %" in said and "a mistake: name: tensor 0 is already named 'a'" in said, said


def embed_c(installed, folder):
    environment = dict(os.environ, PKG_CONFIG_PATH=str(installed.library.parent / "pkgconfig"))
    flags = run(["pkg-config", "--cflags", "--libs", "remora"], env=environment).split()
    program = folder / "embed_c"
    run(
        [
            installed.c_compiler,
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            installed.source / "examples/embed_c/main.c",
            *flags,
            f"-Wl,-rpath,{installed.library.parent}",
            "-o",
            program,
        ]
    )
    said = run([program])
    assert "overhead 20.00 %" in said, said
    assert "\nlayer9, free" in said, said


def refuses_another_version(installed, folder):
    """Before version 1 a minor version may change the interface."""
    major, minor, _ = version_of(installed.source).split(".")
    (folder / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.16)\nproject(later LANGUAGES CXX)\nfind_package(remora {major}.{int(minor) + 1} CONFIG)\n"
        'if(remora_FOUND)\n  message(FATAL_ERROR "it passes for a later one")\nendif()\n',
        encoding="utf-8",
    )
    run(["cmake", "-S", folder, "-B", folder / "later", f"-DCMAKE_PREFIX_PATH={installed.prefix}"])


def refuses_a_component_that_it_lacks(installed, folder):
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(part LANGUAGES CXX)\n"
        "find_package(remora CONFIG COMPONENTS nonsense)\n"
        'if(remora_FOUND)\n  message(FATAL_ERROR "there is no nonsense")\nendif()\n',
        encoding="utf-8",
    )
    run(["cmake", "-S", folder, "-B", folder / "part", f"-DCMAKE_PREFIX_PATH={installed.prefix}"])


def main():
    skip_under_sanitizers()
    installed = Installed(sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        for check in (
            embed_cpp,
            without_exceptions,
            embed_c,
            refuses_another_version,
            refuses_a_component_that_it_lacks,
        ):
            check(installed, pathlib.Path(name))
            print("ok", check.__name__)


main()
