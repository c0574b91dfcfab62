# SPDX-License-Identifier: Apache-2.0
"""Each of ATen's core ops, in a program of its own, through export, `RecomputePass` and ExecuTorch's runtime.

An op that torch adds to its core fails here until it has a call in operators.py, and passes or is listed below.
"""

from __future__ import annotations

import operators
import programs
import pytest
import torch

import remora
from remora.executorch import RecomputePass, planning_algo

OPS = operators.core_ops()

NOT_EXPORTED = {
    "_native_batch_norm_legit": "_native_batch_norm_legit_functional.default is not in Core ATen opset",
}
"""Ops that ExecuTorch's edge dialect refuses, with its reason."""

NO_KERNEL = {
    "_adaptive_avg_pool2d_backward": "aten::_adaptive_avg_pool2d_backward.out",
    "_adaptive_avg_pool3d": "aten::_adaptive_avg_pool3d.out",
    "_embedding_bag": "aten::_embedding_bag.out",
    "avg_pool2d_backward": "aten::avg_pool2d_backward.grad_input",
    "avg_pool3d": "aten::avg_pool3d.out",
    "empty_strided": "aten::empty_strided.out",
    "max_pool3d_with_indices": "aten::max_pool3d_with_indices.out",
    "randperm": "aten::randperm.out",
    "scatter_reduce.two": "aten::scatter_reduce.two_out",
    "sort": "aten::sort.values",
}
"""Ops of which the runtime says "Missing operator", with the kernel that it names."""

NOT_RUN = {"nonzero"}
"""Ops whose unchanged program fails in the runtime: here the dimensions of the result are in another order."""

RANDOM = {"native_dropout", "rand", "randn", "randperm"}
UNDEFINED = {"empty.memory_format", "empty_strided"}


def exported(name: str) -> programs.Exported:
    torch.manual_seed(0)
    program = operators.OneOp(OPS[name], operators.call_of(name, OPS[name]))
    return programs.exported((program, program.inputs()))


def test_every_op_of_the_lists_is_a_core_op() -> None:
    assert {*operators.CALLS, *NOT_EXPORTED, *NO_KERNEL, *NOT_RUN, *RANDOM, *UNDEFINED} <= set(OPS)
    assert len(OPS) >= 192


@pytest.mark.parametrize("name", sorted(set(OPS) - set(NOT_EXPORTED)))
def test_recomputing_it_changes_nothing(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    edge, inputs = exported(name)
    whole = programs.planned(edge, planning_algo)
    as_it_is, everything = RecomputePass("100%"), RecomputePass("100%")
    small = [programs.planned(edge.transform([as_it_is]), planning_algo)]
    with programs.recomputing_for_every_use():
        small.append(programs.planned(edge.transform([everything]), planning_algo))
    for recompute, program in zip((as_it_is, everything), small, strict=True):
        assert recompute.schedule is not None and remora.verify(recompute.schedule.graph, recompute.schedule)
        assert programs.arenas(program)[0] <= recompute.schedule.peak
    assert everything.schedule is not None
    ran_once = [op.name for op in everything.schedule.graph.ops if not op.recompute and op.duration]
    assert bool(ran_once) == (name in RANDOM)
    if name in NO_KERNEL:
        with pytest.raises(RuntimeError, match="Failed to load method"):
            programs.loaded(whole)
        assert NO_KERNEL[name] in capfd.readouterr().err
        return
    if name in NOT_RUN:
        with pytest.raises(RuntimeError, match="failed with error"):
            programs.loaded(whole).execute(inputs)
        return
    outputs = [programs.loaded(program).execute(inputs) for program in (whole, *small)]
    for values in outputs[1:]:
        assert [like(value) for value in values] == [like(value) for value in outputs[0]]
        if name not in RANDOM | UNDEFINED:
            assert programs.same(values, outputs[0])


def like(value: object) -> object:
    return (value.shape, value.dtype) if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("name", NOT_EXPORTED)
def test_what_executorch_does_not_export(name: str) -> None:
    with pytest.raises(Exception, match=NOT_EXPORTED[name]):
        exported(name)
