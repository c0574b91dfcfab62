# SPDX-License-Identifier: Apache-2.0
"""Computation graphs: tensors, and the ops that read and write them."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeVar

from remora import _engine, networks
from remora._arguments import boolean, count, integer, json_bytes, read_file, string, write_text
from remora.axes import Axis, Cut, rows_of_axes
from remora.errors import InputError
from remora.modes import Mode, OpModes, modes_of, modes_row

if TYPE_CHECKING:
    import networkx

__all__ = ["Graph", "Op", "Phase", "Tensor"]

Phase = Literal["forward", "loss", "backward"]
"""The part of a training step that an op belongs to."""


class Tensor:
    """A value that one op writes and others read, or an input of the graph.

    Made by `Graph.tensor` and `Graph.op`. It is a handle, equal to every other one of the same tensor of that graph.
    """

    __slots__ = ("_graph", "_id")
    _graph: Graph
    _id: int

    def __init__(self) -> None:
        raise TypeError("tensors are made by Graph.tensor() and Graph.op()")

    @property
    def graph(self) -> Graph:
        """The graph that it belongs to."""
        return self._graph

    @property
    def index(self) -> int:
        """Its place among the graph's tensors, from 0."""
        return self._id

    @property
    def name(self) -> str:
        """Unique among the graph's tensors."""
        return self._graph._core.tensor_name(self._id)

    @property
    def size(self) -> int:
        """Bytes."""
        return self._graph._core.tensor_size(self._id)

    @size.setter
    def size(self, size: SupportsIndex) -> None:
        self._graph._core.set_tensor_size(self._id, integer(size, "size"))

    @property
    def keep(self) -> bool:
        """True if it must be resident when the schedule ends; it may be evicted before and recomputed."""
        return self._graph._core.tensor_keep(self._id)

    @keep.setter
    def keep(self, keep: bool) -> None:
        self._graph._core.set_tensor_keep(self._id, boolean(keep, "keep"))

    @property
    def producer(self) -> Op | None:
        """The op that writes it; None for an input of the graph, which is always resident."""
        number = self._graph._core.producer(self._id)
        return None if number < 0 else op_at(self._graph, number)

    @property
    def users(self) -> tuple[Op, ...]:
        """The ops that read it, in the graph's order."""
        return tuple(op_at(self._graph, number) for number in self._graph._core.users(self._id))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and other._id == self._id and other._graph is self._graph

    def __hash__(self) -> int:
        return hash((id(self._graph), self._id))

    def __reduce__(self) -> tuple[Any, ...]:
        return tensor_at, (self._graph, self._id)

    def __repr__(self) -> str:
        return f"<Tensor {self.name!r}, {_engine.bytes_text(self.size)}>"


