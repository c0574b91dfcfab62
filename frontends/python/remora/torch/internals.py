# SPDX-License-Identifier: Apache-2.0
"""Everything of PyTorch that Remora uses though PyTorch does not document it.

`NAMES` lists each private name with what it is used for; tests/torch/internals_test.py looks each of them up in the
PyTorch that is installed, and finds names in the sources that are not listed. The functions replace parts of PyTorch
for the length of a call, or read what it writes.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext, _device_constructors


@dataclass(frozen=True)
class Name:
    """A private name of PyTorch."""

    name: str  # importable, with an attribute at its end; of an object, the class that has it, then `.attribute`
    purpose: str  # what Remora does with it
    since: str = "2.11"  # oldest version of PyTorch, of 2.11 and 2.15, that has it
    without: str = ""  # what is lost in older versions; empty if all supported versions have it


_ALWAYS = """
capture of a step by Dynamo and AOTAutograd:
    torch._assert_async torch._dynamo.backends.common.aot_autograd torch._dynamo.config.recompile_limit
    torch._functorch.config.patch
    torch._functorch._aot_autograd.descriptors.SavedForBackwardsAOTOutput
    torch._functorch.partitioners._extract_fwd_bwd_modules torch._guards.CompileContext torch._guards.TracingContext
    torch._guards.tracing torch.nn.Module._call_impl torch.nn.Module._compiled_call_impl
    torch._C._len_torch_function_stack torch.overrides._pop_mode torch.overrides._push_mode
    torch.utils._device.DeviceContext
sizes that vary from call to call: symbols, their text and numbers:
    torch._dynamo.maybe_mark_dynamic torch.fx.experimental._config.patch
    torch.utils._sympy.printers.PythonPrinter
messages about graph breaks and recompilation:
    torch._dynamo.callback.callback_handler torch._dynamo.exc.BackendCompilerFailed torch._dynamo.exc.ShortenTraceback
    torch._dynamo.exc.TorchDynamoException torch._dynamo.utils.counters torch._dynamo.utils.get_metrics_context
ops: schemas, effects, storages, and fake tensors:
    torch._higher_order_ops.effects._get_effect torch._neg_view torch._ops.OpOverload torch._ops.OpOverload._opname
    torch._ops.OpOverload._overloadname torch._ops.OpOverload._schema torch._subclasses.FakeTensor
    torch._subclasses.FakeTensorMode torch._subclasses.fake_tensor.FakeTensor
    torch._subclasses.fake_tensor.unset_fake_temporarily torch.UntypedStorage._cdata torch.Tensor._use_count
    torch.fx.node._side_effectful_functions torch.fx.Graph._codegen torch.ops.aten._batch_norm_impl_index
    torch.ops.aten._batch_norm_with_update torch.ops.aten._native_batch_norm_legit
    torch.ops.aten._native_batch_norm_legit_functional torch.ops.aten._to_copy
    torch.utils._python_dispatch.TorchDispatchMode
    torch.utils._python_dispatch._disable_current_modes torch.utils._pytree.tree_map
kernels that are hidden while a step is captured (`hidden_kernels`):
    torch._C.DispatchKey torch._decomp.decompositions.dropout torch._ops.OpOverload._dispatch_cache
logits that are computed with the loss:
    torch._C.DisableTorchFunctionSubclass torch.Tensor._make_wrapper_subclass
memory and time of calls:
    torch.cuda._sleep torch._C._DisableAutocast torch._C._autograd._disable_profiler_legacy
    torch._C._cuda_clearCublasWorkspaces torch._C._host_emptyCache
    torch._C._autograd._enable_profiler_legacy torch._C._autograd._profiler_enabled torch._C._len_torch_dispatch_stack
    torch._C._profiler.ProfilerConfig torch._C._profiler.ProfilerState.CPU torch._C._profiler._ExperimentalConfig
the autograd node that runs, and hooks that a captured step would leave out:
    torch._C._autograd._get_sequence_nr torch._C._current_autograd_node torch.autograd.graph.Node._input_metadata
    torch.autograd.graph.Node._sequence_nr torch.Tensor._backward_hooks torch.Tensor._post_accumulate_grad_hooks
    torch.nn.Module._backward_hooks torch.nn.Module._backward_pre_hooks torch.nn.Module._buffers
    torch.nn.Module._parameters torch.amp.GradScaler._lazy_init_scale_growth_tracker torch.amp.GradScaler._scale
hooks of an optimizer's step, which an update of one parameter would run:
    torch.optim.Optimizer._optimizer_step_post_hooks torch.optim.Optimizer._optimizer_step_pre_hooks
    torch.optim.optimizer._global_optimizer_post_hooks torch.optim.optimizer._global_optimizer_pre_hooks
results of a CUDA graph that are still in use:
    torch._C._storage_Use_Count torch.cuda.CUDAGraph
