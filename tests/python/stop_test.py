# SPDX-License-Identifier: Apache-2.0
"""Callbacks, cancellation, Ctrl-C, and other threads meanwhile."""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import ladder

import remora


def test_callbacks_tell_of_every_better_schedule(deep: remora.Graph) -> None:
    found: list[remora.Schedule] = []
    news: list[remora.Progress] = []
    caller = threading.get_ident()

    def incumbent(schedule: remora.Schedule) -> None:
        assert threading.get_ident() == caller
        assert remora.verify(deep, schedule)
        found.append(schedule)

    schedule = remora.solve(deep, "60%", work_limit=20000, on_incumbent=incumbent, progress=news.append)
    durations = [one.duration for one in found]
    assert durations == sorted(durations, reverse=True)
    assert durations[-1] == schedule.duration
    assert {one.phase for one in news} == {1, 2}
    assert news[-1].bound <= schedule.duration


def test_callbacks_change_nothing(deep: remora.Graph) -> None:
    silent = remora.solve(deep, "60%", work_limit=10000, seed=3)
    told = remora.solve(deep, "60%", work_limit=10000, seed=3, on_incumbent=lambda _: None, progress=lambda _: None)
    assert silent.steps == told.steps


def test_a_callback_ends_the_search(deep: remora.Graph) -> None:
    schedule = remora.solve(deep, "60%", time_limit=300, on_incumbent=lambda _: True)
    assert schedule.status in ("feasible", "optimal")
    assert schedule.solver["seconds"] < 200


def test_an_exception_of_a_callback_comes_out(deep: remora.Graph) -> None:
    class Wrong(Exception):
        schedule: remora.Schedule

    def incumbent(_: remora.Schedule) -> None:
        raise Wrong("no more")

    with pytest.raises(Wrong, match="no more") as caught:
        remora.solve(deep, "60%", time_limit=300, on_incumbent=incumbent)
    assert remora.verify(deep, caught.value.schedule)


def test_an_event_stops_it_from_another_thread(deep: remora.Graph) -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    schedule = remora.solve(deep, "45%", time_limit=300, workers="local", stop=stop)
    assert remora.verify(deep, schedule)
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    assert remora.sweep(deep, time_limit=300, stop=stop).seconds < 200
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    bracket = remora.least_budget(deep, time_limit=1e6, stop=stop)
    assert bracket.proved <= bracket.reached


def test_other_threads_run_meanwhile(deep: remora.Graph) -> None:
    turns = 0
    done = threading.Event()

    def count() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    remora.solve(deep, "45%", workers="local", time_limit=1)
    done.set()
    thread.join()
    assert turns > 20


def test_solves_in_threads_know_nothing_of_each_other() -> None:
    graphs = [ladder(8), ladder(14)]
    alone = [remora.solve(graph, "65%", work_limit=5000).steps for graph in graphs]
    together: list[object] = [None, None]

    def work(index: int) -> None:
        together[index] = remora.solve(graphs[index], "65%", work_limit=5000).steps

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_ctrl_c_raises_with_the_best_schedule(deep: remora.Graph) -> None:
    first = threading.Event()

    def interrupt() -> None:
        first.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        remora.solve(deep, "45%", time_limit=300, workers="local", on_incumbent=lambda _: first.set())
    thread.join()
    schedule = caught.value.schedule  # type: ignore[attr-defined]
    assert remora.verify(deep, schedule)
    # What comes after is as if nothing had been.
    assert remora.solve(deep, "100%", time_limit=5)


def test_ctrl_c_before_anything_was_found(deep: remora.Graph) -> None:
    def at_once(_: remora.Progress) -> None:
        _thread.interrupt_main()

    with pytest.raises(KeyboardInterrupt) as caught:
        remora.solve(deep, "45%", time_limit=300, workers="local", progress=at_once)
    assert hasattr(caught.value, "schedule")


@pytest.mark.parametrize("call", ["sweep(g, time_limit=300)", "least_budget(g, time_limit=300)"])
def test_ctrl_c_ends_the_other_calls(call: str) -> None:
    code = f"""
import os, signal, sys, threading
from conftest import ladder
import remora
g = ladder(60)
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    remora.{call}
except KeyboardInterrupt:
    sys.exit(7)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=120, cwd=os.path.dirname(__file__))
    assert done.returncode == 7
