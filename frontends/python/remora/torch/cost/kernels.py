# SPDX-License-Identifier: Apache-2.0
"""Cost of a call of a program of Inductor: nanoseconds, and workspace in bytes.

Measured: each distinct call (kernel's source or op, shapes, strides, dtypes, threads) runs a few times on tensors made
for it. A kernel is compiled for this, by Inductor, which keeps what it compiled: so kernels are measured of the program
that is chosen, which needs them, and those of others are estimated: by a roofline, and by how far the measured ones are
from it. What was measured is kept in a file by version of PyTorch and device.

Numbers of 8 bits are places in a pooling's windows, of which not all lie inside of the image, and a kernel that reads
others ends the process. So a kernel is given those that the kernel before it makes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ..capture.graph import tensors_in
from ..capture.launches import Kernel, Launch, Look, Trace, written_by
from ..measure import allocated, device_name, kernel_modes, measuring, rounded, timed
from ..store import cache_folder, digest, read_json, write_json
from .calls import generic_machine, made_like, with_seeds
from .sources import nanoseconds_of

WORKSPACES = "of all devices"
"""In the keys of the file, since files of earlier versions have none of GPUs."""


class Calls:
    """Costs of calls; each distinct one is measured once.

    `cost`: "measured" runs the calls; "flops" takes a roofline of the bytes that are moved, which has no workspaces.
    `say`: told what is being done.
    """

    def __init__(self, cost: str, say: Callable[[str], None]) -> None:
        self._cost, self._say = cost, say
        self._known: dict[str, list[int]] = {}
        self._rooflines: dict[str, int] = {}  # of the kernels whose measured times are known

    def measure(self, given: Iterable[Launch]) -> None:
        """Measures those of these calls that are not known; kernels are compiled in parallel."""
        if self._cost != "measured":
            return
        given = list(given)
        launches = {key_of(launch): launch for launch in given if not _is_kept(launch)}
        devices = {device.type: device for device in map(_device, launches.values())}
        for device in devices.values():
            path = cache_folder() / "kernels" / f"torch-{torch.__version__}-{device_name(device)}.json"
            self._known.update(read_json(path))
            missing = {k: v for k, v in launches.items() if k not in self._known and _device(v).type == device.type}
            if missing:
                self._measure(missing, device, _makers(given))
                write_json(path, {**read_json(path), **{key: self._known[key] for key in missing}})
        for key, launch in launches.items():
            if isinstance(launch.target, Kernel) and key not in self._rooflines:
                self._rooflines[key] = _roofline(launch)

    def _measure(self, missing: dict[str, Launch], device: torch.device, makers: dict[Look, dict[str, Launch]]) -> None:
        self._say(f"compiling and measuring {len(missing)} kernels")
        with _disable_current_modes(), torch.no_grad(), torch._C._DisableAutocast(), measuring(device):
            before = {
                key: {i: makers.get(look, {}) for i, look in _places(launch, False)} for key, launch in missing.items()
            }
            needed = {key: launch for row in before.values() for found in row.values() for key, launch in found.items()}
            self.run_all(missing, before, _compiled({**missing, **needed}), device)

    def run_all(
        self,
        missing: dict[str, Launch],
        before: dict[str, dict[int, dict[str, Launch]]],
        runs: dict[str, Callable[..., Any]],
        device: torch.device,
    ) -> None:
        """Runs the missing calls; `before`: what makes the places in windows that they read."""
        for i, (key, launch) in enumerate(missing.items()):
            self._say(f"measuring kernel {i + 1} of {len(missing)}")
            if any(len(found) > 1 for found in before[key].values()):  # whose places they are is not known
                self._known[key] = [_roofline(launch), 0]
                continue
            places = {
                place: _made(maker, runs[made], look)
                for place, look in _places(launch, False)
                for made, maker in before[key][place].items()
            }
            found = _measured(launch, runs[key], device, places)
            if found is None:
                self._say(f"kernel {i + 1} of {len(missing)} fails on made tensors: its time is a roofline's")
            self._known[key] = found or [_roofline(launch), 0]

    def of(self, launch: Launch) -> tuple[int, int]:
        """Nanoseconds and workspace of a call; an estimate where it is not measured."""
        found = self._known.get(key_of(launch))
        if found is not None:
            return found[0], found[1]
        scale = self._scale if isinstance(launch.target, Kernel) else 1
        return max(1, round(scale * _roofline(launch))), 0

    def are_measured(self, launches: Iterable[Launch]) -> bool:
        """True if `of` has no better answer for any of these calls after they are measured."""
        return self._cost != "measured" or all(key_of(one) in self._known or _is_kept(one) for one in launches)

    @property
    def _scale(self) -> float:
        """How many times its roofline a kernel takes."""
        rooflines = sum(self._rooflines.values())
        return sum(self._known[key][0] for key in self._rooflines) / rooflines if rooflines else 1.0

    def peak(self, trace: Trace) -> int:
        """The most bytes that a program holds beyond what was there at the start, workspaces counted."""
        return max([trace.peak, *map(self.held, trace.launches)])

    def held(self, launch: Launch) -> int:
        """Bytes beyond what was there at a program's start while a call runs, its workspace counted."""
        return launch.held + self.of(launch)[1]


def _compiled(launches: dict[str, Launch]) -> dict[str, Callable[..., Any]]:
    """Functions that run each call; kernels are compiled in parallel."""
    from torch._inductor.async_compile import AsyncCompile

    compiler = AsyncCompile()
    started = {
        key: getattr(compiler, launch.target.how)(*launch.target.arguments, **launch.target.named)
        if isinstance(launch.target, Kernel)
        else launch.target
        for key, launch in launches.items()
    }
    runs = {key: run.result() if hasattr(run, "result") else run for key, run in started.items()}
    return {key: getattr(run, "run", run) for key, run in runs.items()}


