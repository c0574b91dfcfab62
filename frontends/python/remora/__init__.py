# SPDX-License-Identifier: Apache-2.0
"""Remora: schedules under a memory budget for tensor rematerialization.

Build or load a `Graph`, `solve` it under a budget, look at the `Schedule`; `sweep` gives the whole trade-off of memory
against time. docs/guide/python.md has examples.

Examples
--------
>>> import remora
>>> g = remora.Graph("chain")
>>> x = g.tensor("x", 1000)
>>> a = g.op("A", duration=3, inputs=[x], outputs={"a": 2000})
>>> b = g.op("B", duration=4, inputs=[a], outputs={"b": 500}, keep=True)
>>> remora.solve(g, "100%", time_limit=5).overhead
0.0
"""

from remora import _engine, _highs
from remora.axes import Axis, Cut
from remora.budgets import Bounds, BudgetBracket, bounds, least_budget
from remora.calls import Ordering
from remora.curve import Curve, CurvePoint, sweep
from remora.devices import Device, DeviceGraph, DeviceSchedule, DeviceStep, load_graph
from remora.errors import Certificate, Error, Infeasible, InputError, NoDeviceSchedule, NoSchedule, Refusal
from remora.graph import Graph, Op, Phase, Tensor
from remora.limits import Limits, Option, options, strategies
from remora.modes import InnerPeak, Mode, OpModes
from remora.ordering import Order, order
from remora.pipelining import DeviceNeed, PipelinePlan, PipelineTask, Stage, StageMode, load_stage, pipeline
from remora.placement import Buffer, Placement, load_banks, load_buffers, place
from remora.progress import Progress, SweepProgress
from remora.schedule import Arena, Residence, Schedule, Status, Step, evaluate
from remora.slices import SliceCost, SlicedRegion, WithoutSlices
from remora.solving import solve
from remora.verdict import DeviceVerdict, Verdict, verify

__version__ = _engine.version()
_highs.offer()

__all__ = [
    "Arena",
    "Axis",
    "Bounds",
    "BudgetBracket",
    "Buffer",
    "Certificate",
    "Curve",
    "CurvePoint",
    "Cut",
    "Device",
    "DeviceGraph",
    "DeviceNeed",
    "DeviceSchedule",
    "DeviceStep",
    "DeviceVerdict",
    "Error",
    "Graph",
    "Infeasible",
    "InnerPeak",
    "InputError",
    "Limits",
    "Mode",
    "NoDeviceSchedule",
    "NoSchedule",
    "Op",
    "OpModes",
    "Option",
    "Order",
    "Ordering",
    "Phase",
    "PipelinePlan",
    "PipelineTask",
    "Placement",
    "Progress",
    "Refusal",
    "Residence",
    "Schedule",
    "SliceCost",
    "SlicedRegion",
    "Stage",
    "StageMode",
    "Status",
    "Step",
    "SweepProgress",
    "Tensor",
    "Verdict",
    "WithoutSlices",
    "bounds",
    "evaluate",
    "least_budget",
    "load_banks",
    "load_buffers",
    "load_graph",
    "load_stage",
    "options",
    "order",
    "pipeline",
    "place",
    "solve",
    "strategies",
    "sweep",
    "verify",
]
