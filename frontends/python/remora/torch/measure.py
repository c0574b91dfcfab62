# SPDX-License-Identifier: Apache-2.0
"""Time and memory of calls, as the device's clock and PyTorch's allocators report them."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler import record_function

RUNS = 5
"""Timed runs of an op, fewer where one takes long."""
LONG = 0.05
"""Seconds of timed runs after which no further one starts."""
ROW = 1e-3
"""Seconds that runs on a GPU take together, back to back."""
CPU = torch.device("cpu")
_WORKSPACES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUBLASLT_WORKSPACE_SIZE",
    "TORCH_CUBLAS_WORKSPACE_CACHE",
    "TORCH_CUBLASLT_UNIFIED_WORKSPACE",
)
"""Environment variables that decide how much memory matrix products take on a GPU."""
_PRODUCTS = ("fp16_reduced_precision_reduction", "bf16_reduced_precision_reduction", "fp16_accumulation")
"""Freedoms that matrix products on a GPU may be given."""
CYCLES = 2e9
"""Ticks of a GPU's clock in a second, roughly."""


def random_state(device: torch.device) -> torch.Tensor:
    """The state of the generator from which a device's ops draw, on the CPU."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


@contextlib.contextmanager
def measuring(device: torch.device) -> Iterator[None]:
    """Makes a device the current one; the user's random numbers are afterwards as before."""
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng([device] if on_gpu else []), torch.cuda.device(device if on_gpu else -1):
        yield


def timed(run: Callable[[], Any], device: torch.device) -> float:
    """The median time of a call, in seconds; a GPU is the current one."""
    run_once = _gpu_time if device.type == "cuda" else _cpu_time
    run()
    times: list[float] = []
    while len(times) < RUNS and sum(times) < LONG:
        times.append(run_once(run))
    return statistics.median(times)


@contextlib.contextmanager
def late(seconds: float, tell: Callable[[], None]) -> Iterator[None]:
    """Calls a function, in another thread, if the block runs longer than so many seconds."""
    timer = threading.Timer(seconds, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def kernel_modes(device_type: str) -> list[Any]:
    """The settings by which PyTorch chooses kernels and their workspaces."""
    modes: list[Any] = [torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()]
    if device_type == "cuda":
        cudnn: Any = torch.backends.cudnn
        products = torch.backends.cuda.matmul
        modes += [cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.conv.fp32_precision]
        modes += [products.fp32_precision, cudnn.rnn.fp32_precision, str(torch.backends.cuda.preferred_blas_library())]
        modes += [str(getattr(products, f"allow_{name}")) for name in _PRODUCTS]
        modes += [os.environ.get(name) for name in _WORKSPACES]
        sizes = (getattr(torch.backends.cuda, f"{name}_workspace_size", None) for name in ("cublas", "cublaslt"))
        modes += [size() for size in sizes if size and torch.cuda.is_available()]  # from PyTorch 2.15 on
    return modes


def cpu_clock() -> Callable[[], float]:
    """Seconds of this thread, where it is the only one that works: what else the machine does then counts for less."""
    return time.thread_time if torch.get_num_threads() == 1 else time.perf_counter


def _cpu_time(run: Callable[[], Any]) -> float:
    clock = cpu_clock()
    start = clock()
    run()
    return clock() - start


def _gpu_time(run: Callable[[], Any]) -> float:
    """Seconds of a call on a GPU: of several in a queue, since a short one ends before the next is launched."""
    begin = time.perf_counter()
    run()
    launch = time.perf_counter() - begin
    once = _gpu_row(run, 1, 0.0)
    times = min(20, int(ROW / once))
    return _gpu_row(run, times, min(2 * launch * times, 10 * ROW)) if times > 1 else once


def _gpu_row(run: Callable[[], Any], times: int, delay: float) -> float:
    """Seconds of one of so many runs back to back, which are launched while the GPU waits for `delay` seconds."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    if delay:
        torch.cuda._sleep(int(delay * CYCLES))  # type: ignore[no-untyped-call]
    start.record()
    for _ in range(times):
        run()
    end.record()
    torch.cuda.synchronize()
    return max(float(start.elapsed_time(end)) / 1e3 / times, 1e-9)


def allocated(run: Callable[[], Any], device: torch.device = CPU, counter: str = "requested_bytes") -> tuple[Any, int]:
    """The result of a call, and the most bytes that a device's allocator had given out while it ran.

    `counter`: of a GPU's allocator, "requested_bytes", or "allocated_bytes", which are rounded up.

    Kineto, which `torch.profiler` records with, knows one recording a process: a user's own would be lost. So PyTorch's
    older profiler records the CPU's, in a thread of its own where this one is recorded already.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_stats(device)[f"{counter}.all.current"]
        result = run()
        torch.cuda.synchronize(device)
        return result, torch.cuda.memory_stats(device)[f"{counter}.all.peak"] - before
    if torch._C._autograd._profiler_enabled():
        # Workspaces depend on the number of threads, which a new thread has to be named.
        with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(torch.get_num_threads(),)) as beside:
            return beside.submit(allocated, run).result()
    with profiled(CPU) as threads:
        result = run()
    return result, sum(_peak(size for _, size in events) for events in threads)