class Op:
    """One operation of a graph.

    Made by `Graph.op`. It is a handle, as `Tensor` is. Iterating over it gives its outputs, so that
    ``y, mask = graph.op(...)`` names them; an op with one output can stand for that output among another's inputs.
    """

    __slots__ = ("_graph", "_id")
    _graph: Graph
    _id: int

    def __init__(self) -> None:
        raise TypeError("ops are made by Graph.op()")

    @property
    def graph(self) -> Graph:
        """The graph that it belongs to."""
        return self._graph

    @property
    def index(self) -> int:
        """Its place in the graph's order, from 0."""
        return self._id

    @property
    def name(self) -> str:
        """Unique among the graph's ops."""
        return self._graph._core.op_name(self._id)

    @property
    def type(self) -> str:
        """``"Conv"``, ``"MatMul"``, …; may be empty."""
        return self._graph._core.op_type(self._id)

    @property
    def duration(self) -> int:
        """In the unit of the graph (`Graph.duration_unit`)."""
        return self._graph._core.op_duration(self._id)

    @duration.setter
    def duration(self, duration: SupportsIndex) -> None:
        self._graph._core.set_op_duration(self._id, integer(duration, "duration"))

    @property
    def workspace(self) -> int:
        """Bytes of scratch memory that live only while it runs."""
        return self._graph._core.op_workspace(self._id)

    @workspace.setter
    def workspace(self, workspace: SupportsIndex) -> None:
        self._graph._core.set_op_workspace(self._id, integer(workspace, "workspace"))

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that it reads."""
        return tuple(tensor_at(self._graph, number) for number in self._graph._core.op_inputs(self._id))

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that it writes."""
        return tuple(tensor_at(self._graph, number) for number in self._graph._core.op_outputs(self._id))

    @property
    def output(self) -> Tensor:
        """The one tensor that it writes; an `InputError` if there are several."""
        outputs = self.outputs
        if len(outputs) != 1:
            raise InputError(f"op {self.name!r}", f"has {len(outputs)} outputs: say which, for example op.outputs[0]")
        return outputs[0]

    @property
    def recompute(self) -> bool:
        """False for random or effectful ops, which run exactly once."""
        return self._graph._core.op_recompute(self._id)

    @recompute.setter
    def recompute(self, recompute: bool) -> None:
        self._graph._core.set_op_recompute(self._id, boolean(recompute, "recompute"))

    @property
    def max_computes(self) -> int | None:
        """How often it may run, the first time counted; None: as the solve says."""
        return self._graph._core.op_max_computes(self._id)

    @max_computes.setter
    def max_computes(self, most: SupportsIndex | None) -> None:
        self._graph._core.set_op_max_computes(self._id, count(most, "max_computes"))

    @property
    def phase(self) -> Phase | None:
        """The part of a training step that it belongs to."""
        phase: Any = self._graph._core.op_phase(self._id) or None
        return phase  # type: ignore[no-any-return]

    @property
    def backward_of(self) -> Op | None:
        """The forward op whose gradient it computes."""
        number = self._graph._core.op_backward_of(self._id)
        return None if number < 0 else op_at(self._graph, number)

    @property
    def after(self) -> tuple[Op, ...]:
        """Ops whose first runs come before its first run, though it reads none of their outputs."""
        return tuple(op_at(self._graph, number) for number in self._graph._core.op_after(self._id))

    @property
    def in_place(self) -> Mapping[Tensor, Tensor]:
        """Outputs, and for each the input whose storage it takes over where a run releases that input."""
        return {
            tensor_at(self._graph, a): tensor_at(self._graph, b) for a, b in self._graph._core.op_in_place(self._id)
        }

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The loops along which it may be computed in slices."""
        return tuple(
            Axis(
                extent,
                {tensor_at(self._graph, number): Cut(*numbers) for number, *numbers in cuts},
                tuple(tensor_at(self._graph, number) for number in sums),
                workspace,
            )
            for extent, cuts, sums, workspace in self._graph._core.op_axes(self._id)
        )

    @property
    def modes(self) -> OpModes | None:
        """Other ways to run it; None: it has one."""
        graph = self._graph
        return modes_of(graph._core.op_modes(self._id), lambda t: tensor_at(graph, t), lambda op: op_at(graph, op))

    @modes.setter
    def modes(self, modes: OpModes | Iterable[Mode | None] | None) -> None:
        self._graph._core.set_op_modes(self._id, self._graph._modes_row(modes))

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.outputs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Op) and other._id == self._id and other._graph is self._graph

    def __hash__(self) -> int:
        return hash((id(self._graph), self._id, "op"))

    def __reduce__(self) -> tuple[Any, ...]:
        return op_at, (self._graph, self._id)

    def __repr__(self) -> str:
        return f"<Op {self.name!r}, {_engine.duration_text(self.duration, self._graph.duration_unit)}>"


TensorLike = Tensor | Op | str
"""A tensor, its name, or an op with one output."""

OpLike = Op | str | int
"""An op, its name, or its place in the graph's order."""


def tensor_at(graph: Graph, number: int) -> Tensor:
    """The tensor of a number."""
    tensor = Tensor.__new__(Tensor)
    tensor._graph = graph
    tensor._id = number
    return tensor


def op_at(graph: Graph, number: int) -> Op:
    """The op of a number."""
    op = Op.__new__(Op)
    op._graph = graph
    op._id = number
    return op


