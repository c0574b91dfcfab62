# SPDX-License-Identifier: Apache-2.0
"""``remora fit config.json --batch 8 --length 4096 --device h100``: will this training fit? See docs/guide/fit.md."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from remora._arguments import write_text
from remora.errors import Error, InputError

if TYPE_CHECKING:
    from remora.torch.fit import FitPlan

_FITS, _PROVED, _NOT_FOUND, _BAD_USAGE, _BAD_INPUT = 0, 20, 21, 64, 65
_CLASSES = {
    "causal-lm": "AutoModelForCausalLM",
    "masked-lm": "AutoModelForMaskedLM",
    "seq2seq-lm": "AutoModelForSeq2SeqLM",
    "sequence-classification": "AutoModelForSequenceClassification",
    "image-classification": "AutoModelForImageClassification",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        self.print_usage(sys.stderr)
        self.exit(_BAD_USAGE, f"remora: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="remora fit",
        description="Reports whether a training step fits on a device, and how much slower it is there.",
    )
    parser.add_argument("config", metavar="CONFIG", help="a model's config.json of transformers, or its folder")
    parser.add_argument("--task", choices=_CLASSES, default="causal-lm", help="(default causal-lm)")
    parser.add_argument("--batch", type=int, default=1, help="samples in a batch (default 1)")
    parser.add_argument(
        "--length",
        type=_length,
        metavar="N[:M]",
        help="tokens of a sample (default: what the model has places for); a range is planned for the longest, with a "
        "schedule for each of a few ranges of lengths",
    )
    parser.add_argument("--plans", type=int, default=4, metavar="N", help="schedules for a range, at most (default 4)")
    parser.add_argument("--lora", type=int, metavar="RANK", help="only adapters of this rank are trained (needs peft)")
    parser.add_argument(
        "--device", default="", help="names or files (*.json), with commas between (default: this machine)"
    )
    parser.add_argument(
        "-b", "--budget", help="bytes for everything on the device, such as 20GiB (default: its memory)"
    )
    parser.add_argument("--optimizer", default="adamw", help="adamw (default), sgd, adafactor, …, none")
    parser.add_argument("--update", choices=("fused", "foreach", "in backward"), help="how it updates")
    parser.add_argument(
        "--precision", default="bf16", help="bf16 (autocast, default), fp32, fp16, pure-bf16, pure-fp16"
    )
    parser.add_argument("--ranks", type=int, default=1, help="processes that share the work (default 1)")
    parser.add_argument("--sharding", default="ddp", choices=("ddp", "fsdp"), help="how they share it (default ddp)")
    parser.add_argument("--average", action="store_true", help="a moving average of the weights is kept")
    parser.add_argument("--accumulate", type=int, default=1, metavar="N", help="micro-steps to an update (default 1)")
    parser.add_argument(
        "--reserve", default="0", metavar="SIZE", help="bytes that anything else takes on the device, such as 2GiB"
    )
    parser.add_argument("--largest", choices=("batch", "length"), help="find the largest that fits")
    parser.add_argument("--time-limit", type=float, default=15.0, help="seconds of the solver for a plan (default 15)")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the plans with graphs and schedules; - is standard output"
    )
    parser.add_argument("--svg", metavar="FILE", help="a picture of what takes the memory")
    return parser


def _length(text: str) -> tuple[int, int]:
    """A length, or a range of lengths with a colon, as the smallest and the largest."""
    low, _, high = text.partition(":")
    return int(low), int(high or low)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(_parser().parse_args(given))
    except ImportError as error:
        sys.stderr.write(f"remora: {error}; pip install 'remora[torch]' transformers\n")
        return _BAD_USAGE
    except (Error, OSError) as error:
        text = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            text = f"{error.filename}: {error.strerror}"
        sys.stderr.write(f"remora: {text}\n")
        return _BAD_INPUT


def _run(words: argparse.Namespace) -> int:
    import remora.torch.fit as fit

    model, batch = _model_of(words), _batch_of(words)
    options = {
        "optimizer": words.optimizer,
        "update": words.update,
        "precision": words.precision,
        "ranks": words.ranks,
        "sharding": words.sharding,
        "average": words.average,
        "accumulate": words.accumulate,
        "reserve": _size(words.reserve, "--reserve"),
        "time_limit": words.time_limit,
    }
    devices = [name for name in words.device.split(",") if name]
    if words.length is not None and words.length[0] < words.length[1]:
        if words.largest == "length" or "labels" not in batch or "input_ids" not in batch:
            raise InputError("--length", "a range is for tokens, and not for --largest length")
        options |= {"sizes": {"input_ids": words.length}, "plans": words.plans}
    if words.largest:
        return _largest(words, model, batch, devices, options)
    if devices and "sizes" in options:
        plans = [fit.plan(model, batch, budget=words.budget, device=device, **options) for device in devices]
    elif devices:
        plans = fit.fit_table({"": (model, batch)}, devices, budget=words.budget, **options).plans[""]
    else:
        plans = [fit.plan(model, batch, budget=words.budget, **options)]
    stream = sys.stderr if words.output == "-" else sys.stdout
    stream.write("\n".join(map(str, plans)) + "\n")
    _write(words.output, "[" + ",\n".join(plan.to_json() for plan in plans) + "]\n")
    _write(words.svg, fit.picture(plans))
    return _code(plans)


def _size(text: str, place: str) -> int:
    from remora._engine import parse_budget

    if "%" in text:
        raise InputError(place, f"{text!r} is not a number of bytes, such as 2GiB")
    try:
        return int(parse_budget(text, 0, 0)) if text.strip("0") else 0
    except InputError as error:
        raise InputError(place, error.message) from None


def _largest(words: argparse.Namespace, model: Any, batch: Any, devices: list[str], options: dict[str, Any]) -> int:
    import remora.torch.fit as fit

    found = []
    for device in devices or [""]:
        answer = fit.largest(model, batch, over=words.largest, budget=words.budget, device=device or None, **options)
        found.append(
            {
                "device": device,
                "over": answer.over,
                "without": answer.without,
                "within": answer.within,
                "proved": answer.proved,
                "curve": [[size, plan.total, plan.step_seconds, plan.throughput] for size, plan in answer.curve],
            }
        )
        stream = sys.stderr if words.output == "-" else sys.stdout
        stream.write(f"{device or 'this machine'}: {answer}\n")
    _write(words.output, json.dumps(found, indent=1) + "\n")
    return _FITS if any(row["within"] for row in found) else _NOT_FOUND


def _write(path: str | None, text: str) -> None:
    if path == "-":
        sys.stdout.write(text)
    elif path:
        write_text(path, text)


def _code(plans: Sequence[FitPlan]) -> int:
    if any(plan.fits for plan in plans):
        return _FITS
    return _PROVED if all(plan.proved for plan in plans) else _NOT_FOUND


def _configuration(path: str) -> Any:
    import transformers

    file = os.path.join(path, "config.json") if os.path.isdir(path) else path
    with open(file, encoding="utf-8") as text:
        try:
            read = json.load(text)
        except json.JSONDecodeError as error:
            raise InputError(file, f"is no JSON: {error}") from None
    if not isinstance(read, dict) or read.get("model_type") not in transformers.CONFIG_MAPPING:
        raise InputError(file, "is no configuration of a model that this version of transformers knows (model_type)")
    configuration = transformers.CONFIG_MAPPING[read["model_type"]].from_dict(read)
    configuration.use_cache = False
    return configuration


def _model_of(words: argparse.Namespace) -> Callable[[], Any]:
    configuration = _configuration(words.config)
    words.configuration = configuration

    def make() -> Any:
        import transformers

        model = getattr(transformers, _CLASSES[words.task]).from_config(configuration)
        if not words.lora:
            return model
        import peft

        return peft.get_peft_model(model, peft.LoraConfig(r=words.lora, target_modules="all-linear"))

    return make


def _batch_of(words: argparse.Namespace) -> dict[str, Any]:
    import torch

    configuration = words.configuration
    shortest, longest = words.length or (None, None)
    if words.batch < 1 or (shortest is not None and not 1 <= shortest <= longest):
        raise InputError("--batch" if words.batch < 1 else "--length", "is at least 1")
    with torch.device("meta"):
        if words.task == "image-classification":
            size = longest or getattr(configuration, "image_size", 224)
            shape = (words.batch, getattr(configuration, "num_channels", 3), size, size)
            return {"pixel_values": torch.empty(shape), "labels": torch.empty(words.batch, dtype=torch.long)}
        length = longest or getattr(configuration, "max_position_embeddings", None) or 1024
        tokens = torch.empty(words.batch, length, dtype=torch.long)
        labels = torch.empty(words.batch, dtype=torch.long) if "classification" in words.task else tokens
        return {"input_ids": tokens, "labels": labels}


if __name__ == "__main__":
    sys.exit(main())
