# SPDX-License-Identifier: Apache-2.0
"""Regions: some ops of a captured graph that Inductor compiles, and that run as one function.

Each region is compiled by itself. So Inductor never sees an op and its recompute in one graph, where it would merge the
two; and a region that runs again runs the same machine code, so it gives the same bits.

Regions that are equal but for their names (the layers of a transformer) are compiled once. Inductor keeps what it
compiled in a folder of its own (`TORCHINDUCTOR_CACHE_DIR`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from ..internals import compiler_extra
from ..measure import kernel_modes
from ..store import digest

_compiled: dict[str, Callable[..., list[torch.Tensor]]] = {}
"""Code compiled in this process, by its source."""


class Region:
    """Ops that run as one.

    `name`: tells its ops. `module`: a functional graph of ATen ops; its result is a tuple of tensors that share no
    memory with each other or with an argument. `inputs`: what the arguments look like. `key`: equal for two regions
    if and only if they compute the same from arguments of the same types and layouts.
    """

    def __init__(self, name: str, module: fx.GraphModule, inputs: list[FakeTensor]) -> None:
        self.name = self.__name__ = self.__qualname__ = name
        self.module, self.inputs = module, inputs
        looks = [[str(t.dtype), str(t.device), list(t.shape), list(t.stride()), t.storage_offset()] for t in inputs]
        self.key = digest([module.code, looks, *kernel_modes(inputs[0].device.type if inputs else "cpu")])

    def __str__(self) -> str:
        return self.name

    def __call__(self, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Runs the ops one by one: so fake arguments give fake results."""
        result: tuple[torch.Tensor, ...] = self.module(*arguments)
        return result

    @property
    def known(self) -> bool:
        """True if it, or one like it, was compiled."""
        return self.key in _compiled

    def compiled(self, mode: FakeTensorMode) -> Callable[..., list[torch.Tensor]]:
        """The function that runs it; compiled when first asked for."""
        if self.key not in _compiled:
            boxed = _by_inductor(self.module, self.inputs, mode)

            def run(*arguments: torch.Tensor) -> list[torch.Tensor]:
                results: list[torch.Tensor] = boxed(list(arguments))
                return results

            run.__name__ = f"{self.name} {self.key[:12]}"
            _compiled[self.key] = run
        return _compiled[self.key]


def decomposed(function: Callable[..., Any], inputs: list[Any], mode: FakeTensorMode) -> fx.GraphModule:
    """A function as Inductor sees it: its ops decomposed into those that Inductor supports."""
    from torch._inductor.decomposition import select_decomp_table

    with mode, torch.no_grad():
        return make_fx(function, decomposition_table=select_decomp_table())(*inputs)


def _by_inductor(module: fx.GraphModule, inputs: list[Any], mode: FakeTensorMode) -> Callable[[list[Any]], Any]:
    """Compiles a graph with Inductor: returns a function of a list of tensors."""
    from torch._inductor import compile_fx, config
    from torch._inductor.virtualized import V

    lowered = decomposed(module, inputs, mode)
    count = len(lowered.graph.find_nodes(op="output")[0].args[0])
    unrecorded = config.patch({"triton.cudagraphs": False})  # a region runs within a schedule, or within its CUDA graph
    with torch.no_grad(), tracing(TracingContext(mode)), V.set_fake_mode(mode), unrecorded:
        extra = compiler_extra(compile_fx, lowered)
        # As of a model's outputs, so strides are what the captured ops give.
        compiled: Any = compile_fx.compile_fx_forward(lowered, inputs, count, len(inputs), extra, is_inference=True)
    run: Callable[[list[Any]], Any] = compiled.current_callable  # without book-keeping
    return run
