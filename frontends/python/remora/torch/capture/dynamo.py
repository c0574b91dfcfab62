# SPDX-License-Identifier: Apache-2.0
"""Captures a function with its loss and `backward()` as one graph: Dynamo also traces the ops of autograd.

Ops that PyTorch takes apart when it traces, though eager runs them whole, are kept whole: `F.interpolate` has a form
written in Python for tracing (`torch._decomp`), whose gradients add up in another order than the kernels do.

Eager's batch normalization on a GPU is cuDNN's wherever cuDNN has one. A traced one is PyTorch's own kernel, unless it
is traced as `_batch_norm_with_update`, which chooses as eager does and hands cuDNN's reserve to the backward op.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
import torch._dynamo
import torch._functorch.config
import torch._inductor.config
from torch import fx
from torch._C import DispatchKey
from torch._decomp import decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import TorchDynamoException

from ..errors import CaptureError, first_line, in_plain_words
from ..internals import hidden_kernels, traceable_backward
from ..ledger import Ledger
from ..measure import span_of
from .traced import Traced, take_checks

Vary = Literal["", "later", "marked"]
"""Which sizes become symbols: none, those that have changed, or also those that are marked for Dynamo."""


def compiled_step(
    function: Callable[..., Any],
    compiler: Callable[[fx.GraphModule, Any], Callable[[list[Any]], list[Any]]],
    ledger: Ledger,
    vary: Vary = "",
) -> Callable[..., Any]:
    """The function, captured with its loss and backward as one graph, which the compiler is given.

    The graph is the latest part of the ledger then.
    """
    whole = aot_autograd(fw_compiler=compiler, keep_inference_input_mutations=True)

    def capture(module: fx.GraphModule, inputs: list[Any], at_once: bool) -> Any:
        names = [name_of_input(node) for node in module.graph.find_nodes(op="placeholder")]
        check = take_checks(module, inputs, at_once)
        refuse_hooks(inputs, names)
        _expect_backward(module)
        given, varies = given_to(module, inputs), has_sizes(inputs)
        part = ledger.add(inputs, training=True, given=given)
        part.count_checkpoints(module)
        part.batch = [span_of(t) * t.element_size() for t in given.values() if not varies and t.layout == torch.strided]
        with capturing():
            run = whole(module, inputs)

        def checked(*arguments: Any) -> Any:
            if check is not None:
                check(arguments)
            refuse_hooks(arguments, names)
            return run(*arguments)

        return checked

    compiled = captured_for_sizes(function, capture, ledger, vary)

    def called(*arguments: Any, **options: Any) -> Any:
        if torch.is_anomaly_enabled():
            raise CaptureError(
                "anomaly mode is on, and a captured step has no autograd nodes that it could check; call the step's "
                "own function instead (`.function`), or use remora.torch.wrap"
            )
        with traceable_backward():
            return compiled(*arguments, **options)

    return called


def has_sizes(inputs: Sequence[Any]) -> bool:
    """True if sizes are symbols in what Dynamo captures with these inputs."""
    return any(isinstance(given, torch.SymInt) for given in inputs)


def captured_for_sizes(
    function: Callable[..., Any],
    capture: Callable[[fx.GraphModule, list[Any], bool], Any],
    ledger: Ledger,
    vary: Vary,
) -> Callable[..., Any]:
    """The function as Dynamo captures it in one graph.

    `capture`: from a graph, its inputs, and whether these are checked at once (`take_checks`), to what runs it. Where
    capture for all sizes fails, and without `vary`, each size is captured by itself.
    """
    was_checked = has_failed = False

    def backend(module: fx.GraphModule, inputs: list[Any]) -> Any:
        nonlocal was_checked, has_failed
        varies = has_sizes(inputs)
        at_once, was_checked = not (varies and was_checked), was_checked or varies
        has_failed = varies  # till it has not
        run = capture(module, inputs, at_once)
        has_failed = False
        return run

    def traced(dynamic: bool | None) -> Traced:
        # A backend of its own for each form: Dynamo keeps apart what it compiles.
        def form() -> Callable[..., Any]:
            def own(module: fx.GraphModule, inputs: list[Any]) -> Any:
                return backend(module, inputs)

            return torch.compile(function, fullgraph=True, dynamic=dynamic, backend=own)

        return Traced(form(), form())

    by_size = traced(dynamic=False)
    compiled = traced(dynamic=None) if vary else by_size
    may_fall_back = vary == "marked"  # otherwise the first size is captured by itself, and an error is not of sizes

    def called(*arguments: Any, **options: Any) -> Any:
        nonlocal compiled, may_fall_back
        drawn = random.getstate()
        try:
            with in_plain_words():
                result = compiled(*arguments, **options)
            may_fall_back = True
            return result
        except CaptureError as error:
            is_dynamos = may_fall_back and isinstance(error.__cause__, TorchDynamoException)
            if compiled is by_size or not (has_failed or is_dynamos):
                raise
            reason = first_line(error)
        compiled, ledger.by_size = by_size, True
        random.setstate(drawn)
        with in_plain_words():
            result = compiled(*arguments, **options)
        ledger.tell(f"the step cannot be captured for all sizes at once, but for each by itself: {reason}")
        return result

    return called


def _expect_backward(module: fx.GraphModule) -> None:
    """Raises `CaptureError` for a result that still needs a gradient: the budget would hold for its backward apart."""
    (output,) = module.graph.find_nodes(op="output")
    for node in output.all_input_nodes:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor) and value.requires_grad and value.grad_fn is not None:
            raise CaptureError(
                f"the step returns, or a module keeps, a tensor that still needs backward() ({node.name}): call "
                "backward() inside, and return loss.detach(); to call it outside, use remora.torch.wrap"
            )


@contextlib.contextmanager
def capturing() -> Iterator[None]:
    """While AOTAutograd traces: ops as eager runs them, and the backward outside of autocast, where users call it."""
    patches = {
        # `loss.backward()` is called outside of `torch.autocast`, so no cast is inserted there.
        "backward_pass_autocast": "off",
        # What a model's own checkpoints would make again is left to the schedule.
        "remat_using_tags_for_fwd_loss_bwd_graph": False,
    }
    replaced = {torch.ops.aten.batch_norm.default: batch_norm, torch.ops.aten.dropout.default: dropout}
    packets = [getattr(torch.ops.aten, name) for name in dir(torch.ops.aten) if name.startswith(_WHOLE)]
    ops = [*(getattr(packet, name) for packet in packets for name in packet.overloads()), *replaced]
    whole = hidden_kernels(ops, _KEYS, replaced.get)
    # An unused random op draws its numbers all the same: PyTorch otherwise removes it.
    drawing = torch._inductor.config.patch({"fallback_random": True})
    with whole, torch._functorch.config.patch(patches), drawing:
        yield


_WHOLE = ("upsample_", "_upsample_")
_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)


def batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor | None,
    variance: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> torch.Tensor:
    """`torch.batch_norm` as it is traced: on a GPU as the op that chooses its kernel when it runs."""
    result: torch.Tensor
    if x.device.type == "cuda" and cudnn_enabled and training and mean is not None and variance is not None:
        (result, *_) = torch.ops.aten._batch_norm_with_update(x, weight, bias, mean, variance, momentum, eps)
    else:
        (result, *_) = torch.ops.aten._batch_norm_impl_index(
            x, weight, bias, mean, variance, training, momentum, eps, cudnn_enabled
        )
    return result


def dropout(x: torch.Tensor, p: float, train: bool | None) -> torch.Tensor:
    """`torch.dropout` as it is traced: one without effect gives its input, as in eager mode, and not a copy."""
    if train and p != 0 and x.is_complex():
        raise CaptureError("a dropout of complex numbers is captured as another op, which draws other numbers")
    result: torch.Tensor = decompositions.dropout(x, p, train) if train and p != 0 else x
    return result


def given_to(module: fx.GraphModule, inputs: Sequence[Any]) -> dict[str, torch.Tensor]:
    """The tensors among a graph's inputs that are no parameters, gradients or buffers, by the user's names."""
    found: dict[str, torch.Tensor] = {}
    for node, t in zip(module.graph.find_nodes(op="placeholder"), inputs, strict=True):
        is_of_a_module = isinstance(t, torch.nn.Parameter) or re.search(r"\._buffers\b|\.grad$", _source_of(node))
        if isinstance(t, torch.Tensor) and not is_of_a_module:
            name = name_of_input(node)
            found[node.name if name in found else name] = t
    return found


def _source_of(node: fx.Node) -> str:
    source = getattr(node.meta.get("grapharg"), "source", None) or getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", "")
    return str(name() if callable(name) else name)


def name_of_input(node: fx.Node) -> str:
    """The user's name for a graph's input: "model.layers.0.weight"."""
    return name_of_source(_source_of(node)) or str(node.name)


def name_of_source(text: str) -> str:
    """The user's name for a source of Dynamo's: "tokens.shape[1]" for `L['tokens'].size()[1]`."""
    text = text.replace(".size()", ".shape")
    text = re.sub(r"\._(modules|parameters|buffers)", "", text)
    text = re.sub(r"\['([^']*)'\]", r".\1", text)
    text = re.sub(r"^[LG]\.(named\.)?", "", text)
    text = re.sub(r"^arguments\[(\d+)\]", r"argument \1", text)
    return re.sub(r"\b(\w+)\.__closure__\[\d+\]\.cell_contents", r"\1's variable", text)


def names_of_symbols(environment: Any) -> dict[str, str]:
    """The user's name for each symbol of sizes."""
    named = {str(s): getattr(given[0], "name", "") for s, given in environment.var_to_sources.items() if given}
    return {symbol: name_of_source(name() if callable(name) else name) for symbol, name in named.items()}


