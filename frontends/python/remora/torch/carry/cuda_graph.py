# SPDX-License-Identifier: Apache-2.0
"""A program as a CUDA graph: the kernels of a step are launched at once, not one by one.

A graph reads and writes the same addresses each time. So the memory that the step takes stays reserved between steps;
arguments that lie elsewhere than when it was recorded are copied, or it is recorded anew; and while a result of the
last step is still in use, the program runs op by op, lest the next step writes over it.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ..measure import allocated

Run = Callable[[list[Any]], list[Any]]
SMALL = 1 << 20
"""Results of up to so many bytes, as a loss, are copied: users keep them."""
RECORDINGS = 4
"""So often a program is recorded before it runs op by op for good."""


def recorded_on_gpu(run: Run, given: list[Any]) -> tuple[Callable[[], None], list[Any], int]:
    """Records a program with these arguments; nothing runs yet.

    Returns a function that launches it, its results, and the bytes that it takes beyond its arguments, as requested.
    """
    device = next(a.device for a in given if isinstance(a, torch.Tensor))
    stream = _stream(device)  # its workspace is no part of the step

    def recorded() -> tuple[Callable[[], None], list[Any]]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            results = run(given)
        return graph.replay, results

    with torch.cuda.device(device):
        (replay, results), peak = allocated(recorded, device)
    return replay, results, peak


@functools.cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """The stream on which programs are recorded: matrix products have their workspace there, outside of all graphs."""
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        square = torch.ones(16, 16, device=device)
        square @ square
    torch.cuda.synchronize(device)
    return stream


class Recorded:
    """A program that is recorded when it is called for the second time; `tell` is given the reason if it cannot be."""

    def __init__(
        self,
        run: Run,
        tell: Callable[[str], None],
        record: Callable[[Run, list[Any]], tuple[Callable[[], None], list[Any], int]] = recorded_on_gpu,
    ) -> None:
        self._run, self._tell, self._record = run, tell, record
        self._places: list[Any] | None = None  # the addresses of arguments, and the arguments that are no tensors
        self._given: list[Any] = []  # weak references to the tensors of the first call
        self._changed: set[int] = set()  # arguments that the program writes to
        self._moving: dict[int, torch.Tensor] = {}  # copies of arguments that lie elsewhere each time
        self._replay: Callable[[], None] | None = None
        self._results: list[Any] = []
        self._alone: list[int] = []  # how many hold each result if no user does
        self.recordings = 0
        self.peak = 0  # bytes that the recorded program takes beyond its arguments, as requested

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Runs the program."""
        if self._places is None:
            return self._first(arguments)
        if self.recordings > RECORDINGS or self._uses() != self._alone:
            return self._run(arguments)
        if not self._fits(arguments) and not self._recorded(arguments):
            return self._run(arguments)
        for i, copy in self._moving.items():
            copy.copy_(arguments[i])
        arguments.clear()
        assert self._replay is not None
        self._replay()
        return [_handed(result) for result in self._results]

    def _first(self, arguments: list[Any]) -> list[Any]:
        """Runs op by op, so that kernels prepare themselves, and sees which arguments are written to."""
        given = list(arguments)
        before = [_version(a) for a in given]
        results = self._run(arguments)
        self._changed = {i for i, a in enumerate(given) if _version(a) != before[i]}
        self._places = [_place(a) for a in given]
        self._given = [weakref.ref(a) if isinstance(a, torch.Tensor) else None for a in given]
        return results

    def _fits(self, arguments: list[Any]) -> bool:
        """True if the graph can run with these arguments; otherwise notes where they are, and what moves."""
        assert self._places is not None
        places = [_place(a) for a in arguments]
        moved = {i for i, place in enumerate(places) if place != self._places[i] and i not in self._moving}
        others = {i for i, a in enumerate(arguments) if self._given and self._given[i] and self._given[i]() is not a}
        self._moving |= {
            i: arguments[i] for i in moved | others if i not in self._changed and isinstance(places[i], tuple)
        }
        self._places, self._given = places, []
        return self._replay is not None and not moved

    def _recorded(self, arguments: list[Any]) -> bool:
        self._replay, self._results, self._alone = None, [], []
        self.recordings += 1
        if self.recordings > RECORDINGS:
            self._moving = {}
            self._tell("the CUDA graph is given up: the step's arguments lie elsewhere each time")
            return False
        self._moving = {i: arguments[i].clone() for i in self._moving}
        try:
            given = [self._moving.get(i, a) for i, a in enumerate(arguments)]
            self._replay, self._results, self.peak = self._record(self._run, given)
        except RuntimeError as error:
            self.recordings, self._moving = RECORDINGS + 1, {}
            self._tell(f"the step cannot be recorded as a CUDA graph and runs op by op: {str(error).splitlines()[0]}")
            return False
        self._alone = self._uses()
        return True

    def _uses(self) -> list[int]:
        return [
            torch._C._storage_Use_Count(result.untyped_storage()._cdata)
            for result in self._results
            if isinstance(result, torch.Tensor)
        ]


def _place(argument: Any) -> Any:
    return (argument.data_ptr(), argument.device) if isinstance(argument, torch.Tensor) else argument


def _version(argument: Any) -> int:
    return argument._version if isinstance(argument, torch.Tensor) else 0


def _handed(result: Any) -> Any:
    """A result as the user gets it."""
    if not isinstance(result, torch.Tensor):
        return result
    return result.clone() if result.nbytes <= SMALL else result.detach()
