# SPDX-License-Identifier: Apache-2.0
"""The pass in XLA's compiler: what is compiled under a budget is planned.

XLA keeps a pass for the whole process, so one is registered, once. It runs behind the scheduler, on modules that are
fused and scheduled; what it gives back goes to the buffer assignment, and no pass of XLA's changes it any more.

A module is compiled as it is first. Where the executable takes more than the budget that holds now, it is compiled
again, with a plan in its place, until an executable is within the budget: XLA's own figure is what counts. JAX has no
hook for that; the function of its compiler that calls XLA is wrapped, once.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import jax

from remora import _engine
from remora._arguments import Budget, budget_bytes
from remora.errors import Error, InputError, warn_user
from remora.jax._loop_pairs import plan as planned_whole
from remora.jax._planning import CPU, LIMITS, Plan
from remora.jax._slices import plan as planned_in_slices
from remora.limits import Limits
from remora.onnx import Roofline

__all__ = ["CPU", "LIMITS", "Plan", "Plans", "budget", "install", "uninstall"]

_LOG = logging.getLogger("remora.jax")
_PLATFORMS = ("cpu", "gpu", "cuda", "rocm", "tpu")
"""All that JAX may call a platform whose XLA takes passes."""
_KNOBS = re.compile(rb'"tuning_knobs":\{([^{}]*)\}')
"""Name of a convolution by cuDNN: a table as XLA writes it, in another order each time."""
_SMALL = 1 << 16
"""A part of the temporaries is no budget for modules with fewer bytes: JAX compiles one for each constant."""


@dataclass
class Plans:
    """Plans made while a budget was active, in the order of compilation.

    Attributes
    ----------
    all : list of Plan
        One for each module that was compiled.
    """

    all: list[Plan] = field(default_factory=list)

    @property
    def largest(self) -> Plan:
        """Plan of the module with most temporaries; LookupError if none was compiled."""
        if not self.all:
            raise LookupError(
                "nothing was planned under this budget: was the function compiled before, or does a warning say why?"
            )
        return max(self.all, key=lambda plan: plan.before)


@dataclass
class _Settings:
    budget: Budget
    limits: Limits
    device: Roofline
    slices: Literal["auto"] | None
    plans: Plans


class _Compile:
    """One call of JAX's compiler: what XLA hands to the pass, and what it gets instead of what.

    Whatever else XLA compiles meanwhile, such as on a thread that began before the budget, is not touched.
    """

    def __init__(self, module: bytes | None = None, replacement: bytes | None = None) -> None:
        self.content: bytes | None = None
        self.module = module
        self.replacement = replacement
        self.is_replaced = False

    def transform(self, content: bytes) -> bytes | None:
        self.content = content
        if self.module is None or _comparable(content) != _comparable(self.module):
            return None
        self.is_replaced = True
        return self.replacement


def _comparable(content: bytes) -> bytes:
    """The same for two compiles of one module: without its number, and tables in one order."""
    return _KNOBS.sub(lambda found: b",".join(sorted(found[1].split(b","))), _without_number(content))


def _without_number(content: bytes) -> bytes:
    """A serialized HloModuleProto without its field 5, a number that each compile counts up."""
    kept = bytearray()
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(content):
        begin = at
        tag = varint()
        if tag & 7 == 0:
            varint()
        else:
            size = varint() if tag & 7 == 2 else 8 if tag & 7 == 1 else 4
            at += size
        if tag >> 3 != 5:
            kept += content[begin:at]
    return bytes(kept)


class _Pass:
    """The budgets that hold, the last one above the others, what XLA calls, and the compiler of JAX that calls XLA."""

    def __init__(self) -> None:
        self.held: list[_Settings] = []
        self.lock = threading.Lock()
        self.compiler: Callable[..., Any] | None = None
        # XLA calls the pass on threads of its own: one module after the other, so that each knows whose it is.
        self.one_by_one = threading.Lock()
        self.current: _Compile | None = None

    def hold(self, settings: _Settings) -> None:
        with self.lock:
            if self.compiler is None:
                self.enter()
            self.held.append(settings)

    def enter(self) -> None:
        """Puts the pass into XLA's compiler; InputError where this version of JAX has no place for it."""
        try:
            from jax._src import compiler
            from jax.extend.xla import PipelineStage, register_hlo_module_transformation

            own = compiler.backend_compile_and_load
        except (ImportError, AttributeError) as error:
            why = f"jax {jax.__version__} has no place for a pass ({error}); remora.jax.policy needs none"
            raise InputError("budget", why) from None
        for platform in _PLATFORMS:
            try:
                register_hlo_module_transformation(
                    self.transform, name="remora", stage=PipelineStage.POST_SCHEDULER, platforms=platform
                )
            except RuntimeError as error:  # from jax 0.11 on, where the platform is not there or takes no passes
                _LOG.debug("XLA for %s takes no pass: %s", platform, error)
        self.compiler = own
        compiler.backend_compile_and_load = self.compile

    def release(self, settings: _Settings) -> None:
        with self.lock:
            self.held = [other for other in self.held if other is not settings]

    def transform(self, content: bytes) -> bytes | None:
        """Called by XLA with every module that it compiles."""
        current = self.current
        return current.transform(content) if current else None

    def compile(self, backend: Any, module: Any, *rest: Any, **words: Any) -> Any:
        """Called by JAX in place of its own, with every module that it compiles."""
        compiler_of_jax = self.compiler
        assert compiler_of_jax is not None
        with self.lock:
            settings = self.held[-1] if self.held else None
        if settings is None:
            return compiler_of_jax(backend, module, *rest, **words)
        name = module.operation.attributes["sym_name"].value
        with self.one_by_one:
            return self._planned(
                name, backend.platform, settings, lambda: compiler_of_jax(backend, module, *rest, **words)
            )

    def _planned(self, name: str, platform: str, settings: _Settings, compiled: Callable[[], Any]) -> Any:
        """XLA's executable if it fits within the budget, otherwise the planned one."""
        first = _Compile()
        plain = self._run(compiled, first)
        try:
            before = _temporaries(plain)
            allowed = budget_bytes(settings.budget, 0, before)
            is_part = isinstance(settings.budget, str) and settings.budget.rstrip().endswith("%")
            if before <= allowed or (is_part and before < _SMALL):
                settings.plans.all.append(Plan(name, max(allowed, before), before, before, before))
                return plain
            content = first.content
            if content is None:
                raise InputError(name, f"XLA for {platform} did not hand it to the pass")
            executables: dict[bytes, Any] = {}

            def measure(written: bytes) -> int:
                again = _Compile(content, written)
                executable = self._run(compiled, again)
                if not again.is_replaced:
                    raise InputError(name, "XLA hands another module to the pass each time")
                taken = _temporaries(executable)
                if taken <= allowed:
                    executables[written] = executable
                return taken

            if settings.slices and platform != "cpu":
                warn_user(f"remora.jax: {name} is planned without slices, which are for the CPU", RuntimeWarning)
            planned = planned_in_slices if settings.slices and platform == "cpu" else planned_whole
            written, plan = planned(content, before, allowed, measure, settings.limits, settings.device)
        except Error as error:
            warn_user(f"remora.jax: {name} is left unchanged: {error}", RuntimeWarning)
            return plain
        program = plain if written is None else executables[written]
        settings.plans.all.append(plan)
        _LOG.info("%s", plan)
        if plan.note or plan.undonated:
            warn_user(f"remora.jax: {plan}{_total(plain, program)}", RuntimeWarning)
        return program

    def _run(self, compiled: Callable[[], Any], asked: _Compile) -> Any:
        self.current = asked
        try:
            return compiled()
        finally:
            self.current = None


