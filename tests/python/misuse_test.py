# SPDX-License-Identifier: Apache-2.0
"""Random sequences of calls, right and wrong: each gives a value or an exception, and whatever is given is valid.

Each sequence has a seed of its own; `REMORA_SEQUENCES` says how many (10,000 where nobody says), `REMORA_SEED` which
comes first. Under AddressSanitizer (the dev preset) a read of what is not there ends the test.
"""

from __future__ import annotations

import os
import pickle
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

import remora

SEQUENCES = int(os.environ.get("REMORA_SEQUENCES", "10000"))
FIRST = int(os.environ.get("REMORA_SEED", "1"))
CALLS = 8
EXPECTED = (remora.Error, TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError, ZeroDivisionError)
JUNK: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 2**64, -(2**63), 1.5, float("nan"), float("inf"),
    "", "a", "x0", "op0", "\ud800", "\x00", "é" * 40, "60%", "0", "-5%", "12 parsecs", "1e9",
    '{"format": "remora-graph", "version": 1, "name": ""}', b"", b"a", b"\xff",
    (), [], {}, {"a": 1}, [None], [1, 2], [[]], [-1], ["op0", "op0"], {"format": "remora-graph"}, range(3), {1, 2},
    object(), len, type, Exception("x"), threading.Event(),
)  # fmt: skip