def _places(launch: Launch, written: bool) -> list[tuple[int, Look]]:
    """The arguments of a kernel that are places in windows, by number: those that it writes, or reads."""
    looks = [(i, leaf) for i, leaf in enumerate(launch.given[0]) if isinstance(leaf, Look) and leaf.dtype == torch.int8]
    if not looks or not isinstance(launch.target, Kernel):
        return []
    writes = written_by(launch.target)
    return [(i, look) for i, look in looks if writes.get(i, False) == written]


def _makers(launches: Iterable[Launch]) -> dict[Look, dict[str, Launch]]:
    """The kernels that make places which lie so, by key."""
    makers: dict[Look, dict[str, Launch]] = {}
    for launch in launches:
        for _, look in _places(launch, True):
            makers.setdefault(look, {})[key_of(launch)] = launch
    return makers


def _arguments(launch: Launch, truth: bool = True) -> tuple[list[Any], dict[str, Any]]:
    """Tensors made for a call, whose truth values are all the given one."""
    mode = FakeTensorMode()
    looks = pytree.tree_map(lambda leaf: leaf.fake(mode) if isinstance(leaf, Look) else leaf, launch.given)
    arguments, named = pytree.tree_map(functools.partial(made_like, truth=truth), looks)
    return with_seeds(launch.target, arguments), named


def _made(launch: Launch, run: Callable[..., Any], look: Look) -> torch.Tensor:
    """The places that a kernel makes which lie so."""
    arguments, named = _arguments(launch)
    run(*arguments, **named)
    made: torch.Tensor = arguments[next(i for i, found in _places(launch, True) if found == look)]
    return made


def _measured(
    launch: Launch, run: Callable[..., Any], device: torch.device, places: dict[int, torch.Tensor]
) -> list[int] | None:
    """Nanoseconds and workspace of a call; None where it fails on made tensors.

    Truth values decide which of two results counts as an index, say, and only one of them may be valid. A GPU's context
    does not survive an index out of bounds, so such a kernel does not run there.
    """
    asserts = isinstance(launch.target, Kernel) and "device_assert" in str(launch.target.arguments)
    if device.type == "cuda" and asserts and any(look.dtype == torch.bool for look in looks_in(launch.given)):
        return None
    for truth in (True, False):
        arguments, named = _arguments(launch, truth)
        for place, tensor in places.items():
            arguments[place] = tensor
        try:
            return _taken(launch, run, device, arguments, named)
        except (RuntimeError, IndexError):  # an index out of bounds
            continue
    return None


def _taken(
    launch: Launch, run: Callable[..., Any], device: torch.device, arguments: list[Any], named: dict[str, Any]
) -> list[int]:
    seconds = timed(lambda: run(*arguments, **named), device)
    if isinstance(launch.target, Kernel):
        return [max(1, round(seconds * 1e9)), 0]
    given = {t.untyped_storage().data_ptr() for t in tensors_in((arguments, named))}
    result, peak = allocated(lambda: run(*arguments, **named), device)
    made = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors_in(result)}
    kept = sum(size for place, size in made.items() if place not in given)
    return [max(1, round(seconds * 1e9)), rounded(max(0, peak - kept), device)]


def looks_in(given: Any) -> list[Look]:
    """How the tensors among arguments lie."""
    return [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, Look)]


def key_of(launch: Launch) -> str:
    """The same for two calls if and only if they do the same with tensors that lie the same."""
    target = launch.target
    if isinstance(target, Kernel):
        words = [target.how, *map(str, target.arguments)]
        # Triton's kernels have a number in their names, another one in each program.
        called = [word.replace(words[1], "kernel") for word in words] if target.how == "triton" else words
    else:
        called = [str(target)]
    modes = [*kernel_modes(_device(launch).type), WORKSPACES]
    return digest([called, str(launch.given), modes])


def _device(launch: Launch) -> torch.device:
    """Where a call runs: on the device of its tensors, or on the one that it names, as a maker of random numbers."""
    named = (leaf for leaf in pytree.tree_leaves(launch.given) if isinstance(leaf, torch.device))
    return next((look.device for look in looks_in(launch.given)), next(named, torch.device("cpu")))


def _is_kept(launch: Launch) -> bool:
    """True if a call must not run for measuring: it communicates with other processes, or is no op of PyTorch."""
    target = launch.target
    if isinstance(target, Kernel):
        return False
    return getattr(target, "namespace", "") not in ("aten", "prims", "mkldnn", "inductor", "mkl", "quantized")


def _roofline(launch: Launch) -> int:
    from torch.utils.flop_counter import flop_registry

    moved = sum(look.size for look in looks_in(launch.given))
    operations, target = 0, launch.target
    if isinstance(target, Kernel) and target.how == "cpp_pybinding":
        return nanoseconds_of(target.arguments[1], [n for n in launch.given[0] if isinstance(n, int)], moved)
    count = None if isinstance(target, Kernel) else flop_registry.get(target.overloadpacket)
    if count is not None:
        mode = FakeTensorMode()
        given = pytree.tree_map(lambda leaf: leaf.fake(mode) if isinstance(leaf, Look) else leaf, launch.given)
        with mode:
            operations = count(*given[0], **given[1], out_val=target(*given[0], **given[1]))
    seconds = generic_machine(_device(launch).type).seconds(operations, moved)
    return max(1, round(seconds * 1e9))
