# SPDX-License-Identifier: Apache-2.0
"""Every installed header compiles alone, and needs the standard library and the other installed headers only."""
import re
import sys

from installed import Installed, run, skip_under_sanitizers

INSIDE = re.compile(r"gecode|tbb|nlohmann|boost|onnx|coin/|openssl", re.IGNORECASE)


def check_header(compiler, language, header, include):
    command = [compiler, *language, "-I", include, "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
               "-include", header, "-x", "c" if "c99" in language[0] else "c++", "/dev/null",
               "-MD", "-MF", "/dev/stdout"]
    read = run(command).replace("\\\n", " ").split()
    assert str(header) in read, f"the compiler did not say what {header} includes"
    assert not (inside := [path for path in read if INSIDE.search(path)]), f"{header} includes {inside}"


def main():
    skip_under_sanitizers()
    installed = Installed(sys.argv[1:])
    # remora/mlir is for the plugin's hosts: it needs MLIR.
    headers = sorted(path for path in (installed.include / "remora").rglob("*.hpp") if path.parent.name != "mlir")
    assert len(headers) > 15 and installed.include / "remora/remora.hpp" in headers, headers
    for header in headers:
        check_header(installed.cxx_compiler, ["-std=c++20"], header, installed.include)
    check_header(installed.cxx_compiler, ["-std=c++11"], installed.include / "remora.h", installed.include)
    check_header(installed.c_compiler, ["-std=c99"], installed.include / "remora.h", installed.include)
    print(f"{len(headers) + 1} headers")


main()
