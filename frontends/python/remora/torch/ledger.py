# SPDX-License-Identifier: Apache-2.0
"""Captured code, and code that runs outside of every plan: reported once when it is found, and in `report`.

Dynamo gives a backend the graphs that it could capture. What lies between them (graph breaks), what it gave up (a loop
whose sizes depend on data), and calls beyond its recompile limit run eagerly, and no backend is asked. So the end of
each compilation is listened to as well.
"""

from __future__ import annotations

import inspect
import time
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch._dynamo
from torch import fx
from torch._dynamo.callback import callback_handler
from torch._dynamo.utils import counters, get_metrics_context
from torch._guards import CompileContext

from remora import display

from .errors import warn
from .internals import frames
from .symbols import hint_of

if TYPE_CHECKING:
    from .planning import SchedulePlan

ANEW = 3
"""At this capture of equal shapes a warning says why."""


@dataclass
class Part:
    """One captured graph.

    Attributes
    ----------
    where : str
        The function, or the module that was wrapped, its file and line.
    shapes : str
        Types and shapes of its arguments that belong to no module: "int64[3, 16]".
    plan : SchedulePlan or None
    reason : str
        Why there is no plan; "" where there is one.
    training : bool
        Whether it has gradients.
    checkpoints : int
        The model's own activation checkpoints in it, which are taken out.
    accumulates : bool
        Whether gradients exist that it adds to: a later micro-step of gradient accumulation.
    batch : list of int
        Bytes of each of its arguments that belongs to no module.
    """

    where: str
    training: bool
    shapes: str = ""
    plan: Any = None
    reason: str = ""
    checkpoints: int = 0
    accumulates: bool = False
    batch: list[int] = field(default_factory=list)
    parameters: list[weakref.ref[torch.nn.Parameter]] = field(default_factory=list, repr=False)
    # where sizes vary, what gives the plan of the latest call
    latest: Callable[[], SchedulePlan | None] | None = field(default=None, repr=False)
    changed: str = field(default="", repr=False)  # shapes of arguments that had others when it was captured before
    begun: float = field(default=0.0, repr=False)  # when the call began that captured it

    def keep(self, plan: SchedulePlan) -> None:
        """The plan of this part, which learns of the checkpoints that were taken out."""
        self.plan = plan
        plan.checkpoints = self.checkpoints

    def count_checkpoints(self, module: fx.GraphModule) -> None:
        """Counts what `torch.utils.checkpoint` left in a graph of Dynamo's."""
        self.checkpoints = sum("activation_checkpoint" in str(node.target) for node in module.graph.nodes)


@dataclass
class Report:
    """Planned and unplanned parts of a module or step.

    Attributes
    ----------
    parts : list of Part
        Each captured graph.
    outside : list of str
        What runs outside of every plan, or may.
    holds : bool
        Whether a training step's tensors stay within the budget: there is a plan, and nothing is outside.
    """

    parts: list[Part]
    outside: list[str]

    @property
    def holds(self) -> bool:
        """True if the budget covers a whole training step of the process."""
        return not self.outside and any(part.plan is not None for part in self.parts if part.training)

    def _repr_html_(self) -> str:
        pictures = [part.plan.found.svg() for part in self.parts if part.plan is not None]
        return display.framed(str(self), "".join(pictures))

    def __str__(self) -> str:
        lines = ["the budget holds for the whole step" if self.holds else "the budget does not hold for the whole step"]
        for part in self.parts:
            kind = "training" if part.training else "without gradients"
            of = f" of {part.shapes}" if part.shapes else ""
            lines.append(f"{part.where}{of}, {kind}: {part.plan if part.plan is not None else part.reason}")
        lines += [f"outside of every plan: {text}" for text in self.outside]
        return "\n".join(lines)


