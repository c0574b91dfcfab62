# SPDX-License-Identifier: Apache-2.0
"""Numbers are read and written alike in a locale that has commas for points: by the program, by the C interface (setlocale)
and by the C++ interface (std::locale::global), byte for byte but for times."""

import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from installed import Installed, run, skip_under_sanitizers

HERE = pathlib.Path(__file__).parent / "numbers"
# Of the schedule and its history, of tables ("0.12 s", and as the first column).
TIMES = re.compile(
    rb'(?<="seconds": )[\d.e-]+|(?<="seconds" : )[\d.e-]+|(?<=\[)\d+\.\d+(?=, \d+, \d+, ")|\d+\.\d+(?= s\b)|^ *\d+\.\d\d(?=  )|(?<=,)\d[\d.e-]*(?=,\w*,$)',
    re.MULTILINE,
)
# LC_NUMERIC alone, for a machine without the sources of locales; the categories that it lacks are of "C".
COMMAS = 'LC_NUMERIC\ndecimal_point "<U002C>"\nthousands_sep "<U002E>"\ngrouping 3;3\nEND LC_NUMERIC\n'


def german(folder):
    """An environment with German numbers, made in the folder."""
    whole = ["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"]
    if subprocess.run(whole, capture_output=True, check=False).returncode > 1:
        (folder / "commas").write_text(COMMAS, encoding="ascii")
        subprocess.run(
            ["localedef", "-c", "-i", folder / "commas", folder / "de_DE.UTF-8"], capture_output=True, check=False
        )
    return {**os.environ, "LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8"}


def said(command, environment, folder):
    """What it prints, and every file that it writes, without times; its messages."""
    for path in folder.iterdir():
        path.unlink()
    done = subprocess.run(
        [str(word) for word in command], env=environment, cwd=folder, capture_output=True, check=False
    )
    assert done.returncode in (0, 64, 65), (command, done.returncode, done.stderr)
    files = {path.name: TIMES.sub(b"", path.read_bytes()) for path in sorted(folder.iterdir())}
    return done.returncode, TIMES.sub(b"", done.stdout), files, TIMES.sub(b"", done.stderr)


def expect_equal(before, after, what):
    """What is said and written in the two locales; shows where they differ."""
    if before == after:
        return
    texts = [repr(one).replace("\\n", "\n").splitlines() for one in (before, after)]
    raise AssertionError("\n".join([str(what), *difflib.unified_diff(*texts, "C", "commas", n=0, lineterm="")]))


def commands(installed, folder, data):
    """The program's commands with numbers in words, files and tables."""
    remora = installed.prefix / "bin/remora"
    limits = ["--work-limit", "20000", "--threads", "1"]
    graph, schedule = data / "graph.json", data / "schedule.json"
    yield [remora, "info", graph]
    yield [remora, "solve", graph, "--budget", "87.5%", "--gap", "0.5%", *limits, "-o", "s.json"]
    yield [remora, "solve", graph, "--budget", "0.8", *limits]
    yield [remora, "solve", graph, "--budget", "62,5%", *limits]
    yield [remora, "solve", graph, "--budget", "7.5MiB", "--time-limit", "1,5"]
    yield [
        remora,
        "sweep",
        graph,
        "--budgets",
        "87.5%:62.5%:12.5%",
        *limits,
        "-o",
        "c.json",
        "--csv",
        "c.csv",
        "--svg",
        "c.svg",
    ]
    yield [
        remora,
        "report",
        graph,
        schedule,
        "-o",
        "p.html",
        "--svg",
        "p.svg",
        "--table",
        "p.csv",
        "--text",
    ]
    yield [remora, "verify", graph, schedule]
    yield [remora, "order", graph, "--target", "62.5%", "--work-limit", "2000", "-o", "o.json"]
    yield [remora, "place", graph, schedule, "--work-limit", "2000", "-o", "a.json"]
    yield [remora, "info", graph, "--costs", data / "costs.csv"]
    yield [installed.prefix / "bin/remora_zoo", "unet", "--size", "32", "-o", "u.onnx"]


def main():
    skip_under_sanitizers()
    installed = Installed(sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        data, made, locales = (pathlib.Path(name) / part for part in ("data", "made", "locales"))
        for part in (data, made, locales):
            part.mkdir()
        plain, commas = {**os.environ, "LC_ALL": "C"}, german(locales)
        library = [installed.library, f"-Wl,-rpath,{installed.library.parent}"]
        run(
            [
                installed.c_compiler,
                "-std=c99",
                "-Wall",
                "-Wextra",
                "-Werror",
                f"-I{installed.include}",
                HERE / "main.c",
                *library,
                "-o",
                locales / "c",
            ]
        )
        run(
            [
                installed.cxx_compiler,
                "-std=c++20",
                "-Wall",
                "-Wextra",
                "-Werror",
                f"-I{installed.include}",
                HERE / "main.cpp",
                *library,
                "-o",
                locales / "c++",
            ]
        )

        in_c = [said([locales / "c", "."], environment, made) for environment in (plain, commas)]
        expect_equal(in_c[0][:3], in_c[1][:3], "C")
        assert (in_c[0][3], in_c[1][3]) == (b"0.5\n", b"0,5\n"), in_c[1][3]
        assert b"did you mean 80%" in in_c[0][1] and in_c[0][0] == 0, in_c[0]
        (data / "graph.json").write_bytes(in_c[0][2]["graph.json"])

        in_cxx = [
            said([locales / "c++", data / "graph.json", "."], environment, made) for environment in (plain, commas)
        ]
        expect_equal(in_cxx[0][:3], in_cxx[1][:3], "C++")
        assert (in_cxx[0][3], in_cxx[1][3]) == (b"1234.5\n", b"1.234,5\n"), in_cxx[1][3]
        run(
            [
                installed.prefix / "bin/remora",
                "solve",
                data / "graph.json",
                "-b",
                "87.5%",
                "--work-limit",
                "20000",
                "-q",
                "-o",
                data / "schedule.json",
            ]
        )
        (data / "costs.csv").write_text("op,duration\nlayer0,2.5\nlayer1,1234567.5\n", encoding="utf-8")
        count = 0
        for command in commands(installed, made, data):
            before, after = (said(command, environment, made) for environment in (plain, commas))
            expect_equal(before, after, command)
            count += 1
    print(f"{count} commands, two consumers")


main()
