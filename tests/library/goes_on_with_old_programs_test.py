# SPDX-License-Identifier: Apache-2.0
"""A program that was built with the C interface of 2026-11-22 (yesterday/) runs with the library of today, whose structs have
grown since; and today's header still declares all that it called."""

import os
import pathlib
import re
import sys
import tempfile

from installed import Installed, run, skip_under_sanitizers

HERE = pathlib.Path(__file__).parent / "yesterday"


def fields(header, struct):
    body = re.search(r"typedef struct %s \{(.*?)\} %s;" % (struct, struct), header, re.DOTALL)[1]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
    return [" ".join(line.split()) for line in body.split(";") if line.strip()]


def functions(header):
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    return {" ".join(text.split()) for text in re.findall(r"REMORA_EXPORT ([^;]*?\));", header)}


def grows_at_the_end(old, new):
    for struct in ("remora_progress", "remora_callbacks"):
        before, now = fields(old, struct), fields(new, struct)
        assert now[: len(before)] == before, f"{struct} is another: {before} {now}"
        assert len(now) > len(before), f"{struct} has not grown: this test shows nothing"


def main():
    skip_under_sanitizers()
    installed = Installed(sys.argv[1:])
    old, new = (path.read_text(encoding="utf-8") for path in (HERE / "remora.h", installed.include / "remora.h"))
    grows_at_the_end(old, new)
    assert not (gone := functions(old) - functions(new)), gone
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "yesterday")
        run(
            [
                installed.c_compiler,
                "-std=c99",
                "-Wall",
                "-Wextra",
                "-Werror",
                f"-I{HERE}",
                HERE / "main.c",
                installed.library,
                f"-Wl,-rpath,{installed.library.parent}",
                "-o",
                program,
            ]
        )
        print(run([program]).strip())
    print(f"{len(functions(old))} functions of then, {len(functions(new))} now")


main()
