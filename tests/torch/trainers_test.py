# SPDX-License-Identifier: Apache-2.0
"""Real training loops: parameters after some optimizer steps equal those of the plain loop in every bit.

Hugging Face's Trainer, accelerate, PEFT, Lightning, timm, diffusers, and loops as people write them.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import checking
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import remora.torch as rt

os.environ.setdefault("WANDB_DISABLED", "true")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")
OPTIONS: dict[str, Any] = {**checking.OPTIONS, "cost": "flops"}
STEPS = 5


def gpt2(**more: Any) -> nn.Module:
    config = transformers.GPT2Config(
        vocab_size=99, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2, pad_token_id=0
    )
    config.update(more)
    return transformers.GPT2LMHeadModel(config)  # type: ignore[no-any-return]


def llama() -> nn.Module:
    config = transformers.LlamaConfig(
        vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)  # type: ignore[no-any-return]


def bert() -> nn.Module:
    config = transformers.BertConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=64,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)  # type: ignore[no-any-return]


def t5() -> nn.Module:
    config = transformers.T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=2, decoder_start_token_id=0, pad_token_id=0,
        eos_token_id=2,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config)  # type: ignore[no-any-return]


MODELS: dict[str, Callable[[], nn.Module]] = {"gpt2": gpt2, "llama": llama, "bert": bert, "t5": t5}


class Rows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """So many rows of tokens, the same in each process."""

    def __init__(self, kind: str, count: int) -> None:
        generator = torch.Generator().manual_seed(count)
        self.tokens = torch.randint(3, 99, (count, 16), generator=generator)
        self.kind = kind

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        labels = self.tokens[i, 0] % 2 if self.kind == "bert" else self.tokens[i]
        return {"input_ids": self.tokens[i], "attention_mask": torch.ones(16, dtype=torch.long), "labels": labels}


def trained(
    model: nn.Module,
    kind: str,
    folder: Path,
    resume: str | None = None,
    callbacks: Any = (),
    data: Any = None,
    data_collator: Any = None,
    **more: Any,
) -> Any:
    words: dict[str, Any] = {
        "output_dir": str(folder), "max_steps": STEPS, "per_device_train_batch_size": 4, "learning_rate": 1e-2,
        "report_to": [], "save_strategy": "no", "use_cpu": True, "seed": 3, "disable_tqdm": True, "logging_steps": 1000,
        "dataloader_pin_memory": False, "lr_scheduler_type": "cosine",
    }  # fmt: skip
    arguments = transformers.TrainingArguments(**{**words, **more})
    trainer = transformers.Trainer(
        model=model,
        args=arguments,
        train_dataset=data or Rows(kind, 40),
        eval_dataset=Rows(kind, 6),
        data_collator=data_collator,
        callbacks=list(callbacks),
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def equal(mine: nn.Module, plain: nn.Module) -> list[str]:
    theirs = plain.state_dict()
    return [name for name, value in mine.state_dict().items() if not checking.same(value, theirs[name])]


@pytest.fixture(autouse=True)
def no_logs(tmp_path: Path) -> Iterator[None]:
    transformers.utils.logging.set_verbosity_error()
    yield


@pytest.mark.parametrize("kind", list(MODELS))
def test_trainer_trains_and_evaluates(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    plain = MODELS[kind]()
    mine = copy.deepcopy(plain)
    rt.wrap(mine, budget="70%", **OPTIONS)
    losses = []
    for model in (plain, mine):
        torch.manual_seed(1)
        trainer = trained(model, kind, tmp_path / str(len(losses)), eval_strategy="steps", eval_steps=2)
        losses.append(trainer.evaluate()["eval_loss"])
    assert losses[0] == losses[1]
    assert equal(mine, plain) == []
    assert all(plan.predicted_peak <= plan.budget for plan in rt.plans(mine))
    assert rt.plans(mine)[0].recomputes > 0


@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize("bf16", [False, True])
def test_a_callback_chooses_checkpoints_when_training_begins(kind: str, bf16: bool, tmp_path: Path) -> None:
    from remora.integrations.transformers import AutoCheckpoint

    torch.manual_seed(0)
    plain = MODELS[kind]()
    mine = copy.deepcopy(plain)
    for module in plain.modules():
        if hasattr(module, "config"):
            module.config.use_cache = False  # what the callback does, which changes the last bits of T5's products
    for model, callbacks in ((plain, []), (mine, [AutoCheckpoint("85%", time_limit=2.0)])):
        torch.manual_seed(1)
        trained(model, kind, tmp_path / str(len(callbacks)), callbacks=callbacks, bf16=bf16, max_steps=3)
    assert equal(mine, plain) == []
    assert rt.checkpoints(mine).modules


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_callback_puts_a_loss_over_many_words_in_slices(kind: str, tmp_path: Path) -> None:
    from remora.integrations.transformers import AutoCheckpoint

    sizes: dict[str, Any] = {"vocab_size": 3000, "bos_token_id": 0, "eos_token_id": 0}
    torch.manual_seed(0)
    if kind == "gpt2":
        shape = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=64, **sizes)
        plain: nn.Module = transformers.GPT2LMHeadModel(shape)
    else:
        more = {"num_hidden_layers": 2, "num_attention_heads": 2, **sizes}
        plain = transformers.LlamaForCausalLM(transformers.LlamaConfig(hidden_size=32, intermediate_size=64, **more))
    data = torch.utils.data.StackDataset(input_ids=(rows := torch.randint(0, 3000, (16, 64))), labels=rows)
    models = {name: copy.deepcopy(plain) for name in ("none", "auto")}

    def run(name: str, budget: int | str) -> None:
        torch.manual_seed(1)
        callback = AutoCheckpoint(budget, reserve=0, slices=name, time_limit=1.0)  # type: ignore[arg-type]
        trained(models[name], "gpt2", tmp_path / name, data=data, callbacks=[callback], max_steps=3)

    with pytest.raises(rt.BudgetError) as refusal:
        run("none", "1%")
    budget = refusal.value.least // 2
    run("auto", budget)
    plan = rt.checkpoints(models["auto"])
    assert plan.slices.keys() == {"lm_head"} and max(plan.measured_peak, plan.predicted_peak) <= budget
    run("none", "100%")
    theirs = dict(models["none"].named_parameters())
    for name, mine in models["auto"].named_parameters():
        torch.testing.assert_close(mine, theirs[name], rtol=1e-3, atol=1e-5, msg=name)


class Ragged(Rows):
    """Rows of many lengths; the first ones are short."""

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        length = (4, 5, 16, 9)[i // 4 % 4]
        return {name: value[:length] for name, value in super().__getitem__(i).items()}


def padded_rows(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    pad = torch.nn.utils.rnn.pad_sequence
    return {name: pad([row[name] for row in rows], batch_first=True) for name in rows[0]}


def test_a_callback_plans_for_the_longest_rows(tmp_path: Path) -> None:
    from remora.integrations.transformers import AutoCheckpoint

    torch.manual_seed(0)
    plain = gpt2()
    plain.config.use_cache = False
    mine = copy.deepcopy(plain)
    for model, callbacks in ((plain, []), (mine, [AutoCheckpoint("85%", time_limit=2.0)])):
        torch.manual_seed(1)
        words = {"callbacks": callbacks, "max_steps": 3, "data": Ragged("gpt2", 40), "data_collator": padded_rows}
        if callbacks:
            with pytest.warns(
                rt.RemoraWarning, match=r"rows of up to 16 elements \(input_ids\), the longest of 40 rows"
            ):
                trained(model, "gpt2", tmp_path / "mine", **words)
        else:
            trained(model, "gpt2", tmp_path / "plain", **words)
    assert equal(mine, plain) == []
    longest = padded_rows([Ragged("gpt2", 40)[i] for i in range(8, 12)])
    assert rt.checkpoints(mine).unscheduled_peak == planned_for(copy.deepcopy(plain), longest).unscheduled_peak


def planned_for(model: nn.Module, batch: dict[str, torch.Tensor]) -> Any:
    model.train()
    return rt.checkpoints(rt.auto_checkpoint(model, batch, "100%", time_limit=2.0))


def test_the_longest_rows_are_those_of_each_field_first() -> None:
    from remora.integrations.transformers import longest_rows

    rows = [{"a": [0] * a, "b": "x" * b} for a, b in ((5, 5), (9, 0), (6, 6), (1, 8), (7, 5))]
    with pytest.warns(rt.RemoraWarning, match=r"up to 9 elements \(a\), the longest of 5 rows"):
        assert longest_rows(rows, 3) == [rows[1], rows[3], rows[2]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alike = [torch.full((3,), float(i)) for i in range(4)]
        assert [row[0].item() for row in longest_rows(alike, 2)] == [0.0, 1.0]


def test_a_callback_leaves_untrained_what_hooks_update(tmp_path: Path) -> None:
    from remora.integrations.transformers import AutoCheckpoint

    torch.manual_seed(0)
    plain = gpt2()
    plain.config.use_cache = False
    mine = copy.deepcopy(plain)
    for model, callbacks in ((plain, []), (mine, [AutoCheckpoint("85%", time_limit=2.0)])):
        optimizers = {p: torch.optim.SGD([p], 1e-2, momentum=0.9) for p in model.parameters()}

        def update(p: torch.Tensor, optimizers: dict[Any, torch.optim.Optimizer] = optimizers) -> None:
            optimizers[p].step()
            p.grad = None

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(update)
        torch.manual_seed(1)
        trained(model, "gpt2", tmp_path / str(len(callbacks)), callbacks=callbacks, max_steps=3)
    assert equal(mine, plain) == []
    assert rt.checkpoints(mine).modules


@pytest.mark.parametrize("kind", list(MODELS))
def test_a_step_by_hand_takes_what_was_predicted(kind: str) -> None:
    torch.manual_seed(0)
    batch = torch.utils.data.default_collate([Rows(kind, 4)[i] for i in range(4)])

    def loss(model: nn.Module, *values: torch.Tensor) -> torch.Tensor:
        return model(**dict(zip(batch, values, strict=True))).loss  # type: ignore[no-any-return]

    model = MODELS[kind]()
    loss(model, *batch.values())  # BERT learns what kind of problem it has
    checking.check_step(model, loss, tuple(batch.values()), "85%")


@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5"])
def test_a_wrapped_model_generates_while_it_is_trained(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    plain = MODELS[kind]()
    mine = rt.wrap(copy.deepcopy(plain), budget="70%", **OPTIONS)
    prompt = Rows(kind, 2).tokens
    written = []
    for model in (plain, mine):
        torch.manual_seed(1)
        trained(model, kind, tmp_path / str(len(written)), max_steps=2)
        model.eval()
        written.append(model.generate(prompt, max_new_tokens=16, do_sample=False))
    assert torch.equal(written[0], written[1])
    assert len(rt.plans(mine)) == 1


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_accumulation_bf16_clipping_and_the_models_own_checkpoints(
    kind: str, checkpointing: bool, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    plain = MODELS[kind]()
    mine = rt.wrap(copy.deepcopy(plain), budget="75%", **OPTIONS)
    more = {
        "gradient_accumulation_steps": 2, "bf16": True, "max_grad_norm": 0.5, "gradient_checkpointing": checkpointing,
        "max_steps": 3,
    }  # fmt: skip
    for i, model in enumerate((plain, mine)):
        torch.manual_seed(1)
        trained(model, kind, tmp_path / str(i), **more)
    assert equal(mine, plain) == []
    assert all((plan.checkpoints > 0) == checkpointing for plan in rt.plans(mine))


def test_a_run_is_resumed_from_its_checkpoint(tmp_path: Path) -> None:
    torch.manual_seed(0)
    plain = gpt2()
    mine, again = copy.deepcopy(plain), copy.deepcopy(plain)
    torch.manual_seed(1)
    trained(plain, "gpt2", tmp_path / "plain")
    rt.wrap(mine, budget="70%", **OPTIONS)
    torch.manual_seed(1)
    trained(mine, "gpt2", tmp_path / "mine", save_strategy="steps", save_steps=2)
    rt.wrap(again, budget="70%", **OPTIONS)
    trained(again, "gpt2", tmp_path / "again", resume=str(tmp_path / "mine" / "checkpoint-2"))
    assert equal(mine, plain) == []
    assert equal(again, plain) == []


@pytest.mark.parametrize("checkpointing", [False, True])
def test_lora(checkpointing: bool, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    config = peft.LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True, lora_dropout=0.1)
    plain = peft.get_peft_model(gpt2(), config)
    mine = rt.wrap(copy.deepcopy(plain), budget="80%", **OPTIONS)
    torch.manual_seed(1)
    trained(plain, "gpt2", tmp_path / "plain", gradient_checkpointing=checkpointing)
    torch.manual_seed(1)
    if checkpointing:  # PEFT then calls requires_grad_() on what the embedding gives
        with pytest.raises(rt.CaptureError, match="gradient checkpointing off"):
            trained(mine, "gpt2", tmp_path / "mine", gradient_checkpointing=True)
        return
    trained(mine, "gpt2", tmp_path / "mine")
    assert equal(mine, plain) == []


def test_accelerate(tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    torch.manual_seed(0)
    plain = gpt2()
    mine = rt.wrap(copy.deepcopy(plain), budget="70%", **OPTIONS)
    for given in (plain, mine):
        torch.manual_seed(1)
        accelerator = accelerate.Accelerator(cpu=True)
        optimizer = torch.optim.AdamW(given.parameters(), lr=1e-2)
        loader = torch.utils.data.DataLoader(Rows("gpt2", 20), batch_size=4)
        model, optimizer, loader = accelerator.prepare(given, optimizer, loader)
        for batch in loader:
            accelerator.backward(model(**batch).loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    assert equal(mine, plain) == []
    assert len(rt.plans(mine)) == 1


class Written(nn.Module):
    """A small GPT as in nanoGPT."""

    def __init__(self) -> None:
        super().__init__()
        self.net = gpt2(attn_implementation="eager")

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.net(input_ids=tokens).logits
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


@pytest.mark.parametrize("how", ["wrap", "train_step"])
def test_a_nanogpt_loop_with_a_scaler_and_an_average_of_the_weights(how: str) -> None:
    torch.manual_seed(0)
    plain = Written()
    mine = copy.deepcopy(plain)
    if how == "wrap":
        rt.wrap(mine, budget="70%", **OPTIONS)

    def body(tokens: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            loss = mine(tokens)
        (loss * scale / 2).backward()
        return loss.detach()

    step = rt.train_step(body, budget="70%", **OPTIONS)
    averages = []
    tokens = Rows("gpt2", 40).tokens
    for model in (plain, mine):
        torch.manual_seed(1)
        scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        average = torch.optim.swa_utils.AveragedModel(model)
        for i in range(STEPS):
            for half in range(2):
                batch = tokens[8 * i + 4 * half : 8 * i + 4 * half + 4]
                if model is mine and how == "train_step":
                    step(batch, rt.scale_of(scaler))
                    continue
                with torch.autocast("cpu", torch.bfloat16):
                    loss = model(batch)
                scaler.scale(loss / 2).backward() if how == "wrap" else (loss * rt.scale_of(scaler) / 2).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            optimizer.zero_grad()
            average.update_parameters(model)
        averages.append(average)
    assert equal(mine, plain) == []
    assert equal(averages[1], averages[0]) == []


@pytest.mark.parametrize("how", ["module", "net"])
def test_lightning(how: str, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")

    class Task(lightning.LightningModule):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(32, 32), nn.GELU(), nn.Dropout(0.1))])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)  # type: ignore[no-any-return]

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            loss = self.net(batch[0]).square().mean()
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: Any, _: int) -> None:
            self.log("val", self.net(batch[0]).square().mean())

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    torch.manual_seed(0)
    plain = Task()
    mine = copy.deepcopy(plain)
    rt.wrap(mine if how == "module" else mine.net, budget="75%", **OPTIONS)
    data = torch.utils.data.TensorDataset(torch.randn(800, 32, generator=torch.Generator().manual_seed(1)))
    for task in (plain, mine):
        torch.manual_seed(1)
        trainer = lightning.Trainer(
            max_steps=STEPS, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, default_root_dir=tmp_path, val_check_interval=2,
        )  # fmt: skip
        trainer.fit(
            task,
            torch.utils.data.DataLoader(data, batch_size=160),
            torch.utils.data.DataLoader(data, batch_size=160),
        )
    assert equal(mine, plain) == []
    if how == "net":
        assert len(rt.plans(mine.net)) == 1
    else:
        assert not rt.report(mine).holds, "Lightning calls training_step, not forward"


def test_lightning_chooses_checkpoints_at_the_first_batch(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    from remora.integrations.lightning import AutoCheckpoint

    class Task(lightning.LightningModule):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            parts = [
                nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32), nn.Dropout(0.1)) for _ in range(4)
            ]
            self.net = nn.Sequential(*parts)

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            loss = self.net(batch[0]).square().mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-2)

    torch.manual_seed(0)
    plain = Task()
    mine = copy.deepcopy(plain)
    data = torch.utils.data.TensorDataset(torch.randn(800, 32, generator=torch.Generator().manual_seed(1)))
    for task, callbacks in ((plain, []), (mine, [AutoCheckpoint("70%", time_limit=2.0)])):
        torch.manual_seed(1)
        trainer = lightning.Trainer(
            max_steps=STEPS, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, default_root_dir=tmp_path, callbacks=callbacks,
        )  # fmt: skip
        trainer.fit(task, torch.utils.data.DataLoader(data, batch_size=160, shuffle=True))
    assert equal(mine, plain) == []
    assert rt.checkpoints(mine).modules
    assert "log" not in mine.__dict__


def test_a_lightning_module_that_optimizes_by_itself_is_refused_before_it_trains(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")
    from remora.integrations.lightning import AutoCheckpoint

    class Task(lightning.LightningModule):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.net, self.automatic_optimization = nn.Linear(32, 32), False

        def training_step(self, batch: Any, _: int) -> None:
            self.manual_backward(self.net(batch[0]).square().mean())
            self.optimizers().step()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    task = Task()
    before = copy.deepcopy(task.state_dict())
    trainer = lightning.Trainer(
        max_steps=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=tmp_path, callbacks=[AutoCheckpoint("70%", time_limit=2.0)],
    )  # fmt: skip
    data = torch.utils.data.TensorDataset(torch.randn(8, 32))
    with pytest.raises(rt.CheckpointError, match="automatic_optimization = False"):
        trainer.fit(task, torch.utils.data.DataLoader(data, batch_size=4))
    assert all(torch.equal(value, before[name]) for name, value in task.state_dict().items())


def test_timm_with_mixup_and_drop_path() -> None:
    timm = pytest.importorskip("timm")
    losses = pytest.importorskip("timm.loss")
    torch.manual_seed(0)
    plain = timm.create_model("convnext_atto", num_classes=10, drop_path_rate=0.1)
    mine = copy.deepcopy(plain)
    mixup = timm.data.Mixup(mixup_alpha=0.8, num_classes=10)
    loss = losses.SoftTargetCrossEntropy()

    def body(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        value = loss(mine(x), y)
        value.backward()
        return value.detach()  # type: ignore[no-any-return]

    step = rt.train_step(body, budget="90%", **OPTIONS)
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(STEPS, 4, 3, 32, 32, generator=generator)
    labels = torch.randint(0, 10, (STEPS, 4), generator=generator)
    import numpy as np

    for model in (plain, mine):
        torch.manual_seed(1)
        np.random.seed(1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for x, y in zip(images, labels, strict=True):
            mixed, soft = mixup(x.clone(), y)
            if model is mine:
                step(mixed, soft)
            else:
                loss(model(mixed), soft).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert equal(mine, plain) == []
    assert step.plan.recomputes > 0


def test_a_diffusion_unet_with_noise_inside_the_step() -> None:
    diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(0)
    plain = diffusers.UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32),
        norm_num_groups=4, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8,
    )  # fmt: skip
    mine = copy.deepcopy(plain)

    def run(model: nn.Module, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        noise = torch.randn_like(x)
        value = F.mse_loss(model(x * 0.7 + noise * 0.3, t).sample, noise)
        value.backward()
        return value.detach()

    step = rt.train_step(lambda x, t: run(mine, x, t), budget="75%", **OPTIONS)
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(STEPS, 2, 3, 16, 16, generator=generator)
    times = torch.randint(0, 1000, (STEPS, 2), generator=generator)
    for model in (plain, mine):
        torch.manual_seed(1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for x, t in zip(images, times, strict=True):
            step(x, t) if model is mine else run(model, x, t)
            optimizer.step()
            optimizer.zero_grad()
    assert equal(mine, plain) == []
