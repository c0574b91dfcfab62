# SPDX-License-Identifier: Apache-2.0
"""`wrap`: a module whose user calls `loss.backward()`. What it captures is planned in `ways.parts`."""

from __future__ import annotations

import time
import types
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch
import torch._dynamo
from torch.utils import _pytree as pytree

from ..capture.dynamo import captured_for_sizes
from ..errors import CaptureError
from ..ledger import Ledger, place_of_module, positional
from ..options import Options
from ..planning import Plans
from .parts import Backend
from .sized import declared, vary_of

Module = TypeVar("Module", bound=torch.nn.Module)


def wrap(
    module: Module,
    *,
    budget: int | str = "100%",
    reserve: int = 0,
    cost: str = "measured",
    fuse: bool = False,
    arena: bool = False,
    slices: str = "none",
    order: str = "input",
    pure: tuple[str, ...] = (),
    inference: bool = False,
    time_limit: float = 15.0,
    threads: int = 0,
    seed: int = 1,
    cache: bool = True,
    progress: bool = False,
    sizes: Mapping[str, Any] | None = None,
    lengths: Sequence[int] = (),
    plans: int = 4,
) -> Module:
    """Makes a module's forward and backward run under a memory budget; the user calls `backward()`.

    The module itself is changed (as by `Module.compile`), so its parameters and state dictionary stay as they are. Its
    plans are given by `plans`. Memory of the loss between forward and backward is the user's and not part of the
    budget. Without gradients (`torch.no_grad`, `torch.inference_mode`, nothing that requires one) the module runs as if
    it were not wrapped, unless `inference=True`.

    A percentage is turned into bytes by the largest batch so far. Where each size is captured by itself, plans of
    smaller batches that came before it keep their budget, and a warning says so.

    Parameters
    ----------
    module : torch.nn.Module
    budget : int or str
        Bytes ("12GiB", 1500000), permanently resident memory included; or a percentage ("60%") of the memory that
        forward and backward use beyond that if nothing is recomputed.
    reserve, cost, fuse, arena, slices, order, pure, inference, time_limit, threads, seed, cache, progress
        As in `Options`.
    sizes, lengths, plans
        As in `train_step`, of the arguments of the module's forward. Not of a module that `fully_shard` shards.
    """
    given = locals()
    options = Options.of({n: given[n] for n in given if n not in ("module", "sizes", "lengths", "plans")})
    if not isinstance(module, torch.nn.Module):
        raise TypeError(
            f"wrap takes a torch.nn.Module, not {type(module).__name__}; remora.torch.train_step takes a function"
        )
    is_sharded = _is_sharded(module)
    if is_sharded and sizes:
        raise ValueError("sizes: not for a module that fully_shard shards")
    known = declared(module.forward, options, sizes, lengths, plans)
    ledger = Ledger(place_of_module(module), positional(module.forward))
    backend = Backend(options, False, ledger, known)

    def run(*arguments: Any, **named: Any) -> Any:
        # A frame of its own: of PyTorch's own, such as those of Sequential, Dynamo leaves some out before version 2.15.
        return module._call_impl(*arguments, **named)  # type: ignore[no-untyped-call]

    # FSDP's hooks stay outside of what is captured: there it is the frame of the module's own forward. Otherwise a code
    # object for this module alone: Dynamo notes by code which sizes have changed.
    own_run = types.FunctionType(run.__code__.replace(), run.__globals__, "run", None, run.__closure__)
    captured = module._call_impl if is_sharded else own_run
    vary = "" if is_sharded else vary_of(options, known)
    compiled = captured_for_sizes(captured, backend.capture, backend.ledger, vary)

    def called(*arguments: Any, **named: Any) -> Any:
        if not backend.options.inference and not _wants_gradients(module, arguments, named):
            return run(*arguments, **named)
        backend.ledger.begun = time.perf_counter()
        known.mark(arguments, named)
        results = compiled(*arguments, **named)
        if not backend.ledger.parts:
            backend.ledger.tell(
                f"PyTorch {torch.__version__} did not hand over this {type(module).__name__}: it runs without a plan"
            )
        backend.tell_sizes()
        return results

    called.backend = backend  # type: ignore[attr-defined]
    module._compiled_call_impl = called  # as Module.compile does
    return module


def _is_sharded(module: torch.nn.Module) -> bool:
    """True if FSDP2 shards the module itself; CaptureError for one that Dynamo cannot capture as one graph."""
    if not torch.distributed.is_available():
        return False
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel

    if isinstance(module, torch.nn.parallel.DistributedDataParallel):
        raise CaptureError(
            "wrap cannot capture DistributedDataParallel: use DistributedDataParallel(remora.torch.wrap(model))"
        )
    inner = [name for name, child in module.named_modules() if name and isinstance(child, FSDPModule)]
    if inner:
        raise CaptureError(
            f"wrap cannot capture a model whose parts are sharded ({inner[0]} and {len(inner) - 1} more by "
            "fully_shard): give each of them to remora.torch.wrap"
        )
    if any(isinstance(child, FullyShardedDataParallel) for child in module.modules()):
        raise CaptureError("wrap cannot capture FullyShardedDataParallel: use fully_shard, and wrap each block")
    return isinstance(module, FSDPModule)


def unwrap(module: Module) -> Module:
    """Undoes `wrap`: the module runs as before."""
    module._compiled_call_impl = None
    return module


def plans(module: torch.nn.Module) -> Plans:
    """The plans of a module that was given to `wrap`: one for each captured graph; where sizes vary, for each schedule.

    As text (`print`), what happens at which sizes.
    """
    given = getattr(module._compiled_call_impl, "backend", None)
    if not isinstance(given, Backend):
        raise CaptureError(f"this {type(module).__name__} was not given to remora.torch.wrap")
    return given.plans


def _wants_gradients(module: torch.nn.Module, arguments: Any, named: Any) -> bool:
    if not torch.is_grad_enabled():
        return False
    if any(p.requires_grad for p in module.parameters()):
        return True
    given = pytree.tree_leaves((arguments, named))
    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in given)
