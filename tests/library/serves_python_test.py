# SPDX-License-Identifier: Apache-2.0
"""The C interface from Python's ctypes: a graph by calls, incumbents, a warm start, errors, two threads."""

import _ctypes
import ctypes
import json
import pathlib
import sys
import tempfile
import threading

from installed import Installed, skip_under_sanitizers, version_of

OK, BAD_INPUT = 0, 1
OPTIMAL, FEASIBLE, INFEASIBLE = 0, 1, 2


class Progress(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("seconds", ctypes.c_double),
        ("phase", ctypes.c_int32),
        ("duration", ctypes.c_int64),
        ("peak", ctypes.c_int64),
        ("lower_bound", ctypes.c_int64),
        ("work", ctypes.c_int64),
        ("source", ctypes.c_char_p),
        ("event", ctypes.c_int32),
        ("budget", ctypes.c_int64),
    ]


ON_PROGRESS = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Progress))
ON_INCUMBENT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Callbacks(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("context", ctypes.c_void_p),
        ("progress", ON_PROGRESS),
        ("incumbent", ON_INCUMBENT),
        ("stop", ctypes.c_void_p),
        ("heartbeat", ON_PROGRESS),
    ]

    def __init__(self, **given):
        super().__init__(size=ctypes.sizeof(Callbacks), **given)


class Remora:
    """The functions with their types; a status that is not OK is raised as the last error's text."""

    RESULTS = {
        "version": ctypes.c_char_p,
        "last_error": ctypes.c_char_p,
        "schedule_duration": ctypes.c_int64,
        "schedule_peak": ctypes.c_int64,
        "schedule_step_count": ctypes.c_size_t,
        "instance_budget": ctypes.c_int64,
        "instance_baseline_peak": ctypes.c_int64,
        "option_name": ctypes.c_char_p,
        "text_free": None,
    }

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))

    def __getattr__(self, name):
        function = getattr(self.library, "remora_" + name)
        function.restype = self.RESULTS.get(name, ctypes.c_int32)
        return function

    def call(self, name, *arguments):
        if getattr(self, name)(*arguments) != OK:
            raise ValueError(self.last_error().decode())

    def make(self, name, *arguments):
        made = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(made))
        return made

    def text(self, name, *arguments):
        made = self.make(name, *arguments)
        try:
            return ctypes.string_at(made).decode()
        finally:
            self.text_free(made)


def chain(remora, layers=12):
    """Layers whose outputs the layers of a way back read in reverse order."""
    graph = remora.make("graph_new", b"chain")
    outputs = []
    for index in range(2 * layers):
        tensor = ctypes.c_int32()
        remora.call("graph_add_tensor", graph, b"t%d" % index, ctypes.c_int64(1000), 0, ctypes.byref(tensor))
        read = [outputs[-1]] if outputs else []
        if index >= layers:
            read.append(outputs[2 * layers - 1 - index])
        read = sorted(set(read))
        remora.call(
            "graph_add_op",
            graph,
            b"f%d" % index,
            ctypes.c_int64(10),
            (ctypes.c_int32 * len(read))(*read),
            ctypes.c_size_t(len(read)),
            ctypes.byref(tensor),
            ctypes.c_size_t(1),
            None,
        )
        outputs.append(tensor.value)
    return graph


def solve(remora, graph, budget, work=b"20000", callbacks=None, warm_start=None):
    instance = remora.make("instance_new", graph, budget, 2, 0)
    options = remora.make("options_new")
    for name, value in ((b"work-limit", work), (b"threads", b"1")):
        remora.call("options_set", options, name, value)
    schedule = remora.make("solve", instance, options, ctypes.byref(callbacks) if callbacks else None, warm_start)
    remora.options_free(options)
    remora.instance_free(instance)
    return schedule


def check_valid(remora, graph, schedule):
    valid = ctypes.c_int()
    remora.call("schedule_verify", schedule, graph, ctypes.byref(valid), None)
    assert valid.value == 1


def steps(remora, schedule):
    return [remora.schedule_step_op(schedule, ctypes.c_size_t(i)) for i in range(remora.schedule_step_count(schedule))]


