# SPDX-License-Identifier: Apache-2.0
"""What a schedule and a sweep show: pages, pictures, tables, progress; and what the package imports for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy
import pytest
from conftest import ladder
from matplotlib import pyplot

import remora

mpl.use("Agg")


@pytest.fixture(scope="module")
def graph() -> remora.Graph:
    return ladder(10)


@pytest.fixture(scope="module")
def schedule(graph: remora.Graph) -> remora.Schedule:
    return remora.solve(graph, "70%", work_limit=5000)


@pytest.fixture(scope="module")
def curve(graph: remora.Graph) -> remora.Curve:
    return remora.sweep(graph, points=4, work_limit=5000)


def test_pages_stand_alone(schedule: remora.Schedule, curve: remora.Curve, tmp_path: Path) -> None:
    for thing in (schedule, curve):
        thing.report(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert page.startswith("<!DOCTYPE html>")
        assert "ladder" in page
        assert 'src="http' not in page


def test_notebooks_see_a_picture(schedule: remora.Schedule, curve: remora.Curve) -> None:
    for thing, words in ((schedule, "ops recomputed, peak"), (curve, "4 budgets, down to")):
        html = thing._repr_html_()
        assert "<svg" in html
        assert words in html
    named = ladder(3)
    named.name = "<script>"
    assert "<script>" not in remora.solve(named, "100%", time_limit=5)._repr_html_()


def test_plots(schedule: remora.Schedule, curve: remora.Curve) -> None:
    axes = schedule.plot()
    assert axes.get_ylabel() == "memory, KiB"
    drawn = numpy.asarray(axes.get_lines()[1].get_ydata())
    assert drawn.max() * 1024 == schedule.peak
    assert axes.get_ylim()[0] == 0
    axes = curve.plot()
    assert axes.get_lines()[0].get_drawstyle() == "steps-post"
    assert numpy.size(axes.get_lines()[0].get_xdata()) == sum(point.duration is not None for point in curve)
    figure = pyplot.figure()
    assert schedule.plot(figure.add_subplot()).figure is figure


def test_tables(schedule: remora.Schedule, curve: remora.Curve) -> None:
    frame = schedule.to_pandas()
    assert len(frame) == len(schedule)
    assert frame["memory"].max() == schedule.peak
    assert frame["duration"].sum() == schedule.duration
    assert frame["again"].sum() == sum(schedule.recomputes.values())
    table = curve.to_pandas()
    assert list(table["budget"]) == [point.budget for point in curve]
    assert len(curve.to_csv().splitlines()) == len(curve) + 1


def test_lines_for_people(schedule: remora.Schedule, curve: remora.Curve, graph: remora.Graph) -> None:
    assert "'ladder'" in repr(schedule)
    assert "overhead" in repr(schedule)
    assert "down to" in repr(curve)
    assert repr(graph) == "<Graph 'ladder': 20 ops, 20 tensors>"
    assert repr(graph.ops[0]) == "<Op 'f0', 10>"
    assert repr(graph.tensors[0]) == "<Tensor 't0', 1000 B>"


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=os.path.dirname(__file__),
        env=dict(os.environ, **environment),
    )
    assert done.returncode == 0, done.stderr
    return done


SOLVE = "import remora; from conftest import ladder; g = ladder(20); remora.solve(g, '60%', work_limit=5000{})"


def test_progress_in_a_log_is_lines() -> None:
    said = run(SOLVE.format(", progress=True")).stderr
    assert "overhead" in said
    assert "\r" not in said
    assert "\x1b" not in said
    assert run(SOLVE.format("")).stderr == ""
    assert "decided" in run("import remora; from conftest import ladder; remora.sweep(ladder(9), points=3, "
                            "work_limit=500, progress=True)").stderr  # fmt: skip


@pytest.mark.parametrize("hidden", ["", "tqdm"])
def test_progress_on_a_terminal_is_a_bar(hidden: str) -> None:
    code = f"""
import fcntl, os, pty, struct, sys, termios
if {hidden!r}: sys.modules[{hidden!r}] = sys.modules[{hidden!r} + ".auto"] = None
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    {SOLVE.format(", progress=True")}
    os._exit(0)
said = b""
while True:
    try:
        part = os.read(fd, 1000)
    except OSError:
        break
    if not part:
        break
    said += part
os.waitpid(pid, 0)
assert b"\\rsolve ladder" in said and b"overhead" in said, said
"""
    run(code)


def test_nothing_is_imported_that_is_not_used() -> None:
    run(
        "import sys, remora\n"
        "for name in 'matplotlib networkx numpy onnx onnxruntime pandas torch tqdm IPython'.split():\n"
        "    assert name not in sys.modules, name"
    )


def test_numbers_are_alike_in_every_locale(schedule: remora.Schedule, curve: remora.Curve, tmp_path: Path) -> None:
    commas = tmp_path / "commas"
    commas.write_text('LC_NUMERIC\ndecimal_point "<U002C>"\nthousands_sep "<U002E>"\ngrouping 3;3\nEND LC_NUMERIC\n')
    make = ["localedef", "-c", "-i", str(commas), str(tmp_path / "de")]
    if shutil.which("localedef") is None or subprocess.run(make, capture_output=True, check=False).returncode > 1:
        pytest.skip("no localedef here")
    schedule.graph.save(tmp_path / "graph.json")
    script = """
import locale, sys, remora
locale.setlocale(locale.LC_ALL, "")
print(locale.str(0.5), file=sys.stderr)
schedule = remora.solve(remora.Graph.load(sys.argv[1]), "70.5%", work_limit=5000, time_limit=1.5)
print(schedule, schedule._repr_html_(), remora.Graph.from_json(schedule.graph.to_json()) == schedule.graph)
for wrong in ("0.8", "70,5%"):
    try:
        remora.solve(schedule.graph, wrong)
    except remora.InputError as error:
        print(error)
"""
    said = [
        subprocess.run(
            [sys.executable, "-c", script, tmp_path / "graph.json"],
            env={**os.environ, "LOCPATH": str(tmp_path), "LC_ALL": name},
            capture_output=True,
            text=True,
            check=True,
        )
        for name in ("C", "de")
    ]
    assert (said[0].stderr, said[1].stderr) == ("0.5\n", "0,5\n")
    assert said[0].stdout == said[1].stdout
    assert "did you mean 80%?" in said[0].stdout
