# SPDX-License-Identifier: Apache-2.0
"""Ops that need no memory of their own are joined with the op whose storage they take.

A functional graph allocates where eager PyTorch works in place. Two forms of this are undone:

* A pointwise op whose first argument is the whole of a storage that no other op reads (a ReLU after a normalization, a
  sum with an earlier value) runs in place, right after the op that made the storage. To a schedule the two are one op:

      convolution -> a -> relu -> b        becomes        [convolution, relu_] -> b

  If it also reads what need not be there when that storage is made, the two stay apart: as one op, each part of a sum
  would have to wait for the parts before it, so that no order could finish a part before the next begins.

* An update whose new value is a pointwise function of the old one, which no other op reads (`grad + new`), happens in
  place as soon as possible. All other updates wait until everything has run, so that no op reads them too early.

Such an op may take over the storage of an input if a schedule releases that input right after it, and so may an op
whose input others read (it is recomputed for them): the graph says so (`in_place`), and the program does it where it
applies.

The values are equal bit for bit: PyTorch runs one kernel for both forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from ..symbols import same_lengths, surely
from .graph import GROWS, Op, StepGraph, Storage, Taking, is_random
from .updates import place_updates


def simplify(step: StepGraph) -> None:
    """Joins the ops of a step that work in place; O(ops * edges) at worst."""
    for op in list(step.ops):
        if op.nodes:
            _join(step, op)
    _update_in_place(step)
    _offer_storages(step)
    place_updates(step)


def write_rows(
    whole: torch.Tensor, rows: torch.Tensor, dim: int = 0, start: int | None = None, end: int | None = None
) -> torch.Tensor:
    """The in-place form of `slice_scatter` without steps: rows are written into what holds all of them."""
    torch.ops.aten.slice.Tensor(whole, dim, start, end).copy_(rows)
    return whole


def in_place_form(node: fx.Node) -> Any:
    """The in-place form of a pointwise ATen op, or of one that writes rows; None where there is none."""
    target = node.target
    if target is torch.ops.aten.slice_scatter.default:
        return write_rows if len(node.args) < 6 and not node.kwargs else None
    if target is torch.ops.aten.addmm.default and GROWS in node.meta:
        return torch.ops.aten.addmm_.default
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    arguments = target._schema.arguments
    if torch.Tag.pointwise not in target.tags or is_random(node) or not arguments or arguments[0].name != "self":
        return None
    packet = getattr(torch.ops.aten, target.overloadpacket.__name__ + "_", None)
    form = getattr(packet, target._overloadname, None) if packet is not None else None
    if form is None or [a.name for a in form._schema.arguments] != [a.name for a in arguments]:
        return None
    return form


def _join(step: StepGraph, op: Op) -> None:
    """Joins `op` with the op that made the storage of its first argument, if it may take that.

    If it reads something else that comes later, it only follows that op directly, and may take over the storage there.
    """
    node = op.nodes[0]
    form = in_place_form(node)
    if form is None or len(op.outputs) != 1:
        return
    apart: list[Op] = []
    maker = {s: o for o in step.ops for s in o.outputs}
    for place in (0, 1) if _commutes(node) else (0,):
        taken = _whole_storage(step, node, place)
        if taken is None or not _may_take(step, op, node.args[place], taken):
            continue
        if (step.cut is None or GROWS in node.meta) and not _reads_before(op, taken, maker):
            apart.append(maker[taken])
            continue
        _take(step, op, taken, form)
        if place == 1:
            step.swapped.add(node)
        return
    if apart:
        step.ops.remove(apart[0])
        step.ops.insert(step.ops.index(op), apart[0])


def _reads_before(op: Op, taken: int, maker: Mapping[int, Op]) -> bool:
    """True if all that `op` reads besides a storage exists whenever the maker of that storage runs."""
    head = maker[taken]
    late = {maker[s] for s in op.inputs if s != taken and s in maker} - {head}
    ahead, seen = [head], {head}
    while late and ahead:
        new = {maker[s] for s in ahead.pop().inputs if s in maker} - seen
        ahead += new
        seen |= new
        late -= new
    return not late


def _offer_storages(step: StepGraph) -> None:
    """Notes which ops could work in the storage of an input that others read too, if a schedule releases it there.

    Of two programs those that grow a result of slices: the input of others may be saved for the backward part.
    """
    held = step.cut_op.inputs if step.cut_op is not None else []  # by the user
    for op in step.ops:
        node = op.nodes[0] if op.nodes else None
        if step.cut is not None and (node is None or GROWS not in node.meta):
            continue
        form = in_place_form(node) if node is not None and node not in step.in_place else None
        if node is None or form is None or len(op.outputs) != 1 or step.storages_of(node) != op.outputs:
            continue
        for place in (0, 1) if _commutes(node) else (0,):
            taken = _whole_storage(step, node, place)
            if taken is None or step.storages[taken].fixed or taken in [*op.outputs, *held]:
                continue
            others = [n for n in node.all_input_nodes if n is not node.args[place]]
            others += [n for later in op.nodes[1:] for n in later.all_input_nodes if n not in op.nodes]
            if not any(taken in step.needs.get(step.resolve(n), []) for n in others):
                step.takes[op] = Taking(op.outputs[0], taken, place, form)
                break


def _commutes(node: fx.Node) -> bool:
    commuting = (torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor)
    return node.target in commuting and not node.kwargs and len(node.all_input_nodes) == len(node.args) == 2


def _may_take(step: StepGraph, op: Op, given: Any, taken: int) -> bool:
    """True if only `op` needs the storage of its argument `given`, and the two ops may be one."""
    if step.storages[taken].fixed or step.storages[taken].keep:
        return False
    others = [step.resolve(n) for n in op.nodes[0].all_input_nodes if n is not given]
    if any(taken in step.needs.get(n, []) for n in others) or sum(taken in o.inputs for o in step.ops) != 1:
        return False
    head = next(o for o in step.ops if taken in o.outputs)
    if not head.nodes or head.random or head.backward != op.backward or not (head.recompute and op.recompute):
        return False
    return _may_wait(step, head, step.ops.index(head), step.ops.index(op))


def _take(step: StepGraph, op: Op, taken: int, form: Any) -> None:
    """Makes `op` a part of the op that made the storage it takes."""
    head = next(o for o in step.ops if taken in o.outputs)
    node, (given,) = op.nodes[0], op.outputs
    head.nodes += op.nodes
    head.inputs = list(dict.fromkeys(head.inputs + [s for s in op.inputs if s not in head.outputs]))
    step.owner[node] = head
    step.rebound[node] = form
    step.in_place.add(node)
    step.ops[step.ops.index(op)] = head
    step.ops.remove(head)  # the first of the two
    step.storages[taken].keep = step.storages[given].keep
    step.unite(given, taken)


def _whole_storage(step: StepGraph, node: fx.Node, place: int) -> int | None:
    """Finds the storage of an argument, if that fills it and lies in it as the node's own value will lie."""
    source = node.args[place] if place < len(node.args) else None
    if not isinstance(source, fx.Node):
        return None
    given, made = step.value[step.resolve(source)], step.value[node]
    if not isinstance(given, torch.Tensor) or not _is_like(given, made):
        return None
    if not same_lengths(given.stride(), made.stride()):
        return None
    if not surely(given.untyped_storage().nbytes() == given.numel() * given.itemsize):
        return None
    return step.storages_of(source)[0]