class Graph:
    """A computation graph: tensors, and ops in an order in which they could run.

    Parameters
    ----------
    name : str
        Shown in reports.
    fixed_memory : int
        Bytes that are always resident: parameters, optimizer state.
    duration_unit : str
        What the durations count: ``"ns"`` makes reports speak of milliseconds.

    Examples
    --------
    >>> import remora
    >>> g = remora.Graph("mlp")
    >>> x = g.tensor("x", 4 << 20)
    >>> a = g.op("A", duration=3, inputs=[x], outputs={"a": 8 << 20})
    >>> b = g.op("B", duration=5, inputs=[a], outputs={"b": 1 << 20})
    >>> len(g.ops), g.baseline_duration
    (2, 8)
    """

    _core: _engine.Graph
    __slots__ = ("__weakref__", "_core")

    def __init__(self, name: str = "", *, fixed_memory: SupportsIndex = 0, duration_unit: str = "") -> None:
        self._core = _engine.Graph(string(name, "name"))
        self._core.fixed_memory = integer(fixed_memory, "fixed_memory")
        if string(duration_unit, "duration_unit"):
            self.meta = {"duration_unit": duration_unit}

    # Building

    def tensor(self, name: str, size: SupportsIndex, *, keep: bool = False) -> Tensor:
        """Adds a tensor: an input of the graph, unless an op lists it among its outputs.

        Parameters
        ----------
        name : str
            Not empty, unique among the graph's tensors.
        size : int
            Bytes.
        keep : bool
            It must be resident when the schedule ends; it may be evicted before and recomputed.

        Returns
        -------
        Tensor
        """
        size, keep = integer(size, f"size of tensor {name!r}"), boolean(keep, "keep")
        return tensor_at(self, self._core.add_tensor(string(name, "name"), size, keep))

    def op(
        self,
        name: str,
        *,
        duration: SupportsIndex,
        outputs: Mapping[str, SupportsIndex] | Iterable[Tensor | str],
        inputs: Iterable[TensorLike] = (),
        workspace: SupportsIndex = 0,
        type: str = "",
        keep: bool | Collection[str] = False,
        recompute: bool = True,
        max_computes: SupportsIndex | None = None,
        phase: Phase | None = None,
        backward_of: OpLike | None = None,
        after: Iterable[OpLike] = (),
        in_place: Mapping[str, TensorLike] | None = None,
        axes: Iterable[Axis] = (),
        modes: OpModes | Iterable[Mode | None] | None = None,
    ) -> Op:
        """Adds an op after all ops that are there.

        Parameters
        ----------
        name : str
            Not empty, unique among the graph's ops.
        duration : int
            In any unit, the same for the whole graph.
        outputs : mapping of str to int, or iterable of Tensor or str
            New tensors by name with their bytes, or tensors made by `tensor`; one or more.
        inputs : iterable of Tensor, Op or str
            The tensors that it reads; an op stands for its one output.
        workspace : int
            Bytes of scratch memory that live only while it runs.
        type : str
            ``"Conv"``, ``"MatMul"``, …
        keep : bool or collection of str
            Which of the new outputs must be resident when the schedule ends: all, none, or those named.
        recompute : bool
            False for random or effectful ops, which run exactly once.
        max_computes : int, optional
            How often it may run, the first time counted.
        phase : {"forward", "loss", "backward"}, optional
            The part of a training step that it belongs to.
        backward_of : Op, str or int, optional
            The forward op whose gradient it computes.
        after : iterable of Op, str or int
            Ops whose first runs come before its own, though it reads none of their outputs.
        in_place : mapping of str to Tensor, Op or str, optional
            Names of outputs, and for each the input whose storage it takes over (docs/reference/formats.md).
        axes : iterable of Axis
            The loops along which the op may be computed in slices.
        modes : OpModes or iterable of Mode, optional
            Other ways to run it, of which each step of a schedule names one (docs/design/model.md).

        Returns
        -------
        Op

        Raises
        ------
        InputError
            For names that are taken, negative amounts, an output that has a producer, a tensor of another graph, or
            axes or modes that do not fit; the graph is then as it was.
        """
        made: list[tuple[str, int, bool]]
        if isinstance(outputs, Mapping):
            kept = self._kept(keep, outputs)
            made = [(key, size, key in kept) for key, size in outputs.items()]  # type: ignore[misc]
            written = []
        else:
            made, written = [], self._written(outputs, keep)
        # Straight to the engine, which takes only what is right; what is wrong is then said with its name.
        arguments: list[Any] = [
            name,
            duration,
            [tensor_number(self, tensor, "inputs") for tensor in listed(inputs, "inputs")],
            written,
            made,
            workspace,
            type,
            recompute,
            max_computes,
            phase or "",
            -1 if backward_of is None else op_number(self, backward_of, "backward_of"),
            [op_number(self, op, "after") for op in listed(after, "after")] if after else [],
            [(string(key, "in_place"), tensor_number(self, x, "in_place")) for key, x in (in_place or {}).items()],
            rows_of_axes(listed(axes, "axes"), self._tensor_name) if axes else [],
            self._modes_row(modes),
        ]
        try:
            return op_at(self, self._core.add_op(*arguments))
        except TypeError:
            return op_at(self, self._core.add_op(*_checked(arguments)))

    def _modes_row(self, modes: OpModes | Iterable[Mode | None] | None) -> Any:
        return modes_row(
            modes, lambda t, place: tensor_number(self, t, place), lambda op, place: op_number(self, op, place)
        )

    def _tensor_name(self, tensor: TensorLike, place: str) -> str:
        """The name of a tensor, which an op that is being added may make."""
        if isinstance(tensor, str):
            return string(tensor, place)
        return self._core.tensor_name(tensor_number(self, tensor, place))

    def _kept(self, keep: bool | Collection[str], outputs: Mapping[str, Any]) -> Collection[str]:
        if isinstance(keep, bool):
            return outputs.keys() if keep else ()
        if isinstance(keep, str) or not isinstance(keep, Collection):
            raise TypeError(f"keep: must be True, False or names of outputs, not {keep.__class__.__name__}")
        for name in keep:
            if name not in outputs:
                raise InputError("keep", f"{name!r} is not one of the outputs {', '.join(map(repr, outputs))}")
        return keep

    def _written(self, outputs: Iterable[Tensor | str], keep: bool | Collection[str]) -> list[int]:
        if keep is not False:
            raise InputError("keep", "these outputs exist already: say Graph.tensor(..., keep=True)")
        numbers = []
        for tensor in listed(outputs, "outputs"):
            if isinstance(tensor, Op):
                raise TypeError("outputs: must be new names with sizes, or tensors; not an Op")
            numbers.append(tensor_number(self, tensor, "outputs"))
        return numbers

    # Looking

    @property
    def name(self) -> str:
        """Shown in reports."""
        return self._core.name

    @name.setter
    def name(self, name: str) -> None:
        self._core.name = string(name, "name")

    @property
    def fixed_memory(self) -> int:
        """Bytes that are always resident: parameters, optimizer state."""
        return self._core.fixed_memory

    @fixed_memory.setter
    def fixed_memory(self, size: SupportsIndex) -> None:
        self._core.fixed_memory = integer(size, "fixed_memory")

    @property
    def meta(self) -> dict[str, Any]:
        """Where the graph came from: a copy of what the file keeps under ``meta``."""
        text = self._core.meta
        meta: dict[str, Any] = json.loads(text) if text else {}
        return meta

    @meta.setter
    def meta(self, meta: Mapping[str, Any]) -> None:
        try:
            text = json.dumps(dict(meta), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        except (TypeError, ValueError) as error:
            raise InputError("meta", f"cannot be written as JSON: {error}") from None
        self._core.meta = text if meta else ""

    @property
    def duration_unit(self) -> str:
        """The unit of durations, ``""`` if unknown."""
        unit = self.meta.get("duration_unit", "")
        return unit if isinstance(unit, str) else ""

    @property
    def ops(self) -> Sequence[Op]:
        """All ops in their order."""
        return tuple(op_at(self, number) for number in range(self._core.op_count()))

    @property
    def tensors(self) -> Sequence[Tensor]:
        """All tensors."""
        return tuple(tensor_at(self, number) for number in range(self._core.tensor_count()))

    def find_op(self, name: str) -> Op:
        """The op of this name, as ``graph[name]``; KeyError if there is none."""
        number = self._core.find_op(string(name, "name"))
        if number < 0:
            raise KeyError(name)
        return op_at(self, number)

    __getitem__ = find_op

    def find_tensor(self, name: str) -> Tensor:
        """The tensor of this name; KeyError if there is none."""
        number = self._core.find_tensor(string(name, "name"))
        if number < 0:
            raise KeyError(name)
        return tensor_at(self, number)

    @property
    def baseline_duration(self) -> int:
        """The duration of every op once."""
        return self._core.baseline()[0]

    @property
    def baseline_peak(self) -> int:
        """Bytes: the peak of the input order without recompute."""
        return self._core.baseline()[1]

    def validate(self) -> None:
        """Raises `InputError` with the path of the first fault; every solve does so, too."""
        self._core.validate()

    def copy(self) -> Graph:
        """A graph of its own with the same tensors and ops."""
        return made_graph(self._core.copy(), Graph)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        return self.copy()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and (other is self or self._core.equals(other._core))

    def __hash__(self) -> int:
        # A graph grows: nothing of it stays as it is but that it is one.
        return hash(Graph)

    def __contains__(self, op: object) -> bool:
        """True if an op of this name, or this op, is in the graph."""
        if isinstance(op, str):
            return self._core.find_op(op) >= 0
        return isinstance(op, Op) and op._graph is self

    def __len__(self) -> int:
        return self._core.op_count()

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {self._core.op_count()} ops, {self._core.tensor_count()} tensors>"

    # Files and other forms

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Graph:
        """Reads a remora-graph file (docs/reference/formats.md).

        Parameters
        ----------
        path : path-like

        Raises
        ------
        InputError
            With the file and the path of the first fault inside it.
        OSError
            If the file cannot be read.
        """
        return read_file(path, cls.from_json)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph as remora-graph JSON, whole or not at all."""
        write_text(path, self.to_json())

    @classmethod
    def from_json(cls, source: str | bytes | Mapping[str, Any]) -> Graph:
        """The graph in the text of a file, or in a dict as `json.load` gives it."""
        return made_graph(_engine.Graph.read(json_bytes(source)), cls)

    def to_json(self) -> str:
        """The text of the graph's file."""
        return self._core.write()

    @classmethod
    def from_networkx(
        cls,
        graph: networkx.DiGraph[Any],
        *,
        duration: str = "duration",
        size: str = "size",
        name: str | None = None,
    ) -> Graph:
        """Makes a graph of networkx's: each node becomes an op with one output, which all its successors read.

        Ops keep the order of the nodes if it is a valid one; otherwise they are sorted topologically. A graph written
        by `to_networkx` with ``tensors=True`` is restored exactly.

        Parameters
        ----------
        graph : networkx.DiGraph
            Without cycles. Attributes of nodes that are read in addition to duration and size: ``type``, ``workspace``,
            ``keep``, ``recompute``, ``max_computes``, ``phase``; without ``keep``, unused outputs are kept. Attributes
            of the graph: ``name``, ``fixed_memory``, ``duration_unit``.
        duration, size : str
            The attributes of a node that hold its duration and the bytes of its output (``"cost_cpu"`` and
            ``"cost_ram"`` in Checkmate's graphs).
        name : str, optional
            Of the graph; the graph's own attribute by default.

        Raises
        ------
        InputError
            For a cycle, for a node without duration or size, and for anything that `Graph.op` rejects.
        """
        return networks.read(cls, graph, duration, size, name)

    def to_networkx(self, *, tensors: bool = False) -> networkx.DiGraph[Any]:
        """The ops as networkx's graph.

        Parameters
        ----------
        tensors : bool
            Also one node per tensor, and edges from what writes to what is written to what reads: nothing is lost, and
            `from_networkx` gives the graph back.

        Returns
        -------
        networkx.DiGraph
            Without tensors: one node per op, by name, with ``duration``, ``size`` (of all its outputs), ``type`` and
            so on; an edge to every op that reads it, with ``tensors`` (names) and ``size``. With tensors: nodes are
            pairs of ``"op"`` or ``"tensor"`` and the name.
        """
        return networks.written(self, tensors)

    def __reduce__(self) -> tuple[Any, ...]:
        return Graph.from_json, (self.to_json(),)


T = TypeVar("T")


# For the package's other modules.


def core_of(graph: Graph) -> _engine.Graph:
    """The engine's graph, or TypeError for what is none."""
    if isinstance(graph, Graph):
        return graph._core
    raise TypeError(f"graph: must be a remora.Graph, not {type(graph).__name__}")


G = TypeVar("G", bound=Graph)


def made_graph(core: _engine.Graph, kind: type[G]) -> G:
    """The engine's graph as one of Python's."""
    graph = kind.__new__(kind)
    graph._core = core
    return graph


def tensor_number(graph: Graph, tensor: TensorLike, place: str) -> int:
    """The number of a tensor of the graph, or what is wrong with `place`."""
    if tensor.__class__ is Tensor and tensor._graph is graph:
        return tensor._id
    if isinstance(tensor, Op):
        _check_own(graph, tensor, place)
        return tensor.output._id
    if isinstance(tensor, str):
        number = graph._core.find_tensor(string(tensor, place))
        if number < 0:
            new = f"; a new one needs its bytes, as in outputs={{{tensor!r}: 4096}}" if place == "outputs" else ""
            raise InputError(place, f"there is no tensor {tensor!r}{new}")
        return number
    if isinstance(tensor, Tensor):
        _check_own(graph, tensor, place)
        return tensor._id
    raise TypeError(f"{place}: must be a Tensor, an Op or a name, not {tensor.__class__.__name__}")


def op_number(graph: Graph, op: OpLike, place: str) -> int:
    """The number of an op of the graph, or what is wrong with `place`."""
    if isinstance(op, Op):
        _check_own(graph, op, place)
        return op._id
    if isinstance(op, str):
        number = graph._core.find_op(string(op, place))
        if number < 0:
            raise InputError(place, f"there is no op {op!r}")
        return number
    if isinstance(op, bool):
        raise TypeError(f"{place}: must be an Op, a name or a number, not bool")
    number = integer(op, place)
    if number >= graph._core.op_count():
        raise InputError(place, f"no op has the number {number}")
    return number


def _check_own(graph: Graph, thing: Tensor | Op, place: str) -> None:
    if thing._graph is not graph:
        raise InputError(place, f"{thing.name!r} is of another graph, {thing._graph.name!r}")


def listed(things: Iterable[T], place: str) -> Iterable[T]:
    """The things, unless they are one text: a name where a list of names is meant."""
    if isinstance(things, (str, bytes, Tensor, Op)) or not isinstance(things, Iterable):
        raise TypeError(f"{place}: must be a list, not {type(things).__name__}")
    return things


def _checked(arguments: list[Any]) -> list[Any]:
    """The arguments of add_op as exact types, or the exception that names the one that is wrong."""
    name, duration, inputs, written, made, workspace, kind, recompute, most, *rest = arguments
    place = f"op {name!r}"
    return [
        string(name, "name"),
        integer(duration, f"duration of {place}"),
        inputs,
        written,
        [
            (string(key, f"outputs of {place}"), integer(size, f"size of tensor {key!r}"), keep)
            for key, size, keep in made
        ],
        integer(workspace, f"workspace of {place}"),
        string(kind, f"type of {place}"),
        boolean(recompute, f"recompute of {place}"),
        count(most, f"max_computes of {place}"),
        string(rest[0], f"phase of {place}"),
        *rest[1:],
    ]
