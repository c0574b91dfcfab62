# SPDX-License-Identifier: Apache-2.0
"""A program as a CUDA graph: the kernels of a step are launched at once, not one by one.

A graph reads and writes the same addresses each time. So the memory that the step takes stays reserved between steps;
arguments that lie elsewhere than when it was recorded are copied, or it is recorded anew; and while a result of the
last step is still in use, the program runs op by op, lest the next step writes over it.
"""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import CaptureError, first_line
from ..internals import is_before
from ..measure import allocated, span_of

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
    with torch.cuda.device(device):
        # Before PyTorch 2.15, and with TORCH_CUBLAS_WORKSPACE_CACHE=1, the graph holds the workspace of its matrix
        # products. A workspace that cuBLAS knows may be freed, or be used by others on the same stream: so there is
        # none before, and none is known afterwards.
        torch._C._cuda_clearCublasWorkspaces()
        gc.collect()  # a graph that is destroyed while another is recorded spoils that
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # the graph's memory is taken from the device anew
        torch._C._host_emptyCache()
        try:
            (replay, results), peak = allocated(lambda: _recorded_on(device, run, given), device)
        finally:
            torch._C._cuda_clearCublasWorkspaces()
    return replay, results, peak


def _recorded_on(device: torch.device, run: Run, given: list[Any]) -> tuple[Callable[[], None], list[Any]]:
    graph, collects = torch.cuda.CUDAGraph(), gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.stream(torch.cuda.Stream(device)):  # type: ignore[no-untyped-call]
            try:
                graph.capture_begin(capture_error_mode="thread_local")
            except RuntimeError as error:
                raise _failure(error) from None
            try:
                results = run(given)
            except BaseException as error:
                _end(graph, error)
                raise
            _end(graph)
    finally:
        if collects:
            gc.enable()
    return graph.replay, results


def _end(graph: torch.cuda.CUDAGraph, why: BaseException | None = None) -> None:
    """Ends a recording; `why`: what ended it before its end."""
    try:
        graph.capture_end()
    except RuntimeError as error:
        raise _failure(why or error) from None


def _failure(error: BaseException) -> BaseException:
    """The error of a recording that PyTorch could not begin or end."""
    if not is_before(2, 15):
        return error
    # Its allocator and generator believe that it is still recorded.
    return CaptureError(
        f"the step cannot be recorded as a CUDA graph ({first_line(error)}), and this PyTorch cannot go on after that: "
        "start again without cuda_graph"
    )


@functools.cache
def workspace_in_graph(device: torch.device) -> int:
    """Bytes that the matrix products of a graph hold as their workspace; 0 if each takes its own (PyTorch 2.15)."""
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    found: list[int] = []
    with torch.cuda.device(device), torch.cuda.stream(stream), _disable_current_modes(), torch._C._DisableAutocast():
        square = torch.ones(64, 64, device=device, dtype=torch.bfloat16)
        while len(found) < 2 or (found[-1] != found[-2] and len(found) < 10):  # another thread may allocate meanwhile
            torch._C._cuda_clearCublasWorkspaces()
            before = torch.cuda.memory_stats(device)["requested_bytes.all.current"]
            for made in (square @ square, torch.addmm(square[0], square, square), square.float() @ square.float()):
                del made
            torch.cuda.synchronize(device)
            found.append(torch.cuda.memory_stats(device)["requested_bytes.all.current"] - before)
        torch._C._cuda_clearCublasWorkspaces()
    return max(0, found[-1])


class Recorded:
    """A program that is recorded when it is called for the second time.

    `tell` is given the reason if it cannot be; `room`: bytes that copies of its arguments may take.
    """

    def __init__(
        self,
        run: Run,
        tell: Callable[[str], None],
        room: int,
        record: Callable[[Run, list[Any]], tuple[Callable[[], None], list[Any], int]] = recorded_on_gpu,
    ) -> None:
        self._run, self._tell, self._room, self._record = run, tell, room, record
        self._places: list[Any] | None = None  # the addresses of arguments, and the arguments that are no tensors
        self._given: list[Any] = []  # weak references to the tensors of the first call
        self._changed: set[int] = set()  # arguments that the program writes to
        self._moving: dict[int, torch.Tensor] = {}  # copies of arguments that lie elsewhere each time
        self._replay: Callable[[], None] | None = None
        self._results: list[Any] = []
        self._alone: list[int] = []  # how many hold each result if no user does
        self.recordings = 0
        self.peak = 0  # bytes that the recorded program takes beyond its arguments, copies of these included

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Runs the program."""
        if self._places is None:
            return self._first(arguments)
        if self.recordings > RECORDINGS or self._uses() != self._alone:
            return self._run(arguments)
        if not self._fits(arguments) and not self._recorded(arguments):
            return self._run(arguments)
        for i, copy in self._moving.items():
            _flat(copy).copy_(_flat(arguments[i]))
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
        size = sum(_flat(arguments[i]).nbytes for i in self._moving)
        if size > self._room:
            self.recordings, self._moving = RECORDINGS + 1, {}
            self._tell(
                f"the CUDA graph is given up: {size:,} bytes of arguments lie elsewhere than before, such as another "
                f"model's parameters, and the plan has room for copies of {self._room:,}"
            )
            return False
        try:
            self._moving = {i: _copied(arguments[i]) for i in self._moving}
            given = [self._moving.get(i, a) for i, a in enumerate(arguments)]
            self._replay, self._results, peak = self._record(self._run, given)
            self.peak = peak + size
        except CaptureError:
            raise
        except Exception as error:
            self.recordings, self._moving = RECORDINGS + 1, {}
            self._tell(f"the step cannot be recorded as a CUDA graph and runs op by op: {first_line(error)}")
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


def _flat(argument: torch.Tensor) -> torch.Tensor:
    """A tensor's memory from its first element to its last, gaps included."""
    return argument.detach().as_strided((span_of(argument),), (1,))


def _copied(argument: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides: compiled kernels expect those."""
    return _flat(argument).clone().as_strided(argument.shape, argument.stride(), 0)


def _version(argument: Any) -> int:
    """Changes when a tensor is written to; nothing writes to those of inference mode, which have no version."""
    return argument._version if isinstance(argument, torch.Tensor) and not argument.is_inference() else 0


def _handed(result: Any) -> Any:
    """A result as the user gets it."""
    if not isinstance(result, torch.Tensor):
        return result
    return result.clone() if result.nbytes <= SMALL else result.detach()
