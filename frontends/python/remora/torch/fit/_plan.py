# SPDX-License-Identifier: Apache-2.0
"""`plan`: whether a training step fits on a device, at one size or at all of some."""

from __future__ import annotations

from ._fit import capture, under_budget
from ._question import Question, asks
from ._result import FitPlan
from ._sizes import plan_for_sizes


@asks(Question)
def plan(question: Question) -> FitPlan:
    """Plans a training step without allocating a parameter: if it fits, and with which overhead.

    Called as `plan(model, batch, loss, budget="20GiB", ...)`.

    Parameters
    ----------
    model : callable, transformers configuration, or torch.nn.Module
        A function that makes the model; a configuration; or a module, on the device "meta" or with memory.
    batch : tuple, mapping or tensor, or a function that gives one
        Further arguments of the loss, after the model. Only shapes and types count.
    loss : callable, optional
        From the model and the batch to a scalar; by default what the model returns, or its "loss".
    budget : int or str, optional
        Bytes ("24GiB") for everything on the device. The default is the device's memory, less a tenth of the tensors
        for its allocator's fragmentation; on this machine, the step's memory without recomputation. A percentage has
        the same meaning as for `train_step`.
    device : str, path or FitDevice, optional
        A name of `fit.known_devices()`, a file that `measure_device` wrote, or "cpu". By default this machine's.
    optimizer : str, class or function of parameters, optional
        "adamw", `torch.optim.AdamW`, or `functools.partial(torch.optim.AdamW, amsgrad=True)`.
    precision : {"fp32", "bf16", "fp16", "pure-bf16", "pure-fp16"}
        "bf16" and "fp16" are autocast; the pure ones have parameters of that type, too.
    ranks, sharding : int and {"ddp", "fsdp"}
        So many processes, each of which has all of the model, or a part of it.
    update : {"fused", "foreach", "in backward"}, optional
        How the optimizer updates, by default as PyTorch chooses: by one kernel without temporaries; by lists of all
        parameters, with temporaries of their size; or, as `train_step(update=)` does, each parameter as soon as
        nothing reads it any more, after which its gradient is released.
    average : bool
        Whether a moving average of the weights is kept (`torch.optim.swa_utils.AveragedModel`).
    accumulate : int
        Micro-steps whose gradients are summed before the optimizer's step. With 2 or more the plan is of a later
        micro-step: the gradients of the earlier ones exist throughout. So it is with
        `optimizer.zero_grad(set_to_none=False)`.
    reserve : int
        Bytes that anything else takes on the device throughout: other models, caches, a gradient scaler. A part of the
        budget, unless that is a percentage, as in `train_step`.
    train : bool
        The model's mode.
    cost : {"measured", "flops"}, optional
        "measured" runs single ops on this machine, which then is the device; "flops" does not. By default a device
        that is named has its own rates, and this machine is measured.
    slices, order, pure, time_limit, threads, seed, cache, progress, plan
        As in `Options`.
    sizes, lengths, plans
        As in `train_step`, of the arguments of the loss, or of the model's forward where there is none. The plan is
        that of the largest sizes; its `plans` are those of ranges. The step is captured at a few sizes, and ranges end
        there.

    Returns
    -------
    FitPlan

    Raises
    ------
    InputError
        If something that is given cannot be read.
    CaptureError
        If PyTorch cannot capture the step.
    """
    if question.sizes:
        return plan_for_sizes(question)
    return under_budget(capture(question), question.budget, question.solver)