def refuse_hooks(arguments: Sequence[Any], names: Sequence[str]) -> None:
    """Rejects a step whose parameters have gradient hooks: a captured step would leave them out.

    Raises CaptureError: names the first parameter, the kind of its hook, and what to do.
    """
    for argument, name in zip(arguments, names, strict=False):
        if not isinstance(argument, torch.Tensor) or not argument.requires_grad:
            continue
        hooks = {
            "register_hook": argument._backward_hooks,
            "register_post_accumulate_grad_hook": argument._post_accumulate_grad_hooks,
        }
        kind = next((kind for kind, found in hooks.items() if found), None)
        if kind is not None:
            raise CaptureError(
                f"{name} has a gradient hook ({kind}), which a captured step would leave out. Remove it, do after "
                "the step what it does, or use remora.torch.wrap, where you call backward() and hooks run as always"
            )


def alive(weak: Any) -> Any:
    """The referent of a weak reference, which must still exist when this is called."""
    found = weak()
    assert found is not None, "a step is called after it is gone"
    return found


def results_of(module: fx.GraphModule) -> list[Any]:
    """Outputs of a graph: nodes and constants."""
    return list(module.graph.find_nodes(op="output")[0].args[0])


def boxed(run: Callable[[list[Any]], list[Any]]) -> Callable[[list[Any]], list[Any]]:
    """Marks a program as one that is called with a list it may empty, so that nothing else holds what is in it."""
    run._boxed_call = True  # type: ignore[attr-defined]
    return run