class Ledger:
    """Keeps book of the graphs of one `Backend` or step.

    `where`: the user's place, if the code captured is ours; `positional`: the names of his arguments then.
    """

    def __init__(self, where: str = "", positional: Sequence[str] = ()) -> None:
        self.where, self.positional = where, positional
        self.parts: list[Part] = []
        self.outside: list[str] = []
        self.frames: set[int] = set()
        self.begun: float | None = None  # when the call began that may capture something
        self.by_size = False  # whether sizes that vary are captured one by one
        self.varies = False  # whether a capture serves many sizes
        self._shapes: dict[tuple[int, str], int] = {}
        # by frame, the shapes of the arguments of each of its captures
        self._known: dict[int, list[dict[str, tuple[int, ...]]]] = {}
        self._reported: set[str] = set()
        _ledgers.add(self)

    def add(self, inputs: Sequence[Any], training: bool, given: dict[str, torch.Tensor]) -> Part:
        """A new part, for the graph that is captured now; says so where it was captured before.

        `given`: those of its inputs that belong to no module, by the user's names.
        """
        where, frame = self.where or place_of_capture("a graph"), _frame()
        kept = [weakref.ref(t) for t in inputs if isinstance(t, torch.nn.Parameter)]
        leaves = [t for t in inputs if isinstance(t, torch.Tensor) and t.is_leaf and t.grad is not None]
        gradients = {id(t.grad) for t in leaves}
        accumulates = any(id(t) in gradients for t in inputs)
        given = {self.named(name): t for name, t in given.items()}
        part = Part(where, training, accumulates=accumulates, parameters=kept)
        part.begun = self.begun or time.perf_counter()
        shapes = {name: tuple(hint_of(n) for n in t.shape) for name, t in given.items()}
        types = (f"{str(t.dtype).removeprefix('torch.')}{list(shapes[name])}" for name, t in given.items())
        part.shapes = ", ".join(types)
        part.changed = self._new_shapes(frame, shapes)
        self.parts.append(part)
        self.frames.add(frame)
        self._tell_repeated(where, frame, inputs)
        return part

    def named(self, name: str) -> str:
        """The user's name for what is "argument 0" to our code, or in it."""
        for i, own in enumerate(self.positional):
            beginning = f"argument {i}"
            if name == beginning or name.startswith((f"{beginning}.", f"{beginning}[")):
                return own + name.removeprefix(beginning)
        return name

    def tell(self, text: str, outside: str = "") -> None:
        """Warns, once; `outside` goes into the report."""
        if outside and outside not in self.outside:
            self.outside.append(outside)
        if text not in self._reported:
            self._reported.add(text)
            warn(text)

    def read_break(self, module: fx.GraphModule, where: str) -> None:
        """Warns about the graph break at which a graph ends, if it does."""
        reason = getattr(module, "compile_subgraph_reason", None)
        if reason is not None and reason.graph_break:
            line = reason.user_stack[-1] if reason.user_stack else None
            place = f"{line.filename}:{line.lineno}" if line is not None else where
            self.tell_break(place, reason.reason)

    def tell_break(self, place: str, reason: str) -> None:
        """Tells where a capture was broken, and why."""
        outside = f"what runs between the graphs, broken at {place}: {_first_lines(reason)}"
        self.tell(
            f"the model is captured in parts, since it breaks at {place} ({_first_lines(reason)}). The budget holds "
            "for each part alone; what lies between runs eagerly, outside of it. remora.torch.report(model) lists all",
            outside,
        )

    def tell_last(self, where: str) -> None:
        """Tells that Dynamo will capture no further shapes of a function."""
        count = getattr(CompileContext.current_compile_id(), "frame_compile_id", None)
        limit = torch._dynamo.config.recompile_limit
        if count is not None and count >= limit - 1:
            self.tell(
                f"{where} was captured {limit} times, as often as torch._dynamo.config.recompile_limit allows. Calls "
                "with further shapes will run eagerly, without a budget; raise that limit, or pad to fewer shapes",
                f"calls of {where} with shapes beyond the first {limit}",
            )

    def tell_shapes(self, part: Part) -> None:
        """Tells that a part was planned for shapes that are new, and what that took; the first capture is expected.

        Not where `torch.compile` is the user's: it has its own log of what it compiles again.
        """
        if part.changed and self.begun is not None:
            self.tell(
                f"{part.where} has a plan for new shapes: {part.changed}. Capture and planning took "
                f"{time.perf_counter() - part.begun:.1f} s; remora.torch.padded makes a few shapes of many lengths"
            )

    def tell_sizes(self, part: Part, seconds: float) -> None:
        """Tells that sizes that have changed vary from now on, and what that took."""
        if part.changed:
            self.tell(
                f"{part.where} is captured for all sizes of what has changed: {part.changed}. That took "
                f"{seconds:.1f} s, and further sizes take less than a step or two; with sizes= the first call does so"
            )

    def tell_numbers(self, sizes: Iterable[str]) -> None:
        """Tells that sizes which were declared are numbers in what is captured; not where that is known already.

        Nor where they vary in another capture, whose guards this call did not meet.
        """
        names = ", ".join(sizes)
        if names and not self.by_size and not self.varies:
            self.tell(
                f"the sizes of {names} are numbers in what PyTorch captures of this step, which reads them as such: "
                "each size is captured and planned by itself"
            )

    def _new_shapes(self, frame: int, shapes: dict[str, tuple[int, ...]]) -> str:
        """The shapes that differ from those of the frame's latest capture; "" if it is the first, or all were there."""
        known = self._known.setdefault(frame, [])
        before, is_new = (known or [shapes])[-1], shapes not in known
        known.append(shapes)
        new = (f"{name} {shape}" for name, shape in shapes.items() if before.get(name, shape) != shape)
        return ", ".join(new) if is_new else ""

    def _tell_repeated(self, where: str, frame: int, inputs: Sequence[Any]) -> None:
        shapes = str(
            [([hint_of(n) for n in t.shape], t.dtype) if isinstance(t, torch.Tensor) else None for t in inputs]
        )
        there = self._shapes[frame, shapes] = self._shapes.get((frame, shapes), 0) + 1
        if there == ANEW:
            metrics = getattr(get_metrics_context(), "_metrics", {})
            reason = _first_lines(str(metrics.get("recompile_reason") or ""))
            self.tell(
                f"{where} is captured and planned for the {there}rd time with the same shapes, since something that it "
                f"reads changes from call to call{f': {reason}' if reason else ''}. Keep numbers and lists that change "
                "out of the step, or in tensors"
            )