def solves_a_graph_built_by_calls(remora):
    graph = chain(remora)
    seen, incumbents = [], []

    def on_progress(_, progress):
        seen.append((progress.contents.phase, progress.contents.duration))
        return 0

    def on_incumbent(_, schedule):
        schedule = ctypes.c_void_p(schedule)
        check_valid(remora, graph, schedule)
        incumbents.append(remora.schedule_duration(schedule))

    callbacks = Callbacks(progress=ON_PROGRESS(on_progress), incumbent=ON_INCUMBENT(on_incumbent))
    schedule = solve(remora, graph, b"60%", callbacks=callbacks)
    assert remora.schedule_result(schedule) in (OPTIMAL, FEASIBLE)
    check_valid(remora, graph, schedule)
    assert seen and incumbents == sorted(incumbents, reverse=True), incumbents
    assert incumbents[-1] == remora.schedule_duration(schedule)
    text = json.loads(remora.text("schedule_text", schedule, graph))
    assert text["format"] == "remora-schedule" and len(text["steps"]) == len(steps(remora, schedule))

    again = solve(remora, graph, b"60%", work=b"1", warm_start=schedule)
    assert remora.schedule_duration(again) == remora.schedule_duration(schedule)
    remora.schedule_free(again)
    remora.schedule_free(schedule)
    remora.graph_free(graph)


def files_come_back_as_they_were_written(remora):
    graph = chain(remora)
    schedule = solve(remora, graph, b"70%")
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(pathlib.Path(folder) / name).encode() for name in ("graph.json", "schedule.json")]
        remora.call("graph_write", graph, paths[0])
        remora.call("schedule_write", schedule, graph, paths[1])
        read = remora.make("graph_read", paths[0])
        same = remora.make("schedule_read", read, paths[1])
        assert steps(remora, same) == steps(remora, schedule)
        check_valid(remora, read, same)
        for handle in (schedule, same):
            remora.schedule_free(handle)
    remora.graph_free(read)
    remora.graph_free(graph)


def infeasible_is_a_result(remora):
    graph = chain(remora)
    schedule = solve(remora, graph, b"1500")
    assert remora.schedule_result(schedule) == INFEASIBLE and steps(remora, schedule) == []
    remora.schedule_free(schedule)
    remora.graph_free(graph)


def errors_say_what_and_where(remora):
    graph = chain(remora)
    for call, words in (
        (lambda: remora.make("instance_new", graph, b"12 parsecs", 2, 0), "12 parsecs"),
        (lambda: remora.make("instance_new", None, b"80%", 2, 0), "graph: is NULL"),
        (lambda: remora.make("instance_new", graph, b"80%", 2, 9), "9 is not one of remora_order"),
        (lambda: remora.call("graph_set_workspace", graph, 99, ctypes.c_int64(1)), "op: there is no op 99"),
        (lambda: remora.make("graph_read", b"/nowhere/graph.json"), "/nowhere/graph.json"),
        (lambda: remora.make("graph_parse", b"{", ctypes.c_size_t(1)), "line 1"),
    ):
        try:
            call()
        except ValueError as error:
            assert words in str(error) and "\n" not in str(error), error
        else:
            raise AssertionError(words + ": accepted")
    remora.graph_free(graph)
    for free in ("graph_free", "instance_free", "options_free", "schedule_free", "stop_free", "text_free"):
        getattr(remora, free)(None)


def a_stop_ends_a_solve(remora):
    graph = chain(remora)
    stop = remora.make("stop_new")
    remora.stop_request(stop)
    schedule = solve(remora, graph, b"60%", work=b"1000000000", callbacks=Callbacks(stop=stop))
    assert remora.schedule_result(schedule) in (OPTIMAL, FEASIBLE, 3)
    remora.schedule_free(schedule)
    remora.stop_free(stop)
    remora.graph_free(graph)


def threads_know_nothing_of_each_other(remora):
    graphs = [chain(remora, layers) for layers in (8, 14)]
    alone = [steps(remora, solve(remora, graph, b"65%")) for graph in graphs]
    together = [None, None]

    def work(index):
        together[index] = steps(remora, solve(remora, graphs[index], b"65%"))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def closing_leaves_it_in_memory(remora):
    """TBB's workers may still be leaving: unmapped under them the process would die (oneTBB issue 977)."""
    _ctypes.dlclose(remora.library._handle)
    mapped = pathlib.Path("/proc/self/maps").read_text()
    assert "/libremora.so" in mapped and "/libtbb" in mapped, mapped


def main():
    skip_under_sanitizers()
    installed = Installed(sys.argv[1:])
    remora = Remora(installed.library)
    assert remora.version().decode() == version_of(installed.source)
    names = []
    while (name := remora.option_name(ctypes.c_size_t(len(names)))) is not None:
        names.append(name.decode())
    assert {"strategy", "time_limit", "seed"} <= set(names), names
    for check in (
        solves_a_graph_built_by_calls,
        files_come_back_as_they_were_written,
        infeasible_is_a_result,
        errors_say_what_and_where,
        a_stop_ends_a_solve,
        threads_know_nothing_of_each_other,
        closing_leaves_it_in_memory,
    ):
        check(remora)
        print("ok", check.__name__)


main()
