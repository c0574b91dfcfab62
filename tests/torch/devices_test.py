# SPDX-License-Identifier: Apache-2.0
"""`train_step_over`: two devices, equal to eager in every bit, each at its predicted peak.

The first is where REMORA_TEST_DEVICE says, the second always the CPU.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import checking
import models
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import remora
import remora.torch as rt

OPTIONS: dict[str, Any] = {"time_limit": 3.0, "cost": "measured"}
MAIN = str(checking.DEVICE)


def classified(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


def store(budget: str, **more: Any) -> list[rt.TrainDevice]:
    """A device that computes, and one that keeps what it is given."""
    return [rt.TrainDevice("gpu", MAIN, budget=budget), rt.TrainDevice("host", "cpu", computes=False, **more)]


class Case:
    """A step over two devices beside the eager one, both from the same state."""

    def __init__(
        self, model: nn.Module, loss: checking.Loss, inputs: tuple[Any, ...], devices: list[rt.TrainDevice]
    ) -> None:
        self.model, self.inputs = model.to(checking.DEVICE), checking.on_device(inputs)
        self.state = copy.deepcopy(model.state_dict())
        eager_model = copy.deepcopy(model)
        self.step = rt.train_step_over(checking.Case.body(model, loss), devices=devices, **OPTIONS)
        eager = checking.Case.body(eager_model, loss)
        checking.outcome(eager_model, lambda: eager(*self.inputs), self.state)
        self.eager = checking.outcome(eager_model, lambda: eager(*self.inputs), self.state)

    def check(self, is_equal: bool = True) -> rt.DevicePlan:
        """`is_equal`: bit for bit; else close, as where a CPU computes what a GPU did."""
        for _ in range(2):
            mine = checking.outcome(self.model, lambda: self.step(*self.inputs), self.state)
            if is_equal:
                found = checking.differences(mine, self.eager)
                assert not found, found
            else:
                torch.testing.assert_close(mine.gradients, self.eager.gradients, rtol=1e-3, atol=1e-5)
        plan: rt.DevicePlan = self.step.plan
        assert plan.predicted_peak == plan.schedule["peak_memory"]
        for name, budget in plan.schedule["budget"].items():
            assert plan.predicted_peak[name] <= budget
        self.model.zero_grad()
        measured = self.step.measured_peaks(*self.inputs)
        for name, peak in plan.predicted_peak.items():
            checking.check_peak(measured[name], peak, plan)
        return plan


def unet() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    return models.Unet(), (torch.randn(2, 3, 16, 16), torch.randint(0, 2, (2, 16, 16)))


def test_what_does_not_fit_goes_to_a_store_and_comes_back() -> None:
    model, inputs = unet()
    plan = Case(model, classified, inputs, store("60%", bandwidth=1e12)).check()
    assert plan.copies > 0
    assert plan.predicted_peak["host"] > 0


def test_slow_copies_leave_recomputes() -> None:
    model, inputs = unet()
    case = Case(model, classified, inputs, store("80%", bandwidth=1e5))
    plan = case.check()
    assert plan.copies == 0 < plan.recomputes
    assert plan.predicted_peak["host"] == 0
    with pytest.raises(rt.CaptureError, match="another"):  # with the gradients of the last run
        case.step.measured_peaks(*case.inputs)


def test_ops_run_on_both_devices() -> None:
    devices = [rt.TrainDevice("first", MAIN, budget="60%"), rt.TrainDevice("second", "cpu", bandwidth=1e12)]
    model, inputs = unet()
    plan = Case(model, classified, inputs, devices).check(is_equal=MAIN == "cpu")
    assert {step["device"] for step in plan.schedule["steps"] if "op" in step} == {"first", "second"}


def test_a_language_model_with_dropout_and_tied_weights() -> None:
    def written(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    inputs = torch.randint(0, 64, (4, 32)), torch.randint(0, 64, (4, 32))
    plan = Case(models.Gpt(layers=1), written, inputs, store("75%", bandwidth=1e12)).check()
    assert plan.copies > 0


def test_convolutions_whose_statistics_change_in_place() -> None:
    model = models.convolutions()
    inputs = torch.randn(8, 3, 12, 12), torch.randint(0, 5, (8,))
    model(inputs[0])  # the lazy layer learns its width
    plan = Case(model, classified, inputs, store("85%", bandwidth=1e12)).check()
    assert plan.copies > 0


def every_op_once(plan: rt.DevicePlan) -> dict[str, Any]:
    """Another schedule of the plan's graph: all of it on the first device, without a copy."""
    ops = plan.graph["ops"]
    last = {name: op["name"] for op in ops for name in [*op["inputs"], *op["outputs"]]}
    made = {name for op in ops for name in op["outputs"]}
    kept = {tensor["name"] for tensor in plan.graph["tensors"] if tensor.get("keep")}
    steps = [
        {"op": op["name"], "device": "gpu", "free": [t for t in last if last[t] == op["name"] and t in made - kept]}
        for op in ops
    ]
    graph = remora.DeviceGraph.from_json(plan.graph)
    # What a schedule says of itself has to be right, too.
    schedule = plan.schedule | {"steps": steps, "budget": {}, "status": "feasible"}
    schedule["duration"] = schedule["lower_bound"] = sum(op.get("on", {}).get("gpu", op)["duration"] for op in ops)
    verdict = remora.verify(graph, remora.DeviceSchedule.from_json(json.dumps(schedule), graph))
    return schedule | {"peak_memory": verdict.peak}


def test_a_given_schedule_runs() -> None:
    model, inputs = unet()
    case = Case(model, classified, inputs, store("60%", bandwidth=1e12))
    first = case.check()
    assert first.copies > 0
    plain = every_op_once(first)
    with pytest.raises(rt.SolverError, match="step"):
        case.step.use(plain | {"steps": plain["steps"][1:]})
    assert case.step.plan is first
    case.step.use(plain)
    second = case.check()
    assert second.copies == second.recomputes == 0
    assert second.predicted_peak["gpu"] > first.predicted_peak["gpu"]


def test_what_makes_no_sense_is_refused() -> None:
    def body(x: torch.Tensor) -> torch.Tensor:
        return x.sum()

    with pytest.raises(ValueError, match="two"):
        rt.train_step_over(body, devices=store("60%")[:1])
    with pytest.raises(ValueError, match="bytes"):
        rt.train_step_over(body, devices=[rt.TrainDevice("a", "cpu"), rt.TrainDevice("b", "cpu", budget="60%")])
    with pytest.raises(TypeError, match="arena"):
        rt.train_step_over(body, devices=store("60%"), arena=True)
    with pytest.raises(rt.CaptureError, match="first call"):
        rt.train_step_over(body, devices=store("60%")).use({})