def _total(plain: Any, planned: Any) -> str:
    """Total size of the module if donated arguments are no longer reused; empty if they are."""
    before, after = plain.get_compiled_memory_stats(), planned.get_compiled_memory_stats()
    if after.alias_size_in_bytes >= before.alias_size_in_bytes:
        return ""
    sizes = [
        each.argument_size_in_bytes + each.output_size_in_bytes + each.temp_size_in_bytes - each.alias_size_in_bytes
        for each in (before, after)
    ]
    return (
        f". With arguments and outputs the module takes {_engine.bytes_text(sizes[1])}, "
        f"{100 * sizes[1] / sizes[0]:.0f} % of {_engine.bytes_text(sizes[0])}"
    )


def _temporaries(executable: Any) -> int:
    """InputError where the platform's XLA does not tell them."""
    try:
        return int(executable.get_compiled_memory_stats().temp_size_in_bytes)
    except (AttributeError, RuntimeError) as error:
        raise InputError("temporaries", f"XLA does not tell them: {error}") from None


_PASS = _Pass()


def _settings(budget: Budget, limits: Limits | None, device: Roofline, slices: Literal["auto"] | None) -> _Settings:
    # Before XLA is asked, for what is wrong in its callback is told too late.
    budget_bytes(budget, 0, 1 << 40)
    if slices not in (None, "auto"):
        raise InputError("slices", f"must be 'auto' or None, not {slices!r}")
    if jax.config.jax_compilation_cache_dir and jax.config.jax_enable_compilation_cache:
        raise InputError(
            "budget",
            "JAX's persistent cache returns code compiled without a budget: unset jax_compilation_cache_dir",
        )
    return _Settings(budget, limits or LIMITS, device, slices, Plans())