Inductor's compiler, its lowering, and its partitioner:
    torch._functorch._aot_autograd.autograd_cache.AOTAutogradCache
    torch._functorch._aot_autograd.graph_compile.collect_fw_donated_buffer_idxs
    torch._functorch.partitioners.choose_saved_values_set torch._functorch.partitioners.estimate_runtime
    torch._functorch.partitioners.get_default_op_list
    torch._inductor.async_compile.AsyncCompile torch._inductor.compile_fx.compile_fx_backward
    torch._inductor.compile_fx.compile_fx_forward torch._inductor.config
    torch._inductor.custom_graph_pass.CustomPartitionerFn torch._inductor.decomposition.select_decomp_table
    torch._inductor.dependencies.WeakDep torch._inductor.fx_passes.control_dependencies.preserve_node_ordering
    torch._inductor.graph.GraphLowering torch._inductor.ir
    torch._inductor.lowering.fallbacks torch._inductor.lowering.lowerings torch._inductor.utils.get_donated_idxs
    torch._inductor.virtualized.V
FSDP2's groups of parameters, the schedules of pipelines, and the store of a job:
    torch.distributed.distributed_c10d._get_default_store torch.distributed.fsdp.FSDPModule._get_fsdp_state
    torch.distributed.fsdp._fully_shard._fsdp_state.FSDPState._states_to_backward_prefetch
    torch.distributed.fsdp._fully_shard._fsdp_param_group.FSDPParamGroup._all_gather_comm
    torch.distributed.fsdp._fully_shard._fsdp_param_group.FSDPParamGroup._reduce_scatter_comm
    torch.distributed.pipelining.schedules.PipelineScheduleSingle._stage
    torch.distributed.pipelining.schedules._PipelineSchedule._loss_fn
    torch.distributed.pipelining.schedules._PipelineSchedule._n_microbatches
`rt.plan`: devices that are absent, and the constructors of tensors:
    torch.autograd.Variable._execution_engine torch.optim.optimizer._foreach_supported_types
    torch.utils._device._device_constructors torch._C._get_cudnn_batch_norm_reserve_space_size
    torch.ops.aten._scaled_dot_product_attention_math torch.ops.aten._scaled_dot_product_efficient_attention
    torch.ops.aten._scaled_dot_product_flash_attention
"""
"""Names of every supported version: a purpose, and the names that serve it."""


def _names(table: str) -> Iterator[Name]:
    purpose = ""
    for line in table.strip().splitlines():
        if not line.startswith(" "):
            purpose = line.removesuffix(":")
            continue
        yield from (Name(name, purpose) for name in line.split())


NAMES: tuple[Name, ...] = (
    *_names(_ALWAYS),
    Name(
        "torch._dynamo.variables.tensor.TensorVariable._collect_backward_inputs",
        "an autograd.Function that takes gradients in its backward",
        since="2.15",
        without="such a function is rejected where backward() is inside of what is captured",
    ),
    Name(
        "torch.distributed.fsdp._fully_shard._fsdp_state.FSDPState._fsdp_param_groups",
        "the groups of parameters of a module that FSDP2 shards",
        since="2.15",
        without="auto_fsdp is rejected",
    ),
    Name(
        "torch.distributed.fsdp.FSDPModule.reset_iter_state",
        "a step of FSDP2 that runs again from its beginning",
        since="2.15",
        without="auto_fsdp is rejected",
    ),
    Name(
        "torch._inductor.config.fusion_memory_timeline_peak_memory_increase_gb",
        "rejects fusions that raise a peak",
        since="2.15",
        without="partitions that recompute are compiled with all fusions, so that some of them need more memory",
    ),
)


def frames() -> Iterator[types.FrameType]:
    """The frames that run now, innermost first, without this one's caller."""
    frame = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back  # type: ignore[assignment]


_NOTHING = object()


@contextlib.contextmanager
def instead(owner: Any, name: str, value: Any) -> Iterator[None]:
    """While it lasts, an attribute has another value."""
    own = vars(owner).get(name, _NOTHING)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own is _NOTHING:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


class Instead:
    """Replaces attributes from the first thread that enters to the last one that leaves.

    `replaced`: called by the first one; gives owners, names of their attributes, and values.
    """

    def __init__(self, replaced: Callable[[], Iterable[tuple[Any, str, Any]]]) -> None:
        self._replaced = replaced
        self._entered = 0
        self._entering = threading.Lock()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> None:
        with self._entering:
            for owner, name, value in self._replaced() if not self._entered else ():
                self._stack.enter_context(instead(owner, name, value))
            self._entered += 1

    def __exit__(self, *_: object) -> None:
        with self._entering:
            self._entered -= 1
            if not self._entered:
                self._stack.close()


