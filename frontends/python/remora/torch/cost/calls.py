# SPDX-License-Identifier: Apache-2.0
"""Cost of an op: nanoseconds, and workspace beyond its outputs in bytes.

Measured: each distinct call (op, shapes, strides, dtypes, constants, device, threads, determinism) runs a few times on
tensors made for it, and its median time counts. Its workspace is the largest sum of what the allocator gave out while
it ran, less its outputs: what PyTorch's allocator reports on the CPU, `requested_bytes` on a GPU. No op of the model
itself runs, so nothing of it changes, and no more memory is taken than the largest op needs. What was measured is kept
in a file by version of PyTorch and device. Ops with effects and collectives are not run for this: their time is that of
the roofline.

By FLOPs: a roofline of PyTorch's own count of FLOPs and of the bytes that are read and written; nothing runs. It does
not model workspaces, so the peak of a schedule may be exceeded by these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.flop_counter import flop_registry

from remora.onnx import Roofline

from ..capture.graph import GROWS, Op, StepGraph, has_effect, is_own, is_random, storage_bytes, tensors_in
from ..capture.updates import is_update, update_of
from ..errors import CaptureError, first_line
from ..job import same_answer
from ..measure import (
    allocated,
    cpu_clock,
    device_name,
    kernel_modes,
    measuring,
    random_state,
    rounded,
    timed,
)
from ..store import cache_folder, digest, read_json, write_json
from ..symbols import SYMBOLS, lengths_of, plain, text_of


def generic_machine(kind: str) -> Roofline:
    """The roofline of a CPU core, or of a GPU, where nothing is measured."""
    return Roofline("cpu", 1e11, 2e10, 5e-6) if kind == "cpu" else Roofline("gpu", 1e14, 2e12, 5e-6)


@dataclass(frozen=True)
class Allocation:
    """One allocation of a call: bytes, number among the results (-1: none), otherwise offset in the workspace."""

    size: int
    output: int
    offset: int


@dataclass(frozen=True)
class Cost:
    """Cost of one node: nanoseconds, workspace in bytes, and the bytes of the storages it really makes.

    `allocations`: all that it allocates, in order; recorded for an arena only. `draws`: it moved the generator, though
    it does not say that it is random.
    """

    duration: int
    workspace: int
    outputs: tuple[int, ...]
    allocations: tuple[Allocation, ...] = ()
    draws: bool = False


def measured(
    step: StepGraph,
    say: Callable[[str], None],
    instead: Callable[[Call], Cost | None] = lambda _: None,
    only: Sequence[fx.Node] | None = None,
) -> dict[fx.Node, Cost]:
    """The measured costs of every node that a step runs, or of some.

    All processes of a job take those that one of them measured. A call for which `instead` gives a cost is not run.
    """
    nodes = nodes_of(step) if only is None else list(only)
    calls = [[str(n.target), *([str(t.dtype), *t.shape] for t in tensors_in(step.value[n]))] for n in nodes]
    question = digest([step.device.type, calls])
    rows = same_answer(f"costs/{question}", lambda: _measured(step, nodes, say, instead))
    return {n: Cost(t, w, tuple(o), draws=bool(d)) for n, (t, w, o, *d) in zip(nodes, rows, strict=True)}


def _measured(
    step: StepGraph, nodes: list[fx.Node], say: Callable[[str], None], instead: Callable[[Call], Cost | None]
) -> list[list[Any]]:
    """For each node its time, its workspace, the sizes of its outputs, and perhaps that it draws random numbers."""
    device = step.device
    path = cache_folder() / "costs" / f"torch-{torch.__version__}-{device_name(device)}.json"
    known: dict[str, list[Any]] = read_json(path)
    calls = {node: Call(step, node) for node in nodes if not has_effect(node)}
    missing = {call.key: call for call in calls.values() if call.key not in known}
    extrapolated: dict[str, list[Any]] = {}
    if missing:
        # Nothing is fake here, whoever captures, and nothing is cast.
        with _disable_current_modes(), torch._C._DisableAutocast(), measuring(device):
            if device.type == "cuda":
                _wake(device)
            extrapolated = {key: _row(cost) for key, call in missing.items() if (cost := instead(call)) is not None}
            missing = {key: call for key, call in missing.items() if key not in extrapolated}
            for i, call in enumerate(missing.values()):
                say(f"measuring op {i + 1} of {len(missing)}")
                known[call.key] = [call.time()]
            for key, call in missing.items():
                known[key] += [*memory_of(call), *([True] if call.draws else [])]
        write_json(path, {**read_json(path), **known})
    found = {**known, **extrapolated}
    return [found[calls[n].key] if n in calls else _row(roofline(step, n, device)) for n in nodes]


def _row(cost: Cost) -> list[Any]:
    return [cost.duration, cost.workspace, list(cost.outputs), *([True] if cost.draws else [])]


def nodes_of(step: StepGraph) -> list[fx.Node]:
    """Every node that a step runs, in the order of its ops."""
    return [node for op in step.ops for node in op.nodes]


def by_flops(step: StepGraph, device: torch.device | None = None) -> dict[fx.Node, Cost]:
    """Costs of every node that a step runs, on its own device or on another, from a roofline."""
    return {node: roofline(step, node, device or step.device) for node in nodes_of(step)}


def adopt_sizes(step: StepGraph, costs: dict[fx.Node, Cost], read: StepGraph | None = None) -> None:
    """Takes the storages' sizes from what the ops really made, where fake tensors said otherwise.

    An op that drew random numbers without saying so runs once. `read`: the step whose values are read, if its sizes
    vary and `step` has numbers for them.
    """
    read = step if read is None else read
    for op in step.ops:
        if not op.nodes:
            continue
        op.recompute = op.recompute and not any(costs[node].draws for node in op.nodes)
        made = tensors_in(read.value[op.nodes[0]])
        for tensor, size in zip(made, costs[op.nodes[0]].outputs, strict=False):
            step.storages[read.storage_of(tensor)].size = size


def op_cost(op: Op, costs: dict[fx.Node, Cost]) -> tuple[int, int]:
    """Nanoseconds and workspace of an op, whose nodes run one after the other."""
    if not op.nodes:
        return 0, 0
    return sum(costs[n].duration for n in op.nodes), max(costs[n].workspace for n in op.nodes)


class Call:
    """One node as it will be called, with arguments made from its fake ones."""

    def __init__(self, step: StepGraph, node: fx.Node) -> None:
        self.node, self.device = node, step.device
        self.in_place = node in step.in_place
        self.draws = False
        self.target, arguments, options = step.call_of(node)
        taking = step.takes.get(step.owner[node]) if node in step.owner and grows(node) else None
        if taking is not None and node is step.owner[node].nodes[0]:
            self.target, self.in_place = taking.form, True
        self.given = step.values_in((arguments, options))
        leaves, spec = pytree.tree_flatten(self.given)
        modes = [*kernel_modes(step.device.type), cpu_clock().__name__]
        self.key = digest([_name(self.target), str(spec), [_describe(leaf) for leaf in leaves], modes])

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Tensors made for a call."""
        arguments, named = pytree.tree_map(made_like, self.given)
        return tuple(with_seeds(self.target, arguments)), named

    def run(self, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
        """Calls the op; a failure on the made-up tensors is a `CaptureError`."""
        try:
            with torch.no_grad():
                return self.target(*arguments[0], **arguments[1])
        except RuntimeError as error:
            said = first_line(error) or type(error).__name__
            raise CaptureError(
                f"{self.node.name}: {self.target} fails on tensors made to measure it: {said}; "
                'cost="flops" plans without measuring'
            ) from error

    def time(self) -> int:
        """The median time of a run, in nanoseconds; notes whether it drew random numbers without saying so."""
        arguments = self.arguments()
        if not is_random(self.node) and not is_own(self.node):
            before = random_state(self.device)
            self.run(arguments)
            self.draws = not torch.equal(before, random_state(self.device))
        return max(1, round(timed(lambda: self.run(arguments), self.device) * 1e9))


def _wake(device: torch.device) -> None:
    """Keeps a GPU busy till its clocks are up: an idle one is slow at first."""
    some = torch.ones(2048, 2048, device=device)
    start = time.perf_counter()
    while time.perf_counter() - start < 0.5:
        for _ in range(20):
            some @ some
        torch.cuda.synchronize()


def memory_of(call: Call) -> tuple[int, list[int]]:
    """The workspace of a call, and the bytes of each of its results; it runs once."""
    arguments = call.arguments()
    result, peak = allocated(lambda: call.run(arguments), call.device)
    sizes = _output_sizes(call, arguments, result)
    made = 0 if call.in_place else sum(int(t.untyped_storage().nbytes()) for t in tensors_in(result))
    return rounded(max(0, peak - made), call.device), sizes


def _output_sizes(call: Call, arguments: Any, result: Any) -> list[int]:
    """The bytes of each storage made; none of them may be an argument's."""
    if call.in_place:
        return []
    given = {t.untyped_storage().data_ptr() for t in tensors_in(arguments) if t.numel()}
    made = tensors_in(result)
    if any(t.numel() and t.untyped_storage().data_ptr() in given for t in made):
        raise CaptureError(f"{call.node.name}: {call.target} gives back an argument, against what it says")
    return [storage_bytes(t, call.device) for t in made]


def _name(target: Any) -> str:
    return str(target) if isinstance(target, torch._ops.OpOverload) else str(getattr(target, "__name__", target))


def _describe(leaf: Any) -> Any:
    """Everything on which the time and the memory of a call may depend."""
    if not isinstance(leaf, torch.Tensor):
        return text_of(leaf) if isinstance(leaf, SYMBOLS) else repr(leaf)
    numbers = lengths_of(leaf)
    lengths = [text_of(n) if isinstance(plain(n), torch.SymInt) else int(n) for n in numbers]
    return [str(leaf.dtype), str(leaf.device), leaf.is_conj(), leaf.is_neg(), leaf.dim(), lengths]


def made_like(leaf: Any, truth: bool = True) -> Any:
    """A real tensor that lies in its storage as a fake one does.

    Whole numbers are 0, a valid index everywhere; truth values are all the given one.
    """
    if not isinstance(leaf, torch.Tensor):
        return leaf
    elements = int(leaf.untyped_storage().nbytes()) // leaf.itemsize
    flat = torch.zeros(elements, dtype=leaf.dtype, device=leaf.device)
    if leaf.is_floating_point():
        flat.uniform_(0.1, 1.0)
    elif leaf.is_complex():
        torch.view_as_real(flat).uniform_(0.1, 1.0)
    elif leaf.dtype == torch.bool:
        flat.fill_(truth)
    made = flat.as_strided(leaf.shape, leaf.stride(), leaf.storage_offset())
    made = made.conj() if leaf.is_conj() else made
    return torch._neg_view(made) if leaf.is_neg() else made


def with_seeds(target: Any, arguments: Sequence[Any]) -> list[Any]:
    """The arguments of a call, seeds of dropout on the CPU for the attention whose backward reads them there.

    Fake tensors say that they lie on the GPU. Other attention reads them on the GPU, and rejects any others.
    """
    if not isinstance(target, torch._ops.OpOverload) or "efficient_attention" not in str(target):
        return list(arguments)
    seeds = {i for i, argument in enumerate(target._schema.arguments) if argument.name.startswith("philox")}
    return [torch.zeros_like(value, device="cpu") if i in seeds else value for i, value in enumerate(arguments)]


def grows(node: fx.Node) -> bool:
    """True if a node writes rows into its first argument, or adds a term to it: it is to work in place."""
    return node.target is torch.ops.aten.slice_scatter.default or GROWS in node.meta


def work_of(step: StepGraph, node: fx.Node) -> tuple[int, int]:
    """The floating-point operations of a node's call, and the bytes that it reads and writes."""
    (arguments, options), result = step.given(node), step.value[node]
    if node.target is torch.ops.aten.slice_scatter.default and step.owner[node] in step.takes:
        return 0, 2 * arguments[1].numel() * arguments[1].itemsize
    packet = getattr(node.target, "overloadpacket", None)
    count = flop_registry.get(packet)
    if packet is torch.ops.aten.convolution_backward:
        operations = _gradients_of_convolution(arguments)
    else:
        operations = int(count(*arguments, **options, out_val=result)) if count is not None else 0
    # An expanded tensor is read from what lies beneath it.
    sizes = (
        min(t.numel() * t.itemsize, int(t.untyped_storage().nbytes())) for t in tensors_in((arguments, options, result))
    )
    if is_update(node):  # writes the parameter, and reads and writes the state
        return operations, sum(sizes) + arguments[0].nbytes + 2 * update_of(node).memory.state
    return operations, sum(sizes)


def _gradients_of_convolution(arguments: tuple[Any, ...]) -> int:
    """One convolution for each operand; PyTorch's count has each group's weights meet all channels."""
    gradient, given, weight, transposed, wanted = (*arguments[:3], arguments[7], arguments[-1])
    spread = given if transposed else gradient
    return int(sum(wanted[:2]) * 2 * spread.numel() * weight[0].numel())


def workspace_of(step: StepGraph, node: fx.Node) -> int:
    """Bytes that a node takes beyond its outputs, as far as they are known without running it."""
    return update_of(node).memory_on(step.device).temporaries if is_update(node) else 0


def roofline(step: StepGraph, node: fx.Node, device: torch.device) -> Cost:
    """Cost of a node by its FLOPs and the bytes that it moves, on a device; nothing runs."""
    operations, moved = work_of(step, node)
    seconds = generic_machine(device.type).seconds(operations, moved)
    made = tensors_in(step.value[node])
    return Cost(max(1, round(seconds * 1e9)), workspace_of(step, node), tuple(step.bytes_of(t) for t in made))