@contextmanager
def budget(
    budget: Budget, *, limits: Limits | None = None, device: Roofline = CPU, slices: Literal["auto"] | None = None
) -> Iterator[Plans]:
    """Plans what is compiled inside the ``with`` block.

    Results are bitwise equal to those without it: the same instructions run, some of them again. With slices they may
    differ by rounding. A function that was compiled before keeps its executable, and one that is compiled inside keeps
    its plan.

    Parameters
    ----------
    budget : int or str
        Maximum of XLA's temporaries in each module: bytes, or text: ``"2GiB"``, ``"60%"`` of their size without a plan.
        Arguments, outputs and constants are not counted, as ``temp_size_in_bytes`` of JAX's
        ``compiled.memory_analysis()`` does not count them.
    limits : Limits, optional
        Of each search; 16,000 units of work by default, so that the same plan comes out every time.
    device : Roofline
        Model of instruction times.
    slices : "auto", optional
        Instructions may be computed in slices on the CPU, where that meets the budget, or does so in less time. Sums
        over slices are rounded in another order, and XLA may compute rows in another kernel.

    Yields
    ------
    Plans
        Filled as modules are compiled.

    Warns
    -----
    RuntimeWarning
        For a module that is left unchanged: the budget is not met (the minimum found is named), or it cannot be read,
        or XLA for its platform does not hand it to passes. And for a module that donates arguments: the warning
        gives the total, since XLA does not reuse them with a plan.

    Raises
    ------
    InputError
        For a budget that means nothing, while JAX's persistent compilation cache is in use, and where this version of
        JAX has no place for a pass.

    Examples
    --------
    ::

        with remora.jax.budget("60%") as plans:
            compiled = jax.jit(step).lower(parameters, batch).compile()
        print(plans.largest, compiled.memory_analysis().temp_size_in_bytes)
    """
    settings = _settings(budget, limits, device, slices)
    _PASS.hold(settings)
    try:
        yield settings.plans
    finally:
        _PASS.release(settings)


_INSTALLED: list[_Settings] = []


def install(
    budget: Budget, *, limits: Limits | None = None, device: Roofline = CPU, slices: Literal["auto"] | None = None
) -> Plans:
    """Plans everything that this process compiles from now on, until `uninstall`.

    Parameters, warnings and exceptions are those of `budget`; an earlier call's budget does not hold any more.

    Returns
    -------
    Plans
        Filled as modules are compiled.
    """
    settings = _settings(budget, limits, device, slices)
    uninstall()
    _PASS.hold(settings)
    _INSTALLED.append(settings)
    return settings.plans


def uninstall() -> None:
    """Nothing is planned any more outside of `budget`; what is compiled stays as it is."""
    while _INSTALLED:
        _PASS.release(_INSTALLED.pop())
