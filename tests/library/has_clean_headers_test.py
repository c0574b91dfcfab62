# SPDX-License-Identifier: Apache-2.0
"""Installed headers compile alone, and need the standard library and the other installed headers only: a quarter of those of
C++, another one whenever one of them changes, or all of them with REMORA_ALL_CASES=1, and what C and other programs see."""

import os
import random
import re
import sys

from installed import Installed, run, skip_under_sanitizers

INSIDE = re.compile(r"gecode|tbb|nlohmann|boost|onnx|coin/|openssl", re.IGNORECASE)


def check_header(compiler, language, header, include):
    command = [
        compiler,
        *language,
        "-I",
        include,
        "-fsyntax-only",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-include",
        header,
        "-x",
        "c" if "c99" in language[0] else "c++",
        "/dev/null",
        "-MD",
        "-MF",
        "/dev/stdout",
    ]
    read = run(command).replace("\\\n", " ").split()
    assert str(header) in read, f"the compiler did not say what {header} includes"
    assert not (inside := [path for path in read if INSIDE.search(path)]), f"{header} includes {inside}"


def check_references(header, installed):
    """Files that a header's comments name are there for whoever reads it: headers, or documentation."""
    text = header.read_text(encoding="utf-8")
    names = {path.name for path in installed.include.rglob("*") if path.is_file()}
    for name in re.findall(r"(?<![\w/<.])\w+\.(?:hpp|h|def|cpp|py)\b", text):
        assert name in names, f"{header}: {name} is not installed"
    for place in re.findall(
        r"(?<![\w/])((?:model|engine|frontends|formats|docs|examples|tests|scripts|benchmarks)/[\w./]*\w)", text
    ):
        homes = (installed.include / "remora" / place, installed.prefix / "share/doc/remora" / place)
        assert any(home.exists() for home in homes), f"{header}: {place} is not installed"


def check_names(headers):
    """What a C header's text calls remora_* or REMORA_* is declared in one of them."""
    texts = [header.read_text(encoding="utf-8") for header in headers]
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", "".join(texts), flags=re.DOTALL)
    known = set(re.findall(r"\b(?:remora|REMORA)_\w+", code))
    for header, text in zip(headers, texts, strict=True):
        for name in re.findall(r"\b(?:remora|REMORA)_\w+(?![\w*.])", text):
            assert name in known, f"{header}: {name} is nowhere declared"


def main():
    skip_under_sanitizers()
    installed = Installed(sys.argv[1:])
    # remora/mlir is for the plugin's hosts: it needs MLIR.
    headers = sorted(path for path in (installed.include / "remora").rglob("*.hpp") if path.parent.name != "mlir")
    assert len(headers) > 15 and installed.include / "remora/remora.hpp" in headers, headers
    chosen = headers
    if not os.environ.get("REMORA_ALL_CASES"):
        draw = random.Random(sum(header.stat().st_size for header in headers))
        chosen = [installed.include / "remora/remora.hpp", *draw.sample(headers, len(headers) // 4)]
    for header in chosen:
        check_header(installed.cxx_compiler, ["-std=c++20"], header, installed.include)
    for name in ("remora.h", "remora_devices.h"):
        check_header(installed.cxx_compiler, ["-std=c++11"], installed.include / name, installed.include)
        check_header(installed.c_compiler, ["-std=c99"], installed.include / name, installed.include)
    check_header(
        installed.cxx_compiler,
        ["-std=c++17", "-fno-exceptions", "-fno-rtti"],
        installed.include / "remora_c.hpp",
        installed.include,
    )
    everything = headers + [installed.include / name for name in ("remora.h", "remora_devices.h", "remora_c.hpp")]
    for header in [*everything, *(installed.include / "remora").rglob("*.def")]:
        check_references(header, installed)
    check_names([installed.include / name for name in ("remora.h", "remora_devices.h", "remora_c.hpp")])
    print(f"{len(everything)} headers, of C++ {len(chosen)} compiled alone: {' '.join(path.name for path in chosen)}")


main()