def _may_wait(step: StepGraph, head: Op, first: int, last: int) -> bool:
    """True if `head` may run as late as `last`: no op reads it before, and none of its inputs lives longer for that."""
    between = step.ops[first + 1 : last]
    if any(set(head.outputs) & set(o.inputs) for o in between):
        return False
    later = {s for o in step.ops[last:] for s in o.inputs}
    return not between or all(step.storages[s].fixed or step.storages[s].keep or s in later for s in head.inputs)


def _update_in_place(step: StepGraph) -> None:
    """Turns updates that only add to their place into ops of their own, which run once."""
    waiting = []
    for place, source in step.updates:
        op = step.owner.get(source)
        (storage,) = step.storages_of(place)
        form = in_place_form(source)
        alone = sum(storage in o.inputs for o in step.ops) == 1 and sum(p is place for p, _ in step.updates) == 1
        reads = op is not None and not any(s in o.inputs for s in op.outputs for o in step.ops)
        kept = sum(n is source for n in step.results()) == 1
        first = source.args[0] if source.args else None
        once = sum(n is first for n in source.all_input_nodes) == 1 and source.args[1:].count(first) == 0
        if (
            op is None
            or form is None
            or first is not place
            or not (alone and reads and kept and once)
            or op.nodes != [source]
            or not _is_like(step.value[place], step.value[source])
        ):
            waiting.append((place, source))
            continue
        op.recompute = False
        op.outputs = [len(step.storages)]
        step.storages.append(Storage(f"{place.name} updated", 0, keep=True))
        step.rebound[source] = form
        step.in_place.add(source)
    step.updates = waiting


def _is_like(a: torch.Tensor, b: torch.Tensor) -> bool:
    return (a.dtype, a.device) == (b.dtype, b.device) and same_lengths(a.shape, b.shape)
