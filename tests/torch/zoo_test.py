# SPDX-License-Identifier: Apache-2.0
"""Every network of the zoo at 80, 60 and 50 % of its eager peak: equal in every bit at the predicted peak, or
infeasible.

As a program it prints a table: `python zoo_test.py [arena] [NAME ...]`.
"""

from __future__ import annotations

import sys
import time

import checking
import pytest
import torch
import zoo

import remora.torch as rt

PARTS = (0.8, 0.6, 0.5)
WRAPPED = ("resnet50", "vgg16", "mobilenet_v3", "vit_b_16", "gpt2", "bert", "llama", "unet", "fno", "gpt_tied")
PACKED = (
    "unet",
    "fno",
    "lstm",
    "experts",
    "gpt_tied",
    "gpt2",
    "bert",
    "whisper_encoder",
    "llama",
    "squeezenet",
    "mlp_mixer",
    "vgg16",
)
"""Those that run in one block of memory, too."""


def rows(name: str, arena: bool = False) -> list[str]:
    """Checks one network; what to tell of it, a line for each budget."""
    torch.manual_seed(0)
    start = time.perf_counter()
    model, inputs, loss = zoo.ZOO[name]()
    case = checking.Case(model, loss, inputs, budget="100%", arena=arena)
    check = case.check_packed if arena else case.check
    plan = check()
    lines = [
        f"{name} captured: {len(plan.graph['ops'])} ops, eager {case.eager.peak}, unscheduled "
        f"{plan.unscheduled_peak - plan.fixed_memory}, {time.perf_counter() - start:.0f} s"
    ]
    for part in PARTS:
        budget = plan.fixed_memory + int(part * case.eager.peak)
        try:
            case.step.set_budget(budget)
        except rt.BudgetError as refusal:
            assert refusal.least > budget
            lines.append(
                f"{name} {part:.0%}: infeasible, least {(refusal.least - plan.fixed_memory) / case.eager.peak:.1%}"
            )
            continue
        if memory := case.step.plan.memory:
            memory.release()  # else a smaller plan runs in the larger block
        found = check()
        peak, bound = (found.predicted_peak - plan.fixed_memory) / case.eager.peak, found.bound / found.unscheduled_time
        how = "exact, one block" if arena else "exact"
        lines.append(
            f"{name} {part:.0%}: {how}, peak {peak:.1%}, {found.recomputes} recomputes, time {found.overhead:+.2%}, "
            f"bound {bound - 1:+.2%}"
        )
    return lines


@pytest.mark.parametrize("name", zoo.ZOO)
def test_step(name: str) -> None:
    rows(name)


@pytest.mark.parametrize("name", PACKED)
def test_step_in_one_block(name: str) -> None:
    rows(name, arena=True)


@pytest.mark.parametrize("arena", [False, True], ids=["", "arena"])
@pytest.mark.parametrize("how", ["wrap", "compile"])
@pytest.mark.parametrize("name", WRAPPED)
def test_parts(name: str, how: str, arena: bool) -> None:
    model, inputs, _ = zoo.ZOO[name]()
    plan = checking.check_parts(model, inputs[:1], "90%", how, arena=arena)
    if arena:
        checking.check_arena(plan)


def test_a_hundred_optimizer_steps_give_the_same_losses() -> None:
    """GPT-2, whose dropout draws anew in every step."""
    curves = []
    for planned in (False, True):
        torch.manual_seed(0)
        model, inputs, loss = zoo.ZOO["gpt2"]()
        step = checking.Case.body(model, loss)
        if planned:
            step = rt.train_step(step, budget="60%", **checking.OPTIONS)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        torch.manual_seed(1)
        losses = []
        for _ in range(100):
            losses.append(step(*inputs).item())
            optimizer.step()
            optimizer.zero_grad()
        curves.append(losses)
    assert curves[0] == curves[1]
    assert curves[0][-1] < curves[0][0]


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    packed = sys.argv[1:2] == ["arena"]
    for chosen in sys.argv[2:] or PACKED if packed else sys.argv[1:] or zoo.ZOO:
        try:
            print("\n".join(rows(chosen, packed)), flush=True)
        except Exception as error:
            print(f"{chosen}: {type(error).__name__}: {str(error).strip()[:300]}", flush=True)
        torch._dynamo.reset()