def report(of: Any) -> Report:
    """Says what is planned of a module, step or compiled function, where, and whether the budget holds.

    Parameters
    ----------
    of : torch.nn.Module, TrainStep or Backend
        A module counts with all of its parameters: those that no planned graph has are named.
    """
    own = getattr(of, "ledger", None)
    module = of if isinstance(of, torch.nn.Module) else None
    parameters = dict(module.named_parameters()) if module is not None else {}
    ids = {id(p) for p in parameters.values()}
    concerned = [x for x in _ledgers if any(id(r()) in ids for part in x.parts for r in part.parameters)]
    ledgers = [own] if isinstance(own, Ledger) else concerned
    parts = [part for ledger in ledgers for part in ledger.parts]
    for part in parts:
        part.plan = (part.latest() if part.latest is not None else None) or part.plan
    outside = list(dict.fromkeys(text for ledger in ledgers for text in ledger.outside))
    outside += [f"{part.where}: {part.reason}" for part in parts if part.training and part.plan is None]
    if module is not None:
        planned = {id(r()) for part in parts if part.plan is not None and part.training for r in part.parameters}
        missing: dict[str, None] = {}
        for name, parameter in parameters.items():
            if parameter.requires_grad and id(parameter) not in planned:
                missing[name.rpartition(".")[0] or "the module itself"] = None
        kinds = {name: type(child).__name__ for name, child in module.named_modules()}
        outside += [f"{name} ({kinds.get(name, 'module')}) is in no planned graph" for name in missing]
    return Report(parts, outside)


