# SPDX-License-Identifier: Apache-2.0
"""torchtitan's graph trainer on the CPU: a program that trains its configurations, for torchtitan_test.py.

torchtitan knows accelerators only, and its wheel has no data. So the CPU stands for one here; text and tokenizer are
made; and since FlexAttention has no backward on the CPU, models take the attention that torchtitan's own tests of its
graphs take there. It runs in the environment of tests/torch/setup_titan.

Usage: titan.py JOBS.json     [{"config": ..., "compile": {...}, "steps": 2}, ...]; prints a JSON row for each
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import socket
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import torch
import torch._utils
from tokenizers import Tokenizer, decoders, models, pre_tokenizers


def stand_in() -> None:
    """Lets the CPU stand for an accelerator; before torchtitan is imported."""
    torch._utils._get_available_device_type = lambda: "cpu"
    memory = types.SimpleNamespace(total_memory=2**34, name="cpu")
    torch.cpu.get_device_name = lambda device=None: "cpu"
    torch.cpu.get_device_properties = lambda device=None: memory
    torch.cpu.reset_peak_memory_stats = torch.cpu.empty_cache = lambda: None
    torch.cpu.memory_stats = lambda device=None: {}
    torch.cpu.current_device = lambda: 0
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": port}


def write_assets(folder: Path) -> None:
    """A tokenizer of single bytes, and some text."""
    (folder / "tokenizer").mkdir()
    (folder / "data").mkdir()
    words = ["<|begin_of_text|>", "<|end_of_text|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer" / "tokenizer.json"))
    ends = {"bos_token": words[0], "eos_token": words[1]}
    (folder / "tokenizer" / "tokenizer_config.json").write_text(json.dumps(ends))
    draw = random.Random(0)
    rows = [{"text": " ".join(str(draw.randrange(10**6)) for _ in range(200))} for _ in range(100)]
    (folder / "data" / "data.json").write_text("\n".join(map(json.dumps, rows)))


def configuration(name: str, folder: Path, given: dict[str, Any], **training: Any) -> Any:
    """A configuration of the graph trainer by its name, as it can run here."""
    from torchtitan.models.common.attention import ScaledDotProductAttention

    from remora.torchtitan import config_registry

    config = getattr(config_registry, name)()
    for layer in config.model_spec.model.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    config.hf_assets_path, config.dataloader.dataset_path = str(folder / "tokenizer"), str(folder / "data")
    config.dump_folder = str(folder)
    config.debug.seed, config.debug.enable_structured_logging = 0, False
    config.training.disable_cuda_graphs = True
    for key, value in training.items():
        setattr(config.training, key, value)
    for key, value in given.items():
        setattr(config.compile, key, value)
    return config


def trained(config: Any) -> dict[str, Any]:
    """The losses of some steps as hexadecimal numbers, a digest of the parameters, and the bytes of the last step."""
    from remora.torch.measure import allocated

    trainer = config.build()
    losses: list[str] = []
    taken: list[int] = []
    step = trainer._make_fx_forward_backward_step

    def recorded(*arguments: Any) -> torch.Tensor:
        loss, peak = allocated(lambda: step(*arguments))
        losses.append(float(loss).hex())
        taken.append(peak)
        return loss  # type: ignore[no-any-return]

    trainer._make_fx_forward_backward_step = recorded
    trainer.train()
    trainer.close()
    digest = hashlib.sha256()
    for parameter in trainer.model_parts[0].parameters():
        whole = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
        digest.update(whole.detach().numpy().tobytes())
    return {"losses": losses, "parameters": digest.hexdigest(), "taken": taken[-1]}


def main() -> None:
    """Does the jobs, one after the other."""
    stand_in()
    from torchtitan.tools.logging import logger

    from remora.torch import BudgetError

    told: list[str] = []
    heard = logging.Handler()
    heard.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(heard)
    logger.setLevel(logging.INFO)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_assets(folder)
        for job in json.loads(Path(sys.argv[1]).read_text()):
            told.clear()
            training = {"steps": 2, "seq_len": 128, "local_batch_size": 4, "mixed_precision_param": "float32"}
            config = configuration(job["config"], folder, {"cost": "flops", **job["compile"]}, **training)
            try:
                row = trained(config)
            except BudgetError as refusal:
                row = {"refused": str(refusal), "least": refusal.least}
            print("ROW", json.dumps({**row, "said": [text for text in told if text.startswith("remora")]}), flush=True)


if __name__ == "__main__":
    main()
