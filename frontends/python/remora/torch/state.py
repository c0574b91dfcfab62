# SPDX-License-Identifier: Apache-2.0
"""The state of a step, which is run again and again from it: what the walk finds (`walk`), with its values.

Copies of tensors lie on the CPU, so that they take no memory of a GPU.
"""

from __future__ import annotations

import contextlib
import pickle
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.utils import _pytree as pytree

from .walk import Kind, generators, is_mark, parts_of, set_state, state_of, walk

Outcome = dict[tuple[Kind, str], Any]
"""State after a run: copies of tensors on the CPU, None, or other values."""


class _Kept:
    """A tensor and its values. On a GPU sums of them tell whether they changed, so that nothing has to be copied."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.memory = tensor.data  # so that it is known if other memory is put in its place
        self.copy = copied(tensor)
        self.wants = tensor.requires_grad
        self.sums = _sums(self.memory) if tensor.is_cuda and tensor.layout == torch.strided else None

    def restore(self) -> None:
        if (
            self.tensor.shape != self.memory.shape
            or self.tensor.dtype != self.memory.dtype
            or (self.tensor.layout == torch.strided and self.tensor.data_ptr() != self.memory.data_ptr())
        ):
            self.tensor.data = self.memory
        if self.has_changed():
            self.memory.copy_(self.copy)
        if self.tensor.is_leaf and self.tensor.requires_grad != self.wants:
            self.tensor.requires_grad_(self.wants)

    def has_changed(self) -> bool:
        if self.sums is not None:
            return not torch.equal(_sums(self.memory), self.sums)
        return not same(self.memory if self.memory.device.type == "cpu" else copied(self.memory), self.copy)


class _KeptGradient:
    """The gradient of a leaf."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor, self.gradient = tensor, tensor.grad
        self.copy = None if self.gradient is None else copied(self.gradient)

    def restore(self) -> None:
        if self.gradient is not None and self.copy is not None and not same(copied(self.gradient), self.copy):
            self.gradient.data.copy_(self.copy)
        if self.tensor.grad is not self.gradient:
            self.tensor.grad = self.gradient


class State:
    """Everything that a step can change, as it is when this is made; `roots`: the step and its arguments, by name.

    `lazily`: as in `walk`.
    """

    def __init__(self, roots: dict[str, Any], lazily: bool = False) -> None:
        self.roots = roots
        self.found = walk(roots, lazily)
        self._tensors = [_Kept(tensor) for tensor in self.found.tensors.values() if _has_values(tensor)]
        self._leaves = [tensor for tensor in self.found.tensors.values() if tensor.is_leaf]
        self._gradients = [] if lazily else [_KeptGradient(tensor) for tensor in self._leaves]
        self._arrays = [(array, array.copy()) for array in self.found.arrays]
        self._containers = self._filled()
        self._generators = self._drawn()

    def _filled(self) -> list[tuple[Any, Any]]:
        return [(c, dict(c) if isinstance(c, dict) else list(c)) for c in self.found.containers]

    def _drawn(self) -> list[tuple[Any, Any]]:
        return [(g, state_of(g)) for g in {**generators(), **self.found.generators}.values()]

    def restore(self) -> None:
        """Brings all back; what did not change is not touched."""
        for thing, before in self._containers:
            _fill(thing, before, id(thing) in self.found.growing)
        for put_back in self.found.variables:
            put_back()
        for kept in self._tensors:
            kept.restore()
        for gradient in self._gradients:
            gradient.restore()
        for array, values in self._arrays:
            if array.tobytes() != values.tobytes():
                array[...] = values
        for generator, state in self._generators:
            set_state(generator, state)

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """A run that begins without gradients. Afterwards tensors are as when this was made, all else as before it."""
        gradients = [(tensor, tensor.grad) for tensor in self._leaves]
        self._containers, self._generators = self._filled(), self._drawn()
        for tensor, _ in gradients:
            tensor.grad = None
        try:
            yield
        finally:
            self.restore()
            for tensor, gradient in gradients:
                tensor.grad = gradient

    def outcome(self, result: Any) -> Outcome:
        """The present state, after a run that gave this result."""
        found = walk(self.roots)
        left: Outcome = {}
        for i, leaf in enumerate(pytree.tree_leaves(result)):
            left[Kind.RESULT, str(i)] = copied(leaf) if isinstance(leaf, torch.Tensor) else leaf
        for name, tensor in found.tensors.items():
            left[found.kinds[name], name] = copied(tensor)
            if tensor.is_leaf and tensor.requires_grad:
                left[Kind.GRADIENT, name] = None if tensor.grad is None else copied(tensor.grad)
        left |= {(Kind.STATE, name): value for name, value in found.values.items()}
        for name, generator in {**generators(), **found.generators}.items():
            state = state_of(generator)
            is_tensor = isinstance(state, torch.Tensor)
            left[Kind.GENERATOR, name] = state.numpy().tobytes() if is_tensor else pickle.dumps(state)
        return left


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the CPU, without history."""
    return tensor.detach().to("cpu", copy=True)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True if two tensors on the CPU have the same values; not-a-number is equal to itself."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.layout != torch.strided or b.layout != torch.strided:
        a, b = a.to_dense(), b.to_dense()
    return bool(torch.equal(a, b) or ((a == b) | ((a != a) & (b != b))).all())


def _has_values(tensor: torch.Tensor) -> bool:
    """False for tensors without memory, and those whose parts have it."""
    return tensor.device.type != "meta" and not isinstance(tensor, FakeTensor) and not parts_of(tensor)


def _sums(tensor: torch.Tensor) -> torch.Tensor:
    """Sums of a tensor's bits along rows and columns: whatever a step changes changes one of them."""
    values = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()]
    flat = values.contiguous().view(-1).view(integers)
    end = flat.numel() // WIDTH * WIDTH
    rows = flat[:end].view(-1, WIDTH)
    return torch.cat([rows.sum(0, dtype=torch.int64), rows.sum(1, dtype=torch.int64), flat[end:].to(torch.int64)])


WIDTH = 1024
"""Numbers in a row of `_sums`."""


def _fill(container: Any, before: Any, may_grow: bool = False) -> None:
    """Puts back what was in a container, if anything is other than it was; `may_grow`: what is new stays."""
    if may_grow:
        container.update({k: v for k, v in before.items() if v is not None and container.get(k) is not v})
        return
    now, then = ([*c, *(c.values() if isinstance(c, dict) else ())] for c in (container, before))
    if len(now) == len(then) and all(a is b for a, b in zip(now, then, strict=True)):
        return
    if isinstance(container, (list, deque)):
        container.clear()
        container.extend(before)
        return
    marks = {key: value for key, value in container.items() if is_mark(key)} if isinstance(container, dict) else ()
    container.clear()
    container.update(before)
    container.update(marks)