def positional(function: Callable[..., Any]) -> list[str]:
    """Names of a function's parameters that are given by position, in order."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, given in inspect.signature(function).parameters.items() if given.kind in kinds]


def place_of_capture(otherwise: str) -> str:
    """Function, file and line of the code that Dynamo captures now; for a module's forward, those of the module.

    A decorator's wrapper may be what is captured.
    """
    compiling = next(_compiling(), None)
    if compiling is None:
        return otherwise
    code, module = compiling["code"], compiling.get("locals", {}).get("self")
    if isinstance(module, torch.nn.Module) and getattr(type(module).forward, "__code__", None) is code:
        return place_of_module(module)
    return _place_of_code(code)


def place_of_function(function: Callable[..., Any]) -> str:
    """A function's name, file and line; "" for other callables."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return _place_of_code(code) if code is not None else ""


def _place_of_code(code: types.CodeType) -> str:
    return f"{code.co_name} ({code.co_filename}:{code.co_firstlineno})"


def place_of_module(module: torch.nn.Module) -> str:
    """A module's class, and file and line of its forward."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"{type(module).__name__}{place}"


def _frame() -> int:
    """The number of the frame that Dynamo captures now."""
    found = getattr(CompileContext.current_compile_id(), "frame_id", None)
    return -1 if found is None else int(found)


def _compiling() -> Iterator[dict[str, Any]]:
    """Dynamo's variables of each compilation that runs now, innermost first: `code`, and the `locals` of its frame."""
    for frame in frames():
        if frame.f_code.co_name == "_compile" and isinstance(frame.f_locals.get("code"), types.CodeType):
            yield frame.f_locals


def _code() -> types.CodeType | None:
    """The code object that Dynamo compiles now."""
    return next((compiling["code"] for compiling in _compiling()), None)


def _first_lines(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    said = lines[0] if lines else ""
    if len(lines) > 1 and lines[1].startswith("Explanation:"):
        said = lines[1].removeprefix("Explanation:").strip()
    return said if len(said) <= 300 else said[:297] + "..."


# -- What no backend is asked about ------------------------------------------------------------------------------------


class _Listener:
    """Hears when Dynamo ends a compilation, and looks if it gave up a frame of ours."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def listen(self) -> None:
        """Begins to listen, if it does not; `torch._dynamo.reset` ends it."""
        if self not in callback_handler.end_callbacks:
            callback_handler.register_end_callback(self)

    def __call__(self, _: Any) -> None:
        now = {text: n for kind in ("unimplemented", "graph_break") for text, n in counters[kind].items()}
        new = [text for text, n in now.items() if n > self.known.get(text, 0)]
        self.known = now
        ledger = _ledger_of_capture()
        code = _code()
        if ledger is None or not new or code is None:
            return
        if _frame() not in ledger.frames:  # else the graph's own reason says it
            ledger.tell_break(f"{code.co_filename}:{code.co_firstlineno} ({code.co_name})", new[-1])


def _ledger_of_capture() -> Ledger | None:
    """The ledger of the backend for which Dynamo compiles now; None if it is not ours, or rejects breaks itself."""
    for frame in frames():
        converter = frame.f_locals.get("self")
        if frame.f_code.co_name == "__call__" and hasattr(converter, "_torchdynamo_orig_backend"):
            given = converter
            while given is not None:
                ledger = getattr(given, "ledger", None)
                if hasattr(getattr(given, "compiler_fn", None), "ledger_of"):
                    ledger = given.compiler_fn.ledger_of(**given.kwargs)
                if isinstance(ledger, Ledger):
                    return None if getattr(converter, "_one_graph", False) else ledger
                given = getattr(given, "_torchdynamo_orig_backend", None) or getattr(given, "compiler_fn", None)
            return None
    return None


_ledgers: weakref.WeakSet[Ledger] = weakref.WeakSet()
listener = _Listener()