class Sequence:
    """Things made so far, and calls that use them or anything else."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.graphs = [self.small_graph(), remora.Graph("other")]
        self.schedules: list[remora.Schedule] = []
        self.curves: list[remora.Curve] = []
        self.done = 0
        self.refused = 0

    def small_graph(self) -> remora.Graph:
        graph = remora.Graph("g", fixed_memory=self.random.choice([0, 5]))
        outputs = [graph.tensor("x0", self.random.randint(0, 9))]
        for number in range(self.random.randint(0, 7)):
            read = self.random.sample(outputs, self.random.randint(0, min(3, len(outputs))))
            made = {f"t{number}_{place}": self.random.randint(0, 9) for place in range(self.random.randint(1, 2))}
            outputs += graph.op(
                f"op{number}",
                duration=self.random.randint(0, 5),
                inputs=read,
                outputs=made,
                workspace=self.random.randint(0, 3),
                keep=self.random.random() < 0.1,
                recompute=self.random.random() < 0.9,
            )
        return graph

    def junk(self) -> Any:
        return self.random.choice(JUNK)

    def any_of(self, things: list[Any]) -> Any:
        return self.random.choice(things) if things and self.random.random() < 0.85 else self.anything()

    def anything(self) -> Any:
        pools: list[Any] = [*self.graphs, *self.schedules[-3:], *self.curves[-2:]]
        for graph in self.graphs:
            pools += [*graph.ops[:3], *graph.tensors[:3]]
        return self.random.choice(pools) if self.random.random() < 0.4 else self.junk()

    def mixed(self, right: Any) -> Any:
        return right if self.random.random() < 0.8 else self.anything()

    def graph(self) -> Any:
        return self.any_of(self.graphs)

    def schedule(self) -> Any:
        return self.any_of(self.schedules)

    def limits(self) -> dict[str, Any]:
        limits: dict[str, Any] = {"work_limit": self.mixed(self.random.randint(1, 60)), "time_limit": 0.2, "threads": 1}
        for name, values in (
            ("order", ["input", "free", "auto"]),
            ("strategy", ["auto", "cp", "greedy", "none", "sqrt", "rotor"]),
            ("workers", ["local", "lns", "complete"]),
            ("max_computes", [1, 2, 3]),
            ("seed", [0, 7]),
        ):
            if self.random.random() < 0.25:
                limits[name] = self.mixed(self.random.choice(values))
        if limits.get("strategy") in ("greedy", "none", "sqrt", "rotor") and self.random.random() < 0.8:
            del limits["work_limit"]
        return limits

    def mode(self) -> Any:
        sizes = [self.random.randint(0, 9) for _ in range(self.random.randint(1, 2))]
        return self.mixed(remora.Mode(self.mixed(2), self.mixed(sizes), unread=self.mixed([]), inner=self.mixed([])))

    # The calls

    def call_op(self) -> Any:
        graph = self.graph()
        known = [*graph.tensors, *graph.ops] or [0]
        return graph.op(
            self.mixed(f"op{self.random.randint(0, 12)}"),
            duration=self.mixed(3),
            inputs=self.mixed([self.mixed(self.random.choice(known)) for _ in range(self.random.randint(0, 3))]),
            outputs=self.mixed({f"y{self.random.randint(0, 99)}": self.mixed(4)}),
            **({self.random.choice(["workspace", "type", "keep", "phase", "after", "modes"]): self.anything()}
               if self.random.random() < 0.3 else {}),
        )  # fmt: skip

    def call_tensor(self) -> Any:
        return self.graph().tensor(self.mixed(f"z{self.random.randint(0, 20)}"), self.mixed(8), keep=self.mixed(False))

    def call_change(self) -> None:
        graph = self.graph()
        thing = self.any_of([*graph.ops, *graph.tensors, graph])
        name = self.random.choice(
            ["size", "keep", "duration", "workspace", "recompute", "max_computes", "fixed_memory", "name", "meta"]
        )
        setattr(thing, name, self.mixed(2))
        self.any_of(list(graph.ops)).modes = self.mixed([self.mode()])

    def call_look(self) -> None:
        for thing in (self.anything(), self.graph(), self.schedule()):
            repr(thing)
            for name in ("producer", "users", "inputs", "outputs", "output", "baseline_peak", "steps", "memory",
                         "solver",
                         "residences", "recomputes", "certificate", "arena", "points", "knee"):  # fmt: skip
                getattr(thing, name, None)

    def call_solve(self) -> None:
        graph = self.graph()
        limits = self.limits()
        if self.random.random() < 0.2:
            limits["warm_start"] = self.schedule()
        if self.random.random() < 0.2:
            limits["on_incumbent"] = self.mixed(lambda schedule: schedule.peak < 0)
        if self.random.random() < 0.2:
            limits |= {"addresses": self.mixed(True), "alignment": self.mixed(2)}
        schedule = remora.solve(graph, self.mixed(self.random.choice(["60%", "80%", "100%", 20, 40])), **limits)
        assert remora.verify(graph, schedule)
        assert schedule.peak <= schedule.budget
        self.schedules.append(schedule)

    def call_place(self) -> None:
        what = self.schedule()
        if self.random.random() < 0.5:
            what = [
                remora.Buffer(
                    self.mixed(f"b{number}"),
                    self.mixed(self.random.randint(0, 4)),
                    self.mixed(self.random.randint(4, 9)),
                    self.mixed(self.random.randint(0, 9)),
                    self.mixed(self.random.randint(1, 2)),
                    self.mixed(None),
                    self.mixed([]),
                )
                for number in range(self.random.randint(0, 3))
            ]
        limits = {"work_limit": self.mixed(20), "time_limit": 0.2, "threads": 1, "capacity": self.mixed(None)}
        found = remora.place(self.mixed(what), alignment=self.mixed(1), **limits)
        assert found.arena >= found.bound or not found
        if found.schedule is not None:
            self.schedules.append(found.schedule)

    def call_sweep(self) -> None:
        curve = remora.sweep(self.graph(), points=self.mixed(3), **self.limits())
        for point in curve:
            assert point.schedule is None or remora.verify(curve.graph, point.schedule)
        self.curves.append(curve)

    def call_order(self) -> None:
        found = remora.order(self.graph(), work_limit=self.mixed(50), threads=1, time_limit=0.2)
        self.graphs.append(found.apply())

    def call_bounds(self) -> None:
        remora.bounds(self.graph(), self.mixed("70%"))

    def call_evaluate(self) -> None:
        graph = self.graph()
        ops = list(range(len(graph)))
        ops += self.random.choices(ops, k=2) if ops and self.random.random() < 0.5 else []
        self.schedules.append(remora.evaluate(graph, self.mixed(ops), order=self.mixed("free"), max_computes=3))

    def call_verify(self) -> None:
        remora.verify(self.graph(), self.schedule())

    def call_show(self) -> None:
        thing = self.any_of([*self.schedules, *self.curves])
        getattr(thing, self.random.choice(["_repr_html_", "svg", "to_csv", "to_json", "to_networkx", "to_pandas"]))()

    def call_read(self) -> None:
        text = self.anything()
        if self.random.random() < 0.7:
            text = self.any_of([*self.graphs, *self.schedules]).to_json()
            cut = self.random.randrange(len(text))
            text = (
                text
                if self.random.random() < 0.3
                else text[:cut] + self.random.choice(["", "0", '"']) + text[cut + 1 :]
            )
        if self.random.random() < 0.5:
            self.graphs.append(remora.Graph.from_json(text))
        else:
            self.schedules.append(remora.Schedule.from_json(text, self.graph()))

    def call_copy(self) -> None:
        self.graphs.append(pickle.loads(pickle.dumps(self.graph())))

    def call_engine(self) -> None:
        """Below the package, too: unknown numbers are refused."""
        core = self.graph()._core
        number = self.random.choice([-(2**31), -1, 0, 1, 5, 10**6, 2**31 - 1])
        names = [name for name in dir(core) if not name.startswith("_")]
        call: Callable[..., Any] = getattr(core, self.random.choice(names))
        call(*[self.random.choice([number, "q", [number], None, core]) for _ in range(self.random.randint(0, 3))])

    def run(self) -> None:
        calls = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("call_")]
        for _ in range(CALLS):
            try:
                self.random.choice(calls)()
                self.done += 1
            except EXPECTED:
                self.refused += 1


def test_every_call_gives_a_value_or_an_exception() -> None:
    done = refused = 0
    for seed in range(FIRST, FIRST + SEQUENCES):
        sequence = Sequence(seed)
        try:
            sequence.run()
        except BaseException as error:
            pytest.fail(f"seed {seed}: {error!r}")
        done += sequence.done
        refused += sequence.refused
    # Both kinds, in numbers.
    assert done > SEQUENCES
    assert refused > SEQUENCES