@contextlib.contextmanager
def profiled(device: torch.device) -> Iterator[list[list[tuple[str, int]]]]:
    """Fills a list, when it ends, with what ran inside, each thread's events in their order.

    These are names of ranges that began, with 0 bytes, and what the device's allocator gave out or took back: bytes,
    without a name.
    """
    torch._C._autograd._enable_profiler_legacy(
        torch._C._profiler.ProfilerConfig(
            torch._C._profiler.ProfilerState.CPU,
            False,  # no shapes
            True,  # memory
            False,
            False,
            False,
            torch._C._profiler._ExperimentalConfig(),
        )
    )
    threads: list[list[tuple[str, int]]] = []
    try:
        yield threads
    finally:
        recorded = torch._C._autograd._disable_profiler_legacy()
        named = [[_named(event, device) for event in thread] for thread in recorded]
        if any(name == COLLECTIVE for thread in named for name, _ in thread):
            named = [_together(recorded, named)]
        threads += [[(name, size) for name, size in thread if name or size] for thread in named]


COLLECTIVE, COLLECTED = "remora collective", "remora collected"
"""Names of the ranges that begin before a collective runs on the CPU, and when it has let go of its tensors."""


def mark(name: str) -> None:
    """A range of this name begins, in what `profiled` records."""
    with record_function(name):
        pass


def _named(event: Any, device: torch.device) -> tuple[str, int]:
    size = int(event.cuda_memory_usage() if device.type == "cuda" else event.cpu_memory_usage())
    return str(event.name()) if not size and str(event.kind()) == "push" else "", size


def _together(recorded: list[list[Any]], named: list[list[tuple[str, int]]]) -> list[tuple[str, int]]:
    """The threads of a job's process as one, in the order of time.

    Gloo's threads take memory while this one waits, and the recording does not see all that they give back: what is
    taken between the marks around a collective is gone at the second one, and outside of them theirs does not count.
    """
    main = next(i for i, thread in enumerate(named) if any(name == COLLECTIVE for name, _ in thread))
    first = recorded[main][0]
    rows = [
        (first.cpu_elapsed_us(event), i != main, row)
        for i, thread in enumerate(named)
        for event, row in zip(recorded[i], thread, strict=True)
    ]
    found, inside, net = list[tuple[str, int]](), False, 0
    for _, foreign, (name, size) in sorted(rows, key=lambda row: row[0]):
        if foreign and not inside:
            continue
        if name == COLLECTED and inside:
            found.append(("", -net))
        found.append((name, size))
        inside, net = name == COLLECTIVE or (inside and name != COLLECTED), net + size if inside else 0
    return found


def _peak(changes: Iterable[int]) -> int:
    return max(itertools.accumulate(changes, initial=0))


def device_name(device: torch.device) -> str:
    """Name of the processor or GPU, for file names."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        name = f"{device.type}-{platform.machine()}-{_processor()}"
    return "".join(c if c.isalnum() else "-" for c in name)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


class Clock:
    """Marks in time, on the device."""

    def __init__(self, device: torch.device) -> None:
        self.gpu, self.device = device.type == "cuda", device

    def mark(self) -> Any:
        """Marks a point in time."""
        if not self.gpu:
            return cpu_clock()()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def between(self, start: Any, end: Any) -> float:
        """Seconds between two marks."""
        if not self.gpu:
            return float(end - start)
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3


class Timed:
    """A function whose first calls are timed on the device that it runs on.

    `told`: called with the seconds of the shortest of `CALLS` calls behind the first, when the function is called
    next: by then a GPU has done them, and does not wait for that.
    """

    CALLS = 2

    def __init__(self, run: Callable[..., Any], device: torch.device, told: Callable[[float], None]) -> None:
        self._run, self._clock, self._told = run, Clock(device), told
        self._marks: list[tuple[Any, Any]] | None = []

    def __call__(self, *arguments: Any) -> Any:
        """Calls the function."""
        marks = self._marks
        if marks is None or (self._clock.gpu and torch.cuda.is_current_stream_capturing()):
            return self._run(*arguments)
        if len(marks) > self.CALLS:
            self._marks = None
            self._told(min(self._clock.between(*pair) for pair in marks[1:]))
            return self._run(*arguments)
        start = self._clock.mark()
        result = self._run(*arguments)
        marks.append((start, self._clock.mark()))
        return result


def set_random_state(state: torch.Tensor, device: torch.device) -> None:
    """Sets the generator from which a device's ops draw."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


def span_of(tensor: torch.Tensor) -> int:
    """The number of elements from a strided tensor's first to its last in memory, gaps included."""
    shape, strides = tensor.shape, tensor.stride()
    return 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) if tensor.numel() else 0


def rounded(size: int, device: torch.device) -> int:
    """Size of an allocation of so many bytes in the allocator of a device."""
    return -(-size // ROUNDING) * ROUNDING if device.type == "cuda" else size


ROUNDING = 512
"""The CUDA allocator hands out multiples of this many bytes."""