@functools.cache
def while_traced(traced: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is its own one, but for Dynamo, which traces another one that is given the own one first."""

    def either(*arguments: Any, **named: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return traced(own, *arguments, **named)
        return own(*arguments, **named)

    return either


# -- Kernels that are hidden while a step is captured ------------------------------------------------------------------


@contextlib.contextmanager
def hidden_kernels(ops: Iterable[Any], keys: Iterable[Any], instead: Callable[[Any], Any]) -> Iterator[None]:
    """Hides the kernels in Python that ops have under some dispatch keys; tracing then sees the ops themselves.

    `instead`: kernel that takes the place of those of an op, or None.
    """
    keys, hidden = tuple(keys), list[tuple[Any, Any, Any]]()
    replaced = []
    try:
        for op in ops:
            kernel = instead(op)
            for key in keys:
                if key in op.py_kernels:
                    hidden.append((op, key, op.py_kernels.pop(key)))
            if kernel is not None:
                for key in keys:
                    op.py_impl(key)(kernel)
                replaced.append(op)
            op._dispatch_cache.clear()
        yield
    finally:
        for op in replaced:
            for key in keys:
                del op.py_kernels[key]
        for op, key, kernel in hidden:
            op.py_kernels[key] = kernel
        for op in {id(op): op for op in (*replaced, *(op for op, _, _ in hidden))}.values():
            op._dispatch_cache.clear()


# -- A backward pass that is traced under a default device -------------------------------------------------------------


class _Placing(TorchFunctionMode):
    """Places new tensors as a default device does, but leaves `backward()` to whoever runs or traces it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if func is torch.Tensor.backward:
            return args[0].backward(*args[1:], **named)
        if func in _device_constructors() and named.get("device") is None:
            named["device"] = self.device
        return func(*args, **named)


@contextlib.contextmanager
def traceable_backward() -> Iterator[None]:
    """While it lasts, Dynamo traces `backward()` although a default device is set.

    A default device is a function mode, below all others, and Dynamo skips a `Tensor.backward` that a mode calls.
    """
    pop: Callable[[], Any] = torch.overrides._pop_mode
    push: Callable[[Any], None] = torch.overrides._push_mode
    modes = [pop() for _ in range(torch._C._len_torch_function_stack())][::-1]
    own = [_Placing(mode.device) if isinstance(mode, DeviceContext) else mode for mode in modes]
    for mode in own:
        push(mode)
    try:
        yield
    finally:
        for _ in own:
            pop()
        for mode in modes:
            push(mode)


# -- Settings of Dynamo that are functions -----------------------------------------------------------------------------


class _Functions(str):
    """Functions that are JSON."""

    functions: frozenset[Any]

    def __contains__(self, function: object) -> bool:
        return function in self.functions

    def __iter__(self) -> Iterator[Any]:
        return iter(self.functions)


def is_before(*version: int) -> bool:
    """True if this PyTorch is older; a version in development counts as that version."""
    return tuple(map(int, re.findall(r"\d+", torch.__version__)[: len(version)])) < version


def setting_of(functions: Iterable[Any]) -> Any:
    """Functions as a setting of Dynamo: a set, or a text that contains them if Dynamo cannot log that (PyTorch 2.11).

    Dynamo writes its settings as JSON at each capture, and prints a traceback if that fails.
    """
    if not is_before(2, 15):
        return set(functions)
    found = _Functions("functions")
    found.functions = frozenset(functions)
    return found


# -- Inductor ----------------------------------------------------------------------------------------------------------


def compiler_extra(compile_fx: Any, module: Any) -> Any:
    """Settings of a compilation of Inductor: before PyTorch 2.15 for all graphs, then for one."""
    make = compile_fx.create_compiler_config_extra
    return make(compile_fx.config if "config" in inspect.signature(make).parameters else module)


_partitioning = threading.RLock()


@contextlib.contextmanager
def saved_values_chosen_by(choose: Callable[[Any, Any], list[Any]] | None) -> Iterator[None]:
    """Lets PyTorch's partitioner save the values that a function chooses; None leaves PyTorch's own choice.

    The partitioner has no parameter for it, so a function of its module is replaced, by one of our threads at a time;
    PyTorch itself compiles in one thread at a time.
    """
    from torch._functorch import partitioners

    with _partitioning:
        if choose is None:
            yield
            return
        with instead(partitioners, "choose_saved_values_set", lambda graph, info, **_: choose(graph, info)):
            yield


def stock_choice() -> Callable[..., list[Any]]:
    """PyTorch's own choice of saved values."""
    from torch._functorch import partitioners

    with _partitioning:
        found: Callable[..., list[Any]] = partitioners.choose_saved_values_set
        return found


@contextlib.contextmanager
def cached_if(may_keep: Callable[[], bool]) -> Iterator[None]:
    """Lets AOTAutograd keep a compiled graph in its cache only where a function says so when it would be kept."""
    from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache

    own = AOTAutogradCache.save

    def save(*args: Any, **named: Any) -> None:
        if may_keep():
            own(*args, **named)

    with instead(AOTAutogradCache, "save", staticmethod(save)):
        yield


_REUSE = re.compile(r"^\s*(\w+) = (?:reinterpret_tensor\()?(\w+).*; del \2  # reuse$", re.MULTILINE)


def reused_buffers(source: str) -> dict[str, str]:
    """Buffers of a program of Inductor that take over the memory of another one, by their names.

    The program says so in a comment alone. What is not recognized counts as memory of its own, so a peak is never too
    low.
    """
    return dict(_REUSE.findall(source))
